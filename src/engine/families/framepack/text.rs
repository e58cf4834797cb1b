//! Stage 1: prompts to what Llama and CLIP make of them. Texts are read as they are written.
//!
//! A prompt with times in it is several texts; which section hears which is decided later.

use safelight_core::families::framepack::LANGUAGE;
use safelight_core::tokens::HUNYUAN_PROMPT;

use crate::error::EngineError;
use crate::text::{EncodedText, EncoderFiles, PromptEmbeds, TextEmbeds, read_clip, read_language};
use crate::work::StageWork;

pub fn encode_text(work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = EncodedText::all_of(work.request)?;
    tch::no_grad(|| {
        let llama = EncoderFiles::first(&work.request.files);
        // Llama is gone before CLIP is there.
        let prompts = read_language(&llama, &texts, (LANGUAGE, &HUNYUAN_PROMPT), work)?;
        let clip = EncoderFiles::second(&work.request.files)?;
        let pooled = read_clip(&clip, &texts, work)?;
        let embeds = prompts.into_iter().zip(pooled);
        let embeds = embeds.map(|(read, pooled)| TextEmbeds {
            prompt: read.states,
            mask: Some(read.mask),
            pooled: Some(pooled),
        });
        PromptEmbeds::from_texts(&texts, embeds.collect(), work.capture)
    })
}
