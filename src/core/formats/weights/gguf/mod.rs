//! The header of a GGUF file, version 2 or 3, read and checked without touching its data.
//!
//! Everything in it is hostile until checked here: counts, lengths, types, sizes, offsets. What is kept is never
//! more than a part of the header; lists stay in the file until they are needed. Knows no model and expands no block.
//! After <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod block_type;
mod cursor;
mod shapes;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::fs::File;

pub use self::block_type::BlockType;
use self::block_type::{removed_type, type_of_id};
use self::cursor::GgufCursor;
pub use self::value::{GgufElement, GgufList, GgufValue};
use super::header::{HeaderError, TOO_LARGE, TensorInfo, WeightHeader};

/// The first bytes of every such file.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// The vocabulary of UMT5 takes 9 MB.
const MAX_HEADER_BYTES: u64 = 256 << 20;
const MAX_TENSORS: u64 = 1 << 16;
const MAX_ENTRIES: u64 = 1 << 14;
const MAX_NAME_BYTES: u64 = 1 << 10;
/// ggml has four sizes, Wan's kernels five.
const MAX_RANK: u32 = 8;
const DEFAULT_ALIGNMENT: u64 = 32;
/// GGUF has 42 types. Larger numbers than this one are taken for damage.
const MAX_FUTURE_TYPE: u32 = 64;
/// Characters of a text that a note shows.
const MAX_NOTE_CHARS: usize = 1000;

/// Reads the header of an open file, whose position does not matter and does not move.
pub(super) fn read_header(file: &File) -> Result<WeightHeader, HeaderError> {
    let file_bytes = file.metadata()?.len();
    let mut cursor = GgufCursor::new(file, 4, file_bytes.min(MAX_HEADER_BYTES));
    check_version(cursor.u32()?)?;
    let num_tensors = cursor.u64()?;
    let num_entries = cursor.u64()?;
    for (what, count, max) in [
        ("tensors", num_tensors, MAX_TENSORS),
        ("entries of metadata", num_entries, MAX_ENTRIES),
    ] {
        if count > max {
            let reason = format!("expected at most {max} {what} in a GGUF file, found {count}");
            // More of them than bytes are no count.
            if count > file_bytes {
                return unsound(reason);
            }
            return unsupported(reason, TOO_LARGE);
        }
    }
    let mut metadata = BTreeMap::new();
    for _ in 0..num_entries {
        let key = cursor.text("a key of its metadata", MAX_NAME_BYTES)?;
        let value = GgufValue::read(&mut cursor, &key)?;
        if metadata.contains_key(&key) {
            return unsound(format!("it has '{key}' twice"));
        }
        metadata.insert(key, value);
    }
    check_split(&metadata)?;
    let mut tensors = BTreeMap::new();
    for _ in 0..num_tensors {
        let (name, info) = read_tensor(&mut cursor)?;
        if tensors.contains_key(&name) {
            return unsound(format!("it has the tensor '{name}' twice"));
        }
        tensors.insert(name, info);
    }
    let data_start = cursor.position().next_multiple_of(alignment_of(&metadata)?);
    place(&mut tensors, data_start, file_bytes)?;
    let metadata = GgufMetadata(metadata);
    metadata.reshape(&mut tensors, file)?;
    Ok(WeightHeader {
        tensors,
        notes: metadata.notes(),
        file_bytes,
        faults: BTreeMap::new(),
        gguf: Some(metadata),
    })
}

/// Metadata of a file, by key.
#[derive(Debug)]
pub struct GgufMetadata(BTreeMap<String, GgufValue>);

impl GgufMetadata {
    pub fn value(&self, key: &str) -> Option<&GgufValue> {
        self.0.get(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            GgufValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.as_number()
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)? {
            GgufValue::Flag(flag) => Some(*flag),
            other => other.as_number().map(|number| number != 0),
        }
    }

    pub fn list(&self, key: &str) -> Option<GgufList> {
        match self.value(key)? {
            GgufValue::List(list) => Some(*list),
            _ => None,
        }
    }

    /// The texts of a list, in their order.
    pub fn each_text(
        &self,
        file: &File,
        list: GgufList,
        mut take: impl FnMut(Vec<u8>),
    ) -> Result<(), HeaderError> {
        let mut cursor = GgufCursor::new(file, list.start, list.start + list.bytes);
        if list.element != GgufElement::Text {
            return unsound("expected a list of texts, found one of numbers".to_owned());
        }
        for _ in 0..list.count {
            let len = cursor.u64()?;
            take(cursor.bytes(len)?);
        }
        Ok(())
    }

    /// The bytes of a list of numbers.
    pub fn list_bytes(&self, file: &File, list: GgufList) -> Result<Vec<u8>, HeaderError> {
        GgufCursor::new(file, list.start, list.start + list.bytes).bytes(list.bytes)
    }

    /// Metadata of the file, without its lists.
    fn notes(&self) -> BTreeMap<String, String> {
        let entries = self.0.iter();
        let notes = entries.filter_map(|(key, value)| {
            let text = match value {
                GgufValue::Unsigned(number) => number.to_string(),
                GgufValue::Signed(number) => number.to_string(),
                GgufValue::Float(number) => number.to_string(),
                GgufValue::Flag(flag) => flag.to_string(),
                GgufValue::Text(text) => text.chars().take(MAX_NOTE_CHARS).collect(),
                GgufValue::LongText(bytes) => format!("a text of {bytes} bytes"),
                GgufValue::List(_) if key.starts_with(shapes::ORIGINAL_SHAPE) => return None,
                GgufValue::List(list) => format!("a list of {}", list.count),
            };
            Some((key.clone(), text))
        });
        notes.collect()
    }

    /// Gives tensors the shapes that they had before they were written.
    fn reshape(
        &self,
        tensors: &mut BTreeMap<String, TensorInfo>,
        file: &File,
    ) -> Result<(), HeaderError> {
        shapes::unfold(tensors);
        for (key, value) in &self.0 {
            let (Some(name), GgufValue::List(list)) =
                (key.strip_prefix(shapes::ORIGINAL_SHAPE), value)
            else {
                continue;
            };
            let shape = self.sizes(file, *list)?;
            let Some(info) = tensors.get_mut(name) else {
                continue;
            };
            if product(&shape) != product(&info.shape) {
                return unsound(format!(
                    "expected an original shape of the tensor '{name}' with as many numbers as {:?}, found {shape:?}",
                    info.shape
                ));
            }
            info.shape = shape;
        }
        Ok(())
    }

    /// A shape in the metadata.
    fn sizes(&self, file: &File, list: GgufList) -> Result<Vec<u64>, HeaderError> {
        let width = list.element.width().unwrap_or(0) as usize;
        let is_whole = matches!(
            list.element,
            GgufElement::I32 | GgufElement::U32 | GgufElement::I64 | GgufElement::U64
        );
        if !is_whole || list.count > u64::from(MAX_RANK) {
            return unsound(format!(
                "expected an original shape of at most {MAX_RANK} whole numbers, found a list of {}",
                list.count
            ));
        }
        let bytes = self.list_bytes(file, list)?;
        let sizes = bytes.chunks_exact(width).map(|chunk| {
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(chunk);
            // A negative size is too large a number.
            u64::from_le_bytes(wide)
        });
        Ok(sizes.collect())
    }
}

fn unsound<T>(reason: String) -> Result<T, HeaderError> {
    Err(HeaderError::Unsound(reason))
}

fn unsupported<T>(reason: impl Into<String>, advice: &'static str) -> Result<T, HeaderError> {
    Err(HeaderError::Unsupported {
        reason: reason.into(),
        advice,
    })
}

fn check_version(version: u32) -> Result<(), HeaderError> {
    match version {
        2 | 3 => Ok(()),
        1 => unsupported(
            "this is a GGUF file of version 1, which current programs neither write nor read",
            "Get a newer conversion of this model, as GGUF of version 3 or as safetensors",
        ),
        swapped if swapped.trailing_zeros() >= 16 && swapped != 0 => unsupported(
            "this is a big-endian GGUF file",
            "Get the ordinary, little-endian version of this file",
        ),
        4..=9 => unsupported(
            format!("this is a GGUF file of version {version}, and Safelight reads 2 and 3"),
            "Get a conversion as GGUF of version 3, or as safetensors",
        ),
        other => unsound(format!(
            "expected version 2 or 3 of GGUF, found version {other}"
        )),
    }
}

/// A model in several files has most of its tensors elsewhere.
fn check_split(metadata: &BTreeMap<String, GgufValue>) -> Result<(), HeaderError> {
    let number = |key| metadata.get(key).and_then(GgufValue::as_number);
    match number("split.count") {
        Some(count) if count > 1 => unsupported(
            format!(
                "this is part {} of a model that gguf-split has split into {count} files",
                number("split.no").unwrap_or(0).saturating_add(1)
            ),
            "Join the parts with `llama-gguf-split --merge FIRST_PART OUTPUT`, or get the model as one file",
        ),
        _ => Ok(()),
    }
}

fn alignment_of(metadata: &BTreeMap<String, GgufValue>) -> Result<u64, HeaderError> {
    let Some(value) = metadata.get("general.alignment") else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    match value.as_number() {
        Some(number) if number.is_power_of_two() && number <= 1 << 20 => Ok(number),
        _ => unsound("expected a general.alignment that is a power of two".to_owned()),
    }
}

/// The name of the next tensor, and what is said of it; `start` still counts from the start of the data.
fn read_tensor(cursor: &mut GgufCursor<'_>) -> Result<(String, TensorInfo), HeaderError> {
    let name = cursor.text("the name of a tensor", MAX_NAME_BYTES)?;
    let rank = cursor.u32()?;
    if rank > MAX_RANK {
        return unsound(format!(
            "expected at most {MAX_RANK} sizes of the tensor '{name}', found {rank}"
        ));
    }
    let mut shape = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        shape.push(cursor.u64()?);
    }
    // ggml's first size is the innermost.
    let row = shape.first().copied().unwrap_or(1);
    shape.reverse();
    let id = cursor.u32()?;
    let start = cursor.u64()?;
    let Some((dtype, len, bytes)) = type_of_id(id) else {
        let reason = match removed_type(id) {
            Some(removed) => format!(
                "the tensor '{name}' is stored as {removed} (the type {id}), which was removed from GGUF"
            ),
            None if id <= MAX_FUTURE_TYPE => format!(
                "the tensor '{name}' is stored in the type {id} of GGUF, which is newer than this version of Safelight"
            ),
            None => {
                return unsound(format!(
                    "the tensor '{name}' is stored in the type {id}, which GGUF does not have"
                ));
            }
        };
        return unsupported(
            reason,
            "Get this model in another type: Q8_0, Q6_K, Q5_K, Q4_K, F16 and BF16 work",
        );
    };
    if row % len != 0 {
        return unsound(format!(
            "expected rows of the tensor '{name}' that are whole blocks of {len} {dtype} numbers, found rows of {row}"
        ));
    }
    let bytes = product(&shape).and_then(|count| (count / len).checked_mul(bytes));
    let Some(bytes) = bytes else {
        return unsound(format!(
            "the tensor '{name}' has the impossible shape {shape:?}"
        ));
    };
    let info = TensorInfo {
        dtype,
        shape,
        start,
        bytes,
    };
    Ok((name, info))
}

/// Numbers in a shape, where whoever multiplies its sizes in any order can count them.
fn product(shape: &[u64]) -> Option<u64> {
    let mut sizes = shape.iter().map(|&n| n.max(1));
    let count = sizes.try_fold(1_u64, u64::checked_mul);
    let count = count.filter(|&count| i64::try_from(count).is_ok())?;
    Some(if shape.contains(&0) { 0 } else { count })
}

/// Turns offsets into places in the file, all of them within it and apart from each other.
fn place(
    tensors: &mut BTreeMap<String, TensorInfo>,
    data_start: u64,
    file_bytes: u64,
) -> Result<(), HeaderError> {
    let mut ranges = Vec::with_capacity(tensors.len());
    for (name, info) in &mut *tensors {
        let start = data_start.checked_add(info.start);
        let end = start.and_then(|start| start.checked_add(info.bytes));
        let (Some(start), Some(end)) = (start, end) else {
            return unsound(format!("the tensor '{name}' has an impossible offset"));
        };
        if info.bytes > 0 && end > file_bytes {
            return unsound(format!(
                "the tensor '{name}' ends at byte {end}, the file has {file_bytes}: it is cut off (bytes missing: at least {})",
                end - file_bytes
            ));
        }
        info.start = start;
        if info.bytes > 0 {
            ranges.push((start, end, name.as_str()));
        }
    }
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => unsound(format!(
            "the tensors '{}' and '{}' overlap: it is damaged",
            pair[0].2, pair[1].2
        )),
        None => Ok(()),
    }
}
