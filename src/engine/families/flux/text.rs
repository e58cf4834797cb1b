//! Stage 1: prompts to what CLIP and T5 make of them. Texts are read as they are written.

use std::path::Path;

use safelight_core::job::GenerateRequest;
use safelight_core::lora;
use safelight_core::networks::{
    ClipTextConfig, FluxTransformerConfig, NetworkConfig as _, T5Config, T5Kind,
};
use tch::Tensor;

use super::state::{PromptEmbeds, TextEmbeds};
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::place::{Placement, warn_unexpected};
use crate::text::{ClipTextEncoder, T5Encoder, TextTokenizer, Tokens, with_loras};
use crate::weights::warn_unused_updates;

/// Ids of a text that CLIP reads.
const CLIP_LENGTH: i64 = 77;

/// The same for T5: in models that are told a guidance, and in the others.
const T5_LENGTHS: (usize, usize) = (512, 256);

/// A text and what it is for: `prompt` or `negative`.
type Role<'a> = (&'static str, &'a str);

/// The negative prompt is read only where the request has real guidance.
pub fn encode_text(
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let mut texts = vec![("prompt", &request.prompt[..])];
    if request.is_guided() {
        texts.push(("negative", &request.negative_prompt));
    }
    tch::no_grad(|| {
        // CLIP is gone before T5 is there.
        let Some(pooled) = read_clip(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let Some(embeds) = read_t5(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        for ((role, _), (pooled, embeds)) in texts.iter().zip(pooled.iter().zip(&embeds)) {
            let prefix = if *role == "prompt" { "" } else { "negative_" };
            capture.put(format!("{prefix}prompt_embeds"), embeds);
            capture.put(format!("{prefix}pooled_prompt_embeds"), pooled);
        }
        let pairs = pooled.into_iter().zip(embeds);
        let mut pairs = pairs.map(|(pooled, prompt)| TextEmbeds { prompt, pooled });
        Ok(pairs.next().map(|prompt| PromptEmbeds {
            prompt,
            negative: pairs.next(),
        }))
    })
}

/// The pooled texts.
fn read_clip(
    request: &GenerateRequest,
    texts: &[Role<'_>],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Vec<Tensor>>, EngineError> {
    let files = &request.files;
    let config = ClipTextConfig::read(&files.text_encoder)?;
    let length = CLIP_LENGTH.min(config.max_position_embeddings) as usize;
    let class = files.tokenizer_class.as_deref();
    let tokenizer = TextTokenizer::open(&files.tokenizer, class, length)?;
    tokenizer.check_ids(config.vocab_size)?;
    let (home, loras) = (&files.text_encoder, &request.loras);
    let encoder = place.network("text encoder", home, loras, || {
        let weights = with_loras(&place.open(home)?, loras, lora::CLIP)?;
        let encoder = ClipTextEncoder::new(&config, &weights)?;
        let unexpected = ClipTextEncoder::unexpected_keys(&weights);
        warn_unexpected(&unexpected, "text encoder", hooks);
        warn_unused_updates(&weights, hooks);
        Ok(encoder)
    })?;
    let mut all = Vec::new();
    for (role, text) in texts {
        let tokens = tokenizer.encode(text)?;
        let Some(embeds) = encoder.forward(&tokens.ids, hooks) else {
            return Ok(None);
        };
        record_tokens(&format!("tokenizer.{role}"), &tokens, capture);
        let name = |part: &str| format!("text_encoder.{role}.{part}");
        capture.put(name("last_hidden_state"), &embeds.last_hidden_state);
        capture.put(name("pooler_output"), &embeds.pooler_output);
        all.push(embeds.pooler_output);
    }
    Ok(Some(all))
}

/// What the transformer attends to.
fn read_t5(
    request: &GenerateRequest,
    texts: &[Role<'_>],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Vec<Tensor>>, EngineError> {
    let files = &request.files;
    let lacks = |what: &str| EngineError::Request {
        reason: format!("this model has no {what} for its second text encoder"),
    };
    let home = files.text_encoder_2.as_deref();
    let home = home.ok_or_else(|| lacks("weights"))?;
    let tokenizer_home = files.tokenizer_2.as_deref();
    let tokenizer_home = tokenizer_home.ok_or_else(|| lacks("tokenizer"))?;
    let config = T5Config::read_as(T5Kind::T5, home)?;
    let length = t5_length(request, &files.transformer)?;
    let class = files.tokenizer_2_class.as_deref();
    let tokenizer = TextTokenizer::open(tokenizer_home, class, length)?;
    tokenizer.check_ids(config.vocab_size)?;
    let loras = &request.loras;
    let encoder = place.network("second text encoder", home, loras, || {
        let weights = with_loras(&place.open(home)?, loras, lora::T5)?;
        let encoder = T5Encoder::new(&config, &weights)?;
        let unexpected = T5Encoder::unexpected_keys(&weights);
        warn_unexpected(&unexpected, "second text encoder", hooks);
        warn_unused_updates(&weights, hooks);
        Ok(encoder)
    })?;
    let mut all = Vec::new();
    for (role, text) in texts {
        let tokens = tokenizer.encode(text)?;
        if let Some(notice) = tokens.cut_notice(role) {
            hooks.warn(notice);
        }
        // Without a mask: Flux was trained to attend to padding.
        let Some(embeds) = encoder.forward(&tokens.ids, None, hooks) else {
            return Ok(None);
        };
        record_tokens(&format!("tokenizer_2.{role}"), &tokens, capture);
        capture.put(format!("text_encoder_2.{role}.last_hidden_state"), &embeds);
        all.push(embeds);
    }
    Ok(Some(all))
}

fn record_tokens(name: &str, tokens: &Tokens, capture: &mut Capture) {
    capture.put(format!("{name}.input_ids"), &tokens.ids);
    capture.put(format!("{name}.attention_mask"), &tokens.mask);
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
