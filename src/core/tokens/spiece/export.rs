//! A T5's `spiece.model` in the terms of the `tokenizers` library, which is how `transformers` 5 reads one.
//!
//! Only for models whose unknown piece is where that class expects it and that spell nothing as bytes: its ids
//! differ from the sentencepiece library's where a text spells a special token, or combines accents.

use serde_json::{Value, json};
use tokenizers::normalizers::Precompiled;

use super::proto::{PieceKind, ProtoModel};
use super::{SpieceModel, UNIGRAM, normalizer};
use crate::tokens::classes::T5_UNK_ID;

/// Pieces and normalizer of a model, for `t5_of_pieces`.
pub struct T5Pieces {
    pub pieces: Value,
    pub normalizer: Value,
}

impl T5Pieces {
    /// `None` for a model that is not a T5's, or not sound: [`SpieceModel`] reads it, or says what is wrong with it.
    pub fn from_model(model: &ProtoModel) -> Option<Self> {
        // Everything that this does not check has been checked by it.
        SpieceModel::from_proto(model).ok()?;
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
                serde_json::to_value(Precompiled::from(charsmap).ok()?).ok()?
            },
        })
    }
}
