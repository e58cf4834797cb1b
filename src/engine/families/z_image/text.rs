//! Stage 1: prompts to what Qwen 3 makes of them. Texts are read as they are written, as a user's words to it.

use safelight_core::families::z_image::{LANGUAGE, PROMPT};

use crate::error::EngineError;
use crate::text::{PromptEmbeds, language_embeds};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    // As many tokens as the text has: the model has padding of its own.
    language_embeds((LANGUAGE, &PROMPT), work)
}
