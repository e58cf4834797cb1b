//! SentencePiece Unigram models: `spiece.model`, the form in which T5 and UMT5 tokenizers were published.
//!
//! Reads the few fields of the protocol buffer that decide the ids, and leaves the search for the best pieces to the
//! `tokenizers` crate. Does not pad or cut, and reads no model that is not Unigram.

use std::fs;
use std::path::Path;

use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{Precompiled, Replace, Sequence, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::{NormalizerWrapper, Tokenizer};

use crate::error::EngineError;

/// What a piece is for, as `sentencepiece_model.proto` counts it.
const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const USER_DEFINED: u64 = 4;
const BYTE: u64 = 6;
/// The one kind of model that is read here, and the proto's default.
const UNIGRAM: u64 = 1;

/// A SentencePiece model, ready to encode.
pub struct SpieceModel {
    inner: Tokenizer,
    eos_id: i64,
}

impl SpieceModel {
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let bytes = fs::read(path).map_err(|source| EngineError::Io {
            source,
            path: path.to_owned(),
        })?;
        Self::parse(&bytes).map_err(|reason| EngineError::Config {
            reason: format!("expected a SentencePiece Unigram model: {reason}"),
            path: path.to_owned(),
        })
    }

    /// The ids of a text with the end behind them.
    pub fn encode(&self, text: &str) -> Vec<i64> {
        let ids = self.inner.encode(text, false).map_or_else(
            |_| Vec::new(),
            |encoding| encoding.get_ids().iter().map(|&id| i64::from(id)).collect(),
        );
        // A text of white space alone has no pieces, not the piece for a space.
        let ids = if text.trim().is_empty() {
            Vec::new()
        } else {
            ids
        };
        ids.into_iter().chain([self.eos_id]).collect()
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut trainer = Trainer::default();
        let mut normalizer = Normalizer::default();
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(piece)) => pieces.push(Piece::parse(piece, pieces.len())?),
                (2, Value::Bytes(spec)) => trainer = Trainer::parse(spec)?,
                (3, Value::Bytes(spec)) => normalizer = Normalizer::parse(spec)?,
                _ => {}
            }
        }
        if trainer.model_type != UNIGRAM {
            return Err(format!("found the model type {}", trainer.model_type));
        }
        let unk_id = pieces
            .iter()
            .position(|piece| piece.kind == UNKNOWN)
            .ok_or("found no unknown piece")?;
        let vocab = pieces
            .into_iter()
            .map(|piece| (piece.text, piece.score))
            .collect();
        let model = Unigram::from(vocab, Some(unk_id), trainer.byte_fallback)
            .map_err(|err| err.to_string())?;
        let mut inner = Tokenizer::new(model);
        inner
            .with_normalizer(Some(normalizer.build()?))
            .map_err(|err| err.to_string())?;
        inner.with_pre_tokenizer(Some(Metaspace::new('▁', PrependScheme::Always, false)));
        Ok(Self {
            inner,
            eos_id: trainer.eos_id as i64,
        })
    }
}

struct Piece {
    text: String,
    score: f64,
    kind: u64,
}

impl Piece {
    fn parse(bytes: &[u8], id: usize) -> Result<Self, String> {
        let mut piece = Self {
            text: String::new(),
            score: 0.0,
            kind: NORMAL,
        };
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(text)) => piece.text = String::from_utf8_lossy(text).into_owned(),
                (2, Value::Fixed32(bits)) => piece.score = f64::from(f32::from_bits(bits)),
                (3, Value::Varint(kind)) => piece.kind = kind,
                _ => {}
            }
        }
        if !matches!(piece.kind, NORMAL | USER_DEFINED | BYTE) {
            // Pieces with a meaning of their own are never found in a text, not even in one that spells them.
            piece.text = format!("\u{10FFFE}{id}");
        }
        Ok(piece)
    }
}

struct Trainer {
    model_type: u64,
    byte_fallback: bool,
    eos_id: u64,
}

impl Default for Trainer {
    /// The proto's defaults.
    fn default() -> Self {
        Self {
            model_type: UNIGRAM,
            byte_fallback: false,
            eos_id: 2,
        }
    }
}

impl Trainer {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut trainer = Self::default();
        for field in Fields(bytes) {
            match field? {
                (3, Value::Varint(model_type)) => trainer.model_type = model_type,
                (35, Value::Varint(flag)) => trainer.byte_fallback = flag != 0,
                (42, Value::Varint(id)) => trainer.eos_id = id,
                _ => {}
            }
        }
        Ok(trainer)
    }
}

struct Normalizer {
    charsmap: Vec<u8>,
    removes_extra_whitespace: bool,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self {
            charsmap: Vec::new(),
            removes_extra_whitespace: true,
        }
    }
}

impl Normalizer {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut normalizer = Self::default();
        for field in Fields(bytes) {
            match field? {
                (2, Value::Bytes(charsmap)) => normalizer.charsmap = charsmap.to_vec(),
                (4, Value::Varint(flag)) => normalizer.removes_extra_whitespace = flag != 0,
                _ => {}
            }
        }
        Ok(normalizer)
    }

    fn build(self) -> Result<NormalizerWrapper, String> {
        let mut steps: Vec<NormalizerWrapper> = Vec::new();
        if !self.charsmap.is_empty() {
            let charsmap = Precompiled::from(&self.charsmap).map_err(|err| err.to_string())?;
            steps.push(charsmap.into());
        }
        if self.removes_extra_whitespace {
            let spaces =
                tokenizers::normalizers::replace::ReplacePattern::Regex(" {2,}".to_owned());
            steps.push(
                Replace::new(spaces, " ")
                    .map_err(|err| err.to_string())?
                    .into(),
            );
            steps.push(Strip::new(true, true).into());
        }
        Ok(Sequence::new(steps).into())
    }
}

/// A field's value, as far as its wire type tells.
enum Value<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a protocol buffer message, in their order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed64
            }
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            // Nothing after a broken field can be trusted.
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "the file is damaged or of another kind".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextTokenizer;

    #[test]
    fn both_published_forms_of_a_tokenizer_give_the_same_ids() {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/little-world/tokenizer");
        let spiece = SpieceModel::read(&folder.join("spiece.model")).unwrap();
        let tokenizer = TextTokenizer::read(&folder, "PreTrainedTokenizerFast", 512).unwrap();
        for text in [
            "a red boat",
            "",
            "Zürich, 東京 🐉!",
            "<pad> and </s> spelled out",
            "hops hops  hops",
        ] {
            let tokens = tokenizer.encode(text).unwrap();
            let ids =
                Vec::<i64>::try_from(tokens.ids.narrow(1, 0, tokens.num_tokens).reshape([-1]))
                    .unwrap_or_default();
            let spelled = text.contains('<');
            // The other form takes special tokens where a text spells them; SentencePiece never does.
            assert_eq!(spiece.encode(text) == ids, !spelled, "{text:?}");
        }
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_never_panics() {
        let junk: Vec<u8> = (0..255).collect();
        for bytes in [
            &b""[..],
            b"not a model",
            &junk,
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert!(SpieceModel::parse(bytes).is_err());
        }
    }
}
