//! Stage 1: prompts to what Llama and CLIP make of them. Texts are read as they are written.
//!
//! A prompt with times in it is several texts; which section hears which is decided later.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{LlamaConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::place::{Placement, made};
use crate::text::{
    EncoderFiles, HunyuanTemplate, LlamaEncoder, PromptEmbeds, Text, TextEmbeds, read_clip,
};

pub fn encode_text(
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let texts = Text::all_of(request)?;
    tch::no_grad(|| {
        // Llama is gone before CLIP is there.
        let Some(prompts) = read_llama(request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let clip = EncoderFiles::second(&request.files)?;
        let Some(pooled) = read_clip(&clip, request, &texts, place, capture, hooks)? else {
            return Ok(None);
        };
        let embeds = prompts.into_iter().zip(pooled);
        let embeds = embeds.map(|((prompt, mask), pooled)| TextEmbeds {
            prompt,
            mask: Some(mask),
            pooled: Some(pooled),
        });
        Ok(PromptEmbeds::of(&texts, embeds.collect(), capture))
    })
}

/// What the transformer attends to, each with its mask, on the CPU.
fn read_llama(
    request: &GenerateRequest,
    texts: &[Text],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Vec<(Tensor, Tensor)>>, EngineError> {
    let files = EncoderFiles::first(&request.files);
    let config = LlamaConfig::read(files.home)?;
    let tokenizer = files.tokenizer(HunyuanTemplate::LENGTH, config.vocab_size)?;
    let num_layers = config.num_read_layers();
    // What is recorded is behind all layers too.
    let is_whole = capture.is_on();
    let name = if is_whole {
        "whole text encoder"
    } else {
        files.component
    };
    let encoder = place.network(name, files.home, &[], || {
        let new = |w: &_| {
            if is_whole {
                LlamaEncoder::whole(&config, w)
            } else {
                LlamaEncoder::new(&config, num_layers, w)
            }
        };
        let weights = place.open(files.home)?;
        made(
            &weights,
            files.component,
            hooks,
            new,
            LlamaEncoder::unexpected_keys,
        )
    })?;
    let embeds = texts.iter().map(|text| {
        let tokens = tokenizer.encode(&HunyuanTemplate::around(&text.text))?;
        if let Some(notice) = HunyuanTemplate::cut_notice(&tokens, text.role) {
            hooks.warn(notice);
        }
        let mut states = None;
        let mut each = |number: usize, found: &Tensor| {
            if number as i64 == num_layers {
                states = Some(found.shallow_clone());
            }
            text.record(&files, &format!("hidden_states.{number}"), found, capture);
        };
        let last = encoder.forward_each(&tokens.ids, &tokens.mask, hooks, &mut each);
        let (Some(last), Some(states)) = (last, states) else {
            return Ok(None);
        };
        text.record_tokens(&files, &tokens, capture);
        text.record(&files, "last_hidden_state", &last, capture);
        let prompt = HunyuanTemplate::of_prompt(&states).to_device(Device::Cpu);
        let mask = HunyuanTemplate::of_prompt(&tokens.mask).to_kind(Kind::Int64);
        Ok(Some((prompt, mask)))
    });
    embeds.collect()
}
