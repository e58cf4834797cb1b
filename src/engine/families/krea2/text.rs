//! Stage 1: prompts to twelve states of Qwen 3 VL of each token. Texts are read as they are written, as a picture that it
//! is to describe.

use safelight_core::families::krea2::{LANGUAGE, PROMPT};

use crate::error::EngineError;
use crate::text::{PromptEmbeds, language_embeds};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    language_embeds((LANGUAGE, &PROMPT), work)
}
