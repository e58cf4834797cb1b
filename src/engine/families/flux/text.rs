//! Stage 1: prompts to what CLIP and T5 make of them. Texts are read as they are written.

use std::path::Path;

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _};
use tch::Tensor;

use crate::error::EngineError;
use crate::text::{self, EncoderFiles, Padding, PromptEmbeds, Text, TextEmbeds, read_clip};
use crate::work::Work;

/// Ids of a text that T5 reads: in models that are told a guidance, and in the others.
const T5_LENGTHS: (usize, usize) = (512, 256);

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = Text::all_of(work.request)?;
    tch::no_grad(|| {
        // CLIP is gone before T5 is there.
        let clip = EncoderFiles::first(&work.request.files);
        let pooled = read_clip(&clip, &texts, work)?;
        let prompts = read_t5(&texts, work)?;
        let embeds = prompts
            .into_iter()
            .zip(pooled)
            .map(|(prompt, pooled)| TextEmbeds {
                prompt,
                mask: None,
                pooled: Some(pooled),
            });
        PromptEmbeds::of(&texts, embeds.collect(), work.capture)
    })
}

/// What the transformer attends to.
fn read_t5(texts: &[Text], work: &mut Work<'_>) -> Result<Vec<Tensor>, EngineError> {
    let request = work.request;
    let files = EncoderFiles::second(&request.files)?;
    let length = t5_length(request, &request.files.transformer)?;
    // Flux was trained to attend to padding.
    let read = text::read_t5(&files, texts, length, Padding::Seen, work)?;
    Ok(read.into_iter().map(|text| text.states).collect())
}

/// As many tokens as the request wants, or as the model was trained with.
fn t5_length(request: &GenerateRequest, transformer: &Path) -> Result<usize, EngineError> {
    if let Some(wanted) = request.max_sequence_length {
        return Ok(wanted as usize);
    }
    let config = FluxTransformerConfig::read(transformer)?;
    let (told, others) = T5_LENGTHS;
    Ok(if config.guidance_embeds { told } else { others })
}
