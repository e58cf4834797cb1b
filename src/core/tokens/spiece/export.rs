//! A T5's `spiece.model` in the terms of the `tokenizers` library, which is how `transformers` 5 reads one.
//!
//! Only for models whose unknown piece is where that class expects it and that spell nothing as bytes: its ids
//! differ from the sentencepiece library's where a text spells a special token, or combines accents.

use serde_json::{Value, json};

use super::proto::{Model, PieceKind};
use super::{SpieceModel, UNIGRAM, normalizer};
use crate::tokens::classes::T5_UNK_ID;

/// Pieces and normalizer of a model, for `t5_of_pieces`.
pub struct T5Pieces {
    pub pieces: Value,
    pub normalizer: Value,
}

impl T5Pieces {
    /// `None` for a model that is not a T5's, or not sound: [`SpieceModel`] reads it, or says what is wrong with it.
    pub fn from_model(model: &Model) -> Option<Self> {
        // Everything that this does not check has been checked by it.
        SpieceModel::of(model).ok()?;
        let unknown = model
            .pieces
            .iter()
            .position(|piece| piece.kind == PieceKind::Unknown)?;
        if model.trainer.byte_fallback
            || model.trainer.model_type != UNIGRAM
            || unknown as i64 != T5_UNK_ID
        {
            return None;
        }
        let pieces = model.pieces.iter().map(|piece| {
            let text = std::str::from_utf8(&piece.text).ok()?;
            Some(json!([text, f64::from(piece.score)]))
        });
        let charsmap = &model.normalizer.precompiled_charsmap;
        // The library trusts it.
        if !charsmap.is_empty() && !normalizer::is_sound(charsmap) {
            return None;
        }
        Some(Self {
            pieces: pieces.collect::<Option<Vec<_>>>()?.into(),
            normalizer: if charsmap.is_empty() {
                Value::Null
            } else {
                json!({"type": "Precompiled", "precompiled_charsmap": base64(charsmap)})
            },
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= group.len() {
                let digit = bits >> (18 - 6 * i) & 63;
                text.push(char::from(DIGITS[digit as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_of_any_length_are_written_in_digits() {
        let of = |bytes: &[u8]| base64(bytes);
        assert_eq!(
            [of(b""), of(b"f"), of(b"fo"), of(b"foo")],
            ["", "Zg==", "Zm8=", "Zm9v"]
        );
        assert_eq!(of(&[0xff, 0xfe, 0xfd, 0xfc]), "//79/A==");
    }
}
