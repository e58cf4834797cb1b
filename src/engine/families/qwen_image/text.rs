//! Stage 1: prompts to what Qwen 2.5 VL makes of them. Texts are read as they are written, as a picture that it is to
//! describe.

use safelight_core::families::qwen_image::{LANGUAGE, PROMPT};

use crate::error::EngineError;
use crate::text::{EncoderFiles, PromptEmbeds, Text, TextEmbeds, read_language};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = Text::all_of(work.request)?;
    tch::no_grad(|| {
        let files = EncoderFiles::first(&work.request.files);
        let prompts = read_language(&files, &texts, (LANGUAGE, &PROMPT), work)?;
        // As many tokens as the text has, none of them padding.
        let embeds = prompts.into_iter().map(|read| TextEmbeds {
            prompt: read.states,
            mask: None,
            pooled: None,
        });
        PromptEmbeds::of(&texts, embeds.collect(), work.capture)
    })
}
