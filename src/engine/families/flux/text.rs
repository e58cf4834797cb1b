//! Stage 1: prompts to what CLIP and T5 make of them. Texts are read as they are written.

use std::path::Path;

use safelight_core::job::GenerateRequest;
use safelight_core::lora;
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _, T5Config, T5Kind};
use tch::Tensor;

use crate::error::EngineError;
use crate::text::{EncoderFiles, PromptEmbeds, T5Encoder, Text, TextEmbeds, Tokens, read_clip};
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
    let config = T5Config::read_as(T5Kind::T5, files.home)?;
    let length = t5_length(request, &request.files.transformer)?;
    let tokenizer = files.tokenizer(length, config.vocab_size)?;
    let new = |w: &_| T5Encoder::new(&config, w);
    let encoder = files.encoder(lora::T5, work, new, T5Encoder::unexpected_keys)?;
    let embeds = texts.iter().map(|text| {
        let tokens = Tokens::of(&text.text, &tokenizer)?;
        if let Some(notice) = tokens.cut_notice(text.role) {
            work.hooks.warn(notice);
        }
        // Without a mask: Flux was trained to attend to padding.
        let embeds = encoder.forward(&tokens.ids, None, work.hooks);
        let embeds = embeds.ok_or(EngineError::Cancelled)?;
        text.record_tokens(&files, &tokens, work.capture);
        text.record(&files, "last_hidden_state", &embeds, work.capture);
        Ok(embeds)
    });
    embeds.collect()
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
