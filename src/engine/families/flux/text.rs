//! Stage 1: prompts to what CLIP and T5 make of them. Texts are read as they are written.

use std::path::Path;

use safelight_core::job::GenerateRequest;
use safelight_core::lora;
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _, T5Config, T5Kind};
use tch::Tensor;

use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::place::Placement;
use crate::text::{EncoderFiles, PromptEmbeds, T5Encoder, Text, TextEmbeds, read_clip};

/// Ids of a text that T5 reads: in models that are told a guidance, and in the others.
const T5_LENGTHS: (usize, usize) = (512, 256);

pub fn encode_text(
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let texts = Text::all_of(request)?;
    tch::no_grad(|| {
        // CLIP is gone before T5 is there.
        let clip = EncoderFiles::first(&request.files);
        let Some(pooled) = read_clip(&clip, request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let Some(prompts) = read_t5(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let embeds = prompts
            .into_iter()
            .zip(pooled)
            .map(|(prompt, pooled)| TextEmbeds {
                prompt,
                mask: None,
                pooled: Some(pooled),
            });
        Ok(PromptEmbeds::of(&texts, embeds.collect(), capture))
    })
}

/// What the transformer attends to.
fn read_t5(
    request: &GenerateRequest,
    texts: &[Text],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Vec<Tensor>>, EngineError> {
    let files = EncoderFiles::second(&request.files)?;
    let config = T5Config::read_as(T5Kind::T5, files.home)?;
    let length = t5_length(request, &request.files.transformer)?;
    let tokenizer = files.tokenizer(length, config.vocab_size)?;
    let encoder = files.encoder(
        request,
        lora::T5,
        place,
        hooks,
        |w| T5Encoder::new(&config, w),
        T5Encoder::unexpected_keys,
    )?;
    let embeds = texts.iter().map(|text| {
        let tokens = tokenizer.encode(&text.text)?;
        if let Some(notice) = tokens.cut_notice(text.role) {
            hooks.warn(notice);
        }
        // Without a mask: Flux was trained to attend to padding.
        let Some(embeds) = encoder.forward(&tokens.ids, None, hooks) else {
            return Ok(None);
        };
        text.record_tokens(&files, &tokens, capture);
        text.record(&files, "last_hidden_state", &embeds, capture);
        Ok(Some(embeds))
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
