//! The metadata of a GGUF file: what one entry may hold.
//!
//! Lists and long texts are only located here, since the vocabulary of a tokenizer is most of a header.

use super::cursor::GgufCursor;
use crate::formats::weights::header::HeaderError;

/// A longer text is no answer to a question that this program asks.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Value of one key.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Flag(bool),
    Text(String),
    /// A text too long to keep, and its bytes.
    LongText(u64),
    List(GgufList),
}

/// A list whose elements are still in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufList {
    pub element: GgufElement,
    pub count: u64,
    /// From the start of the file.
    pub start: u64,
    pub bytes: u64,
}

/// The type of a value, or of the elements of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GgufElement {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    U64,
    I64,
    F64,
}

/// The number of a list among the types.
const LIST: u32 = 9;

impl GgufElement {
    fn of_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::Text,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one, where all have the same number.
    pub fn width(self) -> Option<u64> {
        Some(match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Text => return None,
        })
    }
}

impl GgufValue {
    pub(super) fn read(cursor: &mut GgufCursor<'_>, key: &str) -> Result<Self, HeaderError> {
        let id = cursor.u32()?;
        if id == LIST {
            return GgufList::read(cursor, key).map(Self::List);
        }
        let element = GgufElement::of_id(id).ok_or_else(|| unknown(id, key))?;
        Ok(match element {
            GgufElement::U8 => Self::Unsigned(u8::from_le_bytes(cursor.array()?).into()),
            GgufElement::I8 => Self::Signed(i8::from_le_bytes(cursor.array()?).into()),
            GgufElement::U16 => Self::Unsigned(u16::from_le_bytes(cursor.array()?).into()),
            GgufElement::I16 => Self::Signed(i16::from_le_bytes(cursor.array()?).into()),
            GgufElement::U32 => Self::Unsigned(cursor.u32()?.into()),
            GgufElement::I32 => Self::Signed(i32::from_le_bytes(cursor.array()?).into()),
            GgufElement::F32 => Self::Float(f32::from_le_bytes(cursor.array()?).into()),
            GgufElement::Bool => Self::Flag(cursor.array::<1>()? != [0]),
            GgufElement::U64 => Self::Unsigned(cursor.u64()?),
            GgufElement::I64 => Self::Signed(i64::from_le_bytes(cursor.array()?)),
            GgufElement::F64 => Self::Float(f64::from_le_bytes(cursor.array()?)),
            GgufElement::Text => {
                let len = cursor.u64()?;
                if len > MAX_TEXT_BYTES {
                    cursor.skip(len)?;
                    Self::LongText(len)
                } else {
                    // Somebody's notes in another encoding are no reason to refuse a model.
                    let bytes = cursor.bytes(len)?;
                    Self::Text(String::from_utf8_lossy(&bytes).into_owned())
                }
            }
        })
    }

    /// A whole number that is not negative, however it is stored.
    pub fn as_number(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(number) => Some(number),
            Self::Signed(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }
}

impl GgufList {
    fn read(cursor: &mut GgufCursor<'_>, key: &str) -> Result<Self, HeaderError> {
        let id = cursor.u32()?;
        if id == LIST {
            let reason = format!("its '{key}' is a list of lists, which no model has");
            return Err(HeaderError::Unsound(reason));
        }
        let element = GgufElement::of_id(id).ok_or_else(|| unknown(id, key))?;
        let count = cursor.u64()?;
        let start = cursor.position();
        match element.width() {
            Some(width) => cursor.skip(count.saturating_mul(width))?,
            // Each has at least its length, so a count that is not true ends soon.
            None => {
                for _ in 0..count {
                    let len = cursor.u64()?;
                    cursor.skip(len)?;
                }
            }
        }
        Ok(Self {
            element,
            count,
            start,
            bytes: cursor.position() - start,
        })
    }
}

fn unknown(id: u32, key: &str) -> HeaderError {
    HeaderError::Unsound(format!(
        "its '{key}' has the type {id}, which GGUF does not know: it is damaged"
    ))
}
