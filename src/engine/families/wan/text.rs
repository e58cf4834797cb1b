//! Stage 1: prompts, cleaned as Wan's authors clean them, to what UMT5 makes of them.

use safelight_core::job::GenerateRequest;
use safelight_core::tokens::{SpieceModel, clean_wan_prompt};
use tch::{Tensor, no_grad};

use super::{TEXT_LENGTH, WanConfig};
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::place::{Placement, made};
use crate::text::{EncoderFiles, PromptEmbeds, T5Encoder, Text, TextEmbeds, Tokens};
use crate::weights::Weights;

pub fn encode_text(
    config: &WanConfig,
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let files = EncoderFiles::first(&config.files);
    let tokenizer = files.tokenizer(TEXT_LENGTH, config.text_encoder.vocab_size)?;
    let encoder = place.network(files.component, files.home, &[], || {
        let new = |w: &_| T5Encoder::new(&config.text_encoder, w);
        let weights = place.open(files.home)?;
        made(&weights, files.component, hooks, new, Weights::finish)
    })?;
    // The published form of the tokenizer, where there is one; only for the record.
    let spiece = if capture.is_on() {
        SpieceModel::find(&config.files.tokenizer)?
    } else {
        None
    };
    let texts = Text::all_of(request)?;
    let embeds = texts.iter().map(|text| {
        let cleaned = clean_wan_prompt(&text.text);
        let tokens = tokenizer.encode(&cleaned)?;
        if let Some(notice) = tokens.cut_notice(text.role) {
            hooks.warn(notice);
        }
        let Some(prompt) = no_grad(|| embed(&encoder, &tokens, hooks)) else {
            return Ok(None);
        };
        if capture.is_on() {
            if let Some(spiece) = &spiece {
                let ids = Tensor::from_slice(&spiece.encode(&cleaned)).unsqueeze(0);
                capture.put(format!("tokenizer.{}.spiece_ids", text.role), &ids);
            }
            text.record_tokens(&files, &tokens, capture);
            // The reference encodes the padding too. Nobody reads that.
            let whole = no_grad(|| encoder.forward(&tokens.ids, Some(&tokens.mask), hooks));
            let Some(whole) = whole else {
                return Ok(None);
            };
            text.record(&files, "last_hidden_state", &whole, capture);
        }
        Ok(Some(TextEmbeds {
            prompt,
            mask: None,
            pooled: None,
        }))
    });
    let embeds: Result<Option<Vec<TextEmbeds>>, EngineError> = embeds.collect();
    Ok(embeds?.and_then(|embeds| PromptEmbeds::of(&texts, embeds, capture)))
}

/// Only what is not padding is encoded, which gives the same numbers for it, and much sooner: `(1, 512, C)`, zero behind
/// the end of the text
fn embed(encoder: &T5Encoder, tokens: &Tokens, hooks: &dyn Hooks) -> Option<Tensor> {
    let used = |tensor: &Tensor| tensor.narrow(1, 0, tokens.num_tokens);
    let embeds = encoder.forward(&used(&tokens.ids), Some(&used(&tokens.mask)), hooks)?;
    let padding = TEXT_LENGTH as i64 - tokens.num_tokens;
    Some(embeds.constant_pad_nd([0, 0, 0, padding]))
}
