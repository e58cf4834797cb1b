//! Stage 1: prompts, cleaned as Wan's authors clean them, to what UMT5 makes of them.

use safelight_core::tokens::{SpieceModel, clean_wan_prompt};
use tch::{Tensor, no_grad};

use super::{TEXT_LENGTH, WanConfig};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::text::{EncodedText, EncoderFiles, PromptEmbeds, T5Encoder, TextEmbeds, TokenBatch};
use crate::weights::Weights;
use crate::work::StageWork;

pub fn encode_text(
    config: &WanConfig,
    work: &mut StageWork<'_>,
) -> Result<PromptEmbeds, EngineError> {
    let hooks = work.hooks;
    let files = EncoderFiles::first(&config.files);
    let tokenizer = files.tokenizer(TEXT_LENGTH, config.text_encoder.vocab_size)?;
    let new = |w: &_| T5Encoder::new(&config.text_encoder, w);
    let encoder = work.place.network(files.component, files.home, &[], || {
        work.load(files.component, files.home, new, Weights::finish)
    })?;
    let capture = &mut *work.capture;
    // The published form of the tokenizer, where there is one; only for the record.
    let spiece = if capture.is_on() {
        SpieceModel::find(&config.files.tokenizer)?
    } else {
        None
    };
    let texts = EncodedText::all_of(work.request)?;
    let embeds = texts.iter().map(|text| {
        let cleaned = clean_wan_prompt(&text.text);
        let tokens = TokenBatch::encode(&cleaned, &tokenizer)?;
        if let Some(notice) = tokens.cut_notice(text.role) {
            hooks.warn(notice);
        }
        let prompt = no_grad(|| embed(&encoder, &tokens, hooks));
        let prompt = prompt.ok_or(EngineError::Cancelled)?;
        if capture.is_on() {
            if let Some(spiece) = &spiece {
                let ids = Tensor::from_slice(&spiece.encode(&cleaned)).unsqueeze(0);
                capture.put(format!("tokenizer.{}.spiece_ids", text.role), &ids);
            }
            text.record_tokens(&files, &tokens, capture);
            // The reference encodes the padding too. Nobody reads that.
            let whole = no_grad(|| encoder.forward(&tokens.ids, Some(&tokens.mask), hooks));
            let whole = whole.ok_or(EngineError::Cancelled)?;
            text.record(&files, "last_hidden_state", &whole, capture);
        }
        Ok(TextEmbeds {
            prompt,
            mask: None,
            pooled: None,
        })
    });
    let embeds: Result<Vec<TextEmbeds>, EngineError> = embeds.collect();
    PromptEmbeds::from_texts(&texts, embeds?, capture)
}

/// Only tokens other than padding are encoded, which gives equal values for them, and is much faster: `(1, 512, C)`,
/// zero after the end of the text
fn embed(encoder: &T5Encoder, tokens: &TokenBatch, hooks: &dyn Hooks) -> Option<Tensor> {
    let used = |tensor: &Tensor| tensor.narrow(1, 0, tokens.num_tokens);
    let embeds = encoder.forward(&used(&tokens.ids), Some(&used(&tokens.mask)), hooks)?;
    let padding = TEXT_LENGTH as i64 - tokens.num_tokens;
    Some(embeds.constant_pad_nd([0, 0, 0, padding]))
}
