//! Fields of `sentencepiece_model.proto` that decide the ids, read from untrusted bytes.
//!
//! No message is followed deeper than its two levels, so nothing in a file can make this recurse.

use crate::enum_macros::with_defaults;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl PieceKind {
    /// GGUF files have the same numbers.
    pub fn of_number(kind: u64) -> Result<Self, String> {
        Ok(match kind {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            other => return Err(format!("found a piece of the kind {other}")),
        })
    }
}

#[derive(Debug)]
pub struct ProtoPiece {
    pub text: Vec<u8>,
    pub score: f32,
    pub kind: PieceKind,
}

with_defaults! {
    pub struct TrainerSpec {
        pub model_type: u64 = 1,
        pub treat_whitespace_as_suffix: bool = false,
        pub byte_fallback: bool = false,
        pub eos_piece: Vec<u8> = b"</s>".to_vec(),
        pub pad_piece: Vec<u8> = b"<pad>".to_vec(),
    }
}

with_defaults! {
    #[derive(Clone)]
    pub struct NormalizerSpec {
        pub precompiled_charsmap: Vec<u8> = Vec::new(),
        pub add_dummy_prefix: bool = true,
        pub remove_extra_whitespaces: bool = true,
        pub escape_whitespaces: bool = true,
    }
}

#[derive(Default)]
pub struct ProtoModel {
    pub pieces: Vec<ProtoPiece>,
    pub trainer: TrainerSpec,
    pub normalizer: NormalizerSpec,
}

impl ProtoModel {
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut model = Self::default();
        for field in ProtoFields(bytes) {
            match field? {
                (1, ProtoValue::Bytes(piece)) => model.pieces.push(ProtoPiece::parse(piece)?),
                (2, ProtoValue::Bytes(spec)) => model.trainer = TrainerSpec::parse(spec)?,
                (3, ProtoValue::Bytes(spec)) => model.normalizer = NormalizerSpec::parse(spec)?,
                _ => {}
            }
        }
        Ok(model)
    }
}

/// Number of pieces in a model, without reading them; `None` if the bytes are damaged.
pub(crate) fn count_pieces(bytes: &[u8]) -> Option<u64> {
    ProtoFields(bytes).try_fold(0, |count, field| {
        let is_piece = matches!(field.ok()?, (1, ProtoValue::Bytes(_)));
        Some(count + u64::from(is_piece))
    })
}

/// Returns true for a model of byte pairs.
pub(crate) fn has_pairs(bytes: &[u8]) -> bool {
    ProtoFields(bytes).any(|field| match field {
        Ok((2, ProtoValue::Bytes(spec))) => {
            TrainerSpec::parse(spec).is_ok_and(|trainer| trainer.has_pairs())
        }
        _ => false,
    })
}

impl ProtoPiece {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut piece = Self {
            text: Vec::new(),
            score: 0.0,
            kind: PieceKind::Normal,
        };
        for field in ProtoFields(bytes) {
            match field? {
                (1, ProtoValue::Bytes(text)) => piece.text = text.to_vec(),
                (2, ProtoValue::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (3, ProtoValue::Varint(kind)) => piece.kind = PieceKind::of_number(kind)?,
                _ => {}
            }
        }
        Ok(piece)
    }
}

impl TrainerSpec {
    const PAIRS: u64 = 2;

    pub fn has_pairs(&self) -> bool {
        self.model_type == Self::PAIRS
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut trainer = Self::default();
        for field in ProtoFields(bytes) {
            match field? {
                (3, ProtoValue::Varint(model_type)) => trainer.model_type = model_type,
                (24, ProtoValue::Varint(flag)) => trainer.treat_whitespace_as_suffix = flag != 0,
                (35, ProtoValue::Varint(flag)) => trainer.byte_fallback = flag != 0,
                (47, ProtoValue::Bytes(piece)) => trainer.eos_piece = piece.to_vec(),
                (48, ProtoValue::Bytes(piece)) => trainer.pad_piece = piece.to_vec(),
                _ => {}
            }
        }
        Ok(trainer)
    }
}

impl NormalizerSpec {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut spec = Self::default();
        for field in ProtoFields(bytes) {
            match field? {
                (2, ProtoValue::Bytes(charsmap)) => spec.precompiled_charsmap = charsmap.to_vec(),
                (3, ProtoValue::Varint(flag)) => spec.add_dummy_prefix = flag != 0,
                (4, ProtoValue::Varint(flag)) => spec.remove_extra_whitespaces = flag != 0,
                (5, ProtoValue::Varint(flag)) => spec.escape_whitespaces = flag != 0,
                _ => {}
            }
        }
        Ok(spec)
    }
}

/// A field's value, as far as its wire type tells.
enum ProtoValue<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

struct ProtoFields<'a>(&'a [u8]);

impl<'a> ProtoFields<'a> {
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

    fn field(&mut self) -> Option<(u64, ProtoValue<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => ProtoValue::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                ProtoValue::Fixed64
            }
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                ProtoValue::Bytes(self.take(len)?)
            }
            5 => ProtoValue::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = Result<(u64, ProtoValue<'a>), String>;

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
