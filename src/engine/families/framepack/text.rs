//! Stage 1: prompts to what Llama and CLIP make of them. Texts are read as they are written.
//!
//! A prompt with times in it is several texts; which section hears which is decided later.

use safelight_core::job::GenerateRequest;
use safelight_core::lora;
use safelight_core::networks::{ClipTextConfig, LlamaConfig, NetworkConfig as _};
use tch::{Kind, Tensor};

use super::state::{PromptEmbeds, TextEmbeds};
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::place::{Placement, warn_unexpected};
use crate::text::{
    ClipTextEncoder, HunyuanTemplate, LlamaEncoder, TextTokenizer, Tokens, with_loras,
};
use crate::weights::warn_unused_updates;

/// Ids of a text that CLIP reads.
const CLIP_LENGTH: i64 = 77;

/// A text and what it is for: `prompt` or `negative`, which of them is recorded.
struct Text {
    role: &'static str,
    text: String,
    is_recorded: bool,
}

/// The negative prompt is read only where the request has real guidance.
pub fn encode_text(
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let texts = texts(request)?;
    tch::no_grad(|| {
        // Llama is gone before CLIP is there.
        let Some(embeds) = read_llama(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let Some(pooled) = read_clip(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let mut all = PromptEmbeds {
            texts: Vec::new(),
            negative: None,
        };
        for (text, ((prompt, mask), pooled)) in texts.iter().zip(embeds.into_iter().zip(pooled)) {
            let prefix = if text.role == "prompt" {
                ""
            } else {
                "negative_"
            };
            if text.is_recorded {
                capture.put(format!("{prefix}prompt_embeds"), &prompt);
                capture.put(format!("{prefix}prompt_attention_mask"), &mask);
                capture.put(format!("{prefix}pooled_prompt_embeds"), &pooled);
            }
            let embeds = TextEmbeds {
                prompt,
                mask,
                pooled,
            };
            match text.role {
                "prompt" => all.texts.push(embeds),
                _ => all.negative = Some(embeds),
            }
        }
        Ok(Some(all))
    })
}

/// All that has to be read, the prompt's own first.
fn texts(request: &GenerateRequest) -> Result<Vec<Text>, EngineError> {
    let wrong = |reason| EngineError::Request { reason };
    let prompts = request.section_prompts().map_err(wrong)?;
    let prompts = prompts.map_or_else(|| vec![request.prompt.clone()], |it| it.texts);
    let prompts = prompts.into_iter().enumerate();
    let mut texts: Vec<Text> = prompts
        .map(|(i, text)| Text {
            role: "prompt",
            text,
            is_recorded: i == 0,
        })
        .collect();
    if request.is_guided() {
        texts.push(Text {
            role: "negative",
            text: request.negative_prompt.clone(),
            is_recorded: true,
        });
    }
    Ok(texts)
}

/// What the transformer attends to, each with its mask, on the CPU.
fn read_llama(
    request: &GenerateRequest,
    texts: &[Text],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Vec<(Tensor, Tensor)>>, EngineError> {
    let files = &request.files;
    let config = LlamaConfig::read(&files.text_encoder)?;
    let class = files.tokenizer_class.as_deref();
    let tokenizer = TextTokenizer::open(&files.tokenizer, class, HunyuanTemplate::LENGTH)?;
    tokenizer.check_ids(config.vocab_size)?;
    let num_layers = config.num_read_layers();
    let home = &files.text_encoder;
    // What is recorded is behind all layers too.
    let is_whole = capture.is_on();
    let name = if is_whole {
        "whole text encoder"
    } else {
        "text encoder"
    };
    let encoder = place.network(name, home, &[], || {
        let weights = place.open(home)?;
        let encoder = if is_whole {
            LlamaEncoder::whole(&config, &weights)?
        } else {
            LlamaEncoder::new(&config, num_layers, &weights)?
        };
        let unexpected = LlamaEncoder::unexpected_keys(&weights);
        warn_unexpected(&unexpected, "text encoder", hooks);
        Ok(encoder)
    })?;
    let mut all = Vec::new();
    for text in texts {
        let tokens = tokenizer.encode(&HunyuanTemplate::around(&text.text))?;
        if let Some(notice) = HunyuanTemplate::cut_notice(&tokens, text.role) {
            hooks.warn(notice);
        }
        let mut states = None;
        let mut each = |number: usize, found: &Tensor| {
            if number as i64 == num_layers {
                states = Some(found.shallow_clone());
            }
            if text.is_recorded {
                let name = format!("text_encoder.{}.hidden_states.{number}", text.role);
                capture.put(name, found);
            }
        };
        let last = encoder.forward_each(&tokens.ids, &tokens.mask, hooks, &mut each);
        let (Some(last), Some(states)) = (last, states) else {
            return Ok(None);
        };
        if text.is_recorded {
            record_tokens(&format!("tokenizer.{}", text.role), &tokens, capture);
            let name = format!("text_encoder.{}.last_hidden_state", text.role);
            capture.put(name, &last);
        }
        let embeds = HunyuanTemplate::of_prompt(&states).to_device(tch::Device::Cpu);
        let mask = HunyuanTemplate::of_prompt(&tokens.mask).to_kind(Kind::Int64);
        all.push((embeds, mask));
    }
    Ok(Some(all))
}

/// The pooled texts.
fn read_clip(
    request: &GenerateRequest,
    texts: &[Text],
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
    let config = ClipTextConfig::read(home)?;
    let length = CLIP_LENGTH.min(config.max_position_embeddings) as usize;
    let class = files.tokenizer_2_class.as_deref();
    let tokenizer = TextTokenizer::open(tokenizer_home, class, length)?;
    tokenizer.check_ids(config.vocab_size)?;
    let loras = &request.loras;
    let encoder = place.network("second text encoder", home, loras, || {
        let weights = with_loras(&place.open(home)?, loras, lora::CLIP)?;
        let encoder = ClipTextEncoder::new(&config, &weights)?;
        let unexpected = ClipTextEncoder::unexpected_keys(&weights);
        warn_unexpected(&unexpected, "second text encoder", hooks);
        warn_unused_updates(&weights, hooks);
        Ok(encoder)
    })?;
    let mut all = Vec::new();
    for text in texts {
        let tokens = tokenizer.encode(&text.text)?;
        let Some(embeds) = encoder.forward(&tokens.ids, hooks) else {
            return Ok(None);
        };
        if text.is_recorded {
            record_tokens(&format!("tokenizer_2.{}", text.role), &tokens, capture);
            let name = |part: &str| format!("text_encoder_2.{}.{part}", text.role);
            capture.put(name("last_hidden_state"), &embeds.last_hidden_state);
            capture.put(name("pooler_output"), &embeds.pooler_output);
        }
        all.push(embeds.pooler_output.to_device(tch::Device::Cpu));
    }
    Ok(Some(all))
}

fn record_tokens(name: &str, tokens: &Tokens, capture: &mut Capture) {
    capture.put(format!("{name}.input_ids"), &tokens.ids);
    capture.put(format!("{name}.attention_mask"), &tokens.mask);
}
