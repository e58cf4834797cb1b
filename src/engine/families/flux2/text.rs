//! Stage 1: prompts to what Qwen 3 makes of them, three states side by side. Texts are read as they are written, as a
//! user's words to it.

use safelight_core::families::flux2::{LANGUAGE, PROMPT};

use crate::error::EngineError;
use crate::text::{EncoderFiles, PromptEmbeds, Text, TextEmbeds, read_language};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = Text::all_of(work.request)?;
    tch::no_grad(|| {
        let files = EncoderFiles::first(&work.request.files);
        let prompts = read_language(&files, &texts, (LANGUAGE, &PROMPT), work)?;
        // The model was trained to attend to padding.
        let embeds = prompts.into_iter().map(|read| TextEmbeds {
            prompt: read.states,
            mask: None,
            pooled: None,
        });
        PromptEmbeds::of(&texts, embeds.collect(), work.capture)
    })
}
