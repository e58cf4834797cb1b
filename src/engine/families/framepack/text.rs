//! Stage 1: prompts to what Llama and CLIP make of them. Texts are read as they are written.
//!
//! A prompt with times in it is several texts; which section hears which is decided later.

use safelight_core::networks::{LlamaConfig, NetworkConfig as _};
use safelight_core::tokens::HunyuanPrompt;
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::text::{
    EncoderFiles, LlamaEncoder, PromptEmbeds, Text, TextEmbeds, Tokens, of_hunyuan_prompt,
    read_clip,
};
use crate::work::Work;

pub fn encode_text(work: &mut Work<'_>) -> Result<PromptEmbeds, EngineError> {
    let texts = Text::all_of(work.request)?;
    tch::no_grad(|| {
        // Llama is gone before CLIP is there.
        let prompts = read_llama(&texts, work)?;
        let clip = EncoderFiles::second(&work.request.files)?;
        let pooled = read_clip(&clip, &texts, work)?;
        let embeds = prompts.into_iter().zip(pooled);
        let embeds = embeds.map(|((prompt, mask), pooled)| TextEmbeds {
            prompt,
            mask: Some(mask),
            pooled: Some(pooled),
        });
        PromptEmbeds::of(&texts, embeds.collect(), work.capture)
    })
}

/// What the transformer attends to, each with its mask, on the CPU.
fn read_llama(texts: &[Text], work: &mut Work<'_>) -> Result<Vec<(Tensor, Tensor)>, EngineError> {
    let files = EncoderFiles::first(&work.request.files);
    let config = LlamaConfig::read(files.home)?;
    let tokenizer = files.tokenizer(HunyuanPrompt::LENGTH, config.vocab_size)?;
    let num_layers = config.num_read_layers();
    // What is recorded is behind all layers too.
    let is_whole = work.capture.is_on();
    let name = if is_whole {
        "whole text encoder"
    } else {
        files.component
    };
    let encoder = work.place.network(name, files.home, &[], || {
        let new = |w: &_| {
            if is_whole {
                LlamaEncoder::whole(&config, w)
            } else {
                LlamaEncoder::new(&config, num_layers, w)
            }
        };
        work.load(
            files.component,
            files.home,
            new,
            LlamaEncoder::unexpected_keys,
        )
    })?;
    let embeds = texts.iter().map(|text| {
        let tokens = Tokens::of(&HunyuanPrompt::around(&text.text), &tokenizer)?;
        if let Some(notice) = HunyuanPrompt::cut_notice(tokens.num_cut, text.role) {
            work.hooks.warn(notice);
        }
        let mut states = None;
        let mut each = |number: usize, found: &Tensor| {
            if number as i64 == num_layers {
                states = Some(found.shallow_clone());
            }
            let name = format!("hidden_states.{number}");
            text.record(&files, &name, found, work.capture);
        };
        let last = encoder.forward_each(&tokens.ids, &tokens.mask, work.hooks, &mut each);
        let (last, states) = last.zip(states).ok_or(EngineError::Cancelled)?;
        text.record_tokens(&files, &tokens, work.capture);
        text.record(&files, "last_hidden_state", &last, work.capture);
        let prompt = of_hunyuan_prompt(&states).to_device(Device::Cpu);
        let mask = of_hunyuan_prompt(&tokens.mask).to_kind(Kind::Int64);
        Ok((prompt, mask))
    });
    embeds.collect()
}
