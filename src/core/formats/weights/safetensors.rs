//! The header of a safetensors file, read and checked without touching its data.
//!
//! Everything in a header is hostile until checked here: its length, its text, the tensors' offsets and
//! sizes. Does not know which tensors a model needs, nor about shards.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::header::{HeaderError, TOO_LARGE, TensorInfo, TensorType, WeightHeader};

/// The format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// A header from which on its texts are looked at before it is read: whoever parses a text copies it, maybe twice.
const SUSPICIOUS_BYTES: usize = 16 << 20;
const MAX_TEXT_BYTES: usize = 8 << 20;
/// Writers put blanks after a header, so that the data begins at a round number.
const MAX_BLANK_BYTES: usize = 1 << 20;
/// The largest networks have some ten thousand.
const MAX_TENSORS: usize = 1 << 17;
const MAX_RANK: usize = 32;
const MAX_NOTES: usize = 1 << 13;
/// Of all notes; what has no room is left out.
const MAX_NOTE_BYTES: usize = 8 << 20;

/// Begins the errors of limits.
const TOO_MANY: &str = "has too many";

/// Reads the header of an open file, whose position does not matter and does not move.
pub(super) fn read_header(file: &File) -> Result<WeightHeader, HeaderError> {
    let unsound = |reason: String| Err(HeaderError::Unsound(reason));
    let file_bytes = file.metadata()?.len();
    if file_bytes == 0 {
        return unsound("the file is empty".to_owned());
    }
    if file_bytes < 8 {
        return unsound(format!(
            "expected a header of at least 8 bytes, the file has {file_bytes}"
        ));
    }
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0)?;
    let header_bytes = u64::from_le_bytes(length);
    let too_large = |reason: String| HeaderError::Unsupported {
        reason: format!("the header of this safetensors file {reason}"),
        advice: TOO_LARGE,
    };
    if header_bytes > file_bytes - 8 {
        return unsound(format!(
            "its header claims {header_bytes} bytes, the file has {file_bytes}: it is cut off within its header or no safetensors file"
        ));
    }
    let wrong = |err: &dyn fmt::Display| format!("its header is wrong: {err}");
    if header_bytes == 0 {
        return unsound("its header is empty".to_owned());
    }
    let mut first = [0];
    file.read_exact_at(&mut first, 8)?;
    if first != *b"{" {
        return unsound(wrong(&"it does not begin with a brace"));
    }
    if header_bytes > MAX_HEADER_BYTES {
        let reason = format!("has {header_bytes} bytes, and the format allows {MAX_HEADER_BYTES}");
        return Err(too_large(reason));
    }
    let mut text = vec![0; header_bytes as usize];
    file.read_exact_at(&mut text, 8)?;
    if text.len() > SUSPICIOUS_BYTES {
        check_runs(&text).map_err(|reason| too_large(reason.to_owned()))?;
    }
    let ParsedHeader { mut tensors, notes } = serde_json::from_slice(&text).map_err(|err| {
        let text = err.to_string();
        match text.split_once(" at line ") {
            Some((limit, _)) if limit.starts_with(TOO_MANY) => too_large(limit.to_owned()),
            _ => HeaderError::Unsound(wrong(&text)),
        }
    })?;
    drop(text);
    let data_start = 8 + header_bytes;
    let data_bytes =
        place(&mut tensors, data_start).map_err(|reason| HeaderError::Unsound(wrong(&reason)))?;
    // Offsets are as hostile as the rest: their sum may not fit.
    let expected = data_start.checked_add(data_bytes);
    if expected != Some(file_bytes) {
        let fault = match expected {
            Some(n) if n < file_bytes => format!("damaged (bytes too many: {})", file_bytes - n),
            Some(n) => format!("cut off (bytes missing: {})", n - file_bytes),
            None => "damaged".to_owned(),
        };
        let expected = expected.map_or_else(|| "too many".to_owned(), |n| n.to_string());
        return unsound(format!(
            "its header describes {expected} bytes, the file has {file_bytes}: it is {fault}"
        ));
    }
    tensors.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return unsound(wrong(&format!("it has '{}' twice", pair[0].0)));
    }
    Ok(WeightHeader {
        tensors: tensors.into_iter().collect(),
        notes,
        file_bytes,
        faults: BTreeMap::new(),
        gguf: None,
    })
}

/// A header's text, not yet checked; starts count from the start of the data.
struct ParsedHeader {
    tensors: Vec<(String, TensorInfo)>,
    notes: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for ParsedHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = ParsedHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ParsedHeader, A::Error> {
                let (mut tensors, mut notes) = (Vec::new(), None);
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        notes = map.next_value::<Option<HeaderNotes>>()?;
                        continue;
                    }
                    if tensors.len() == MAX_TENSORS {
                        let limit = format!("{TOO_MANY} tensors, more than {MAX_TENSORS}");
                        return Err(de::Error::custom(limit));
                    }
                    let raw: RawTensor = map.next_value()?;
                    tensors.push((name, raw.into_info()));
                }
                let notes = notes.map(|HeaderNotes(notes)| notes).unwrap_or_default();
                Ok(ParsedHeader { tensors, notes })
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

#[derive(Deserialize)]
struct RawTensor {
    dtype: Dtype,
    shape: TensorSizes,
    data_offsets: (u64, u64),
}

impl RawTensor {
    fn into_info(self) -> TensorInfo {
        let (begin, end) = self.data_offsets;
        TensorInfo {
            dtype: TensorType::Plain(self.dtype),
            shape: self.shape.0,
            start: begin,
            // An end before the beginning is invalid for every tensor.
            bytes: end.checked_sub(begin).unwrap_or(u64::MAX),
        }
    }
}

/// A shape that is no longer than any tensor's.
struct TensorSizes(Vec<u64>);

impl<'de> Deserialize<'de> for TensorSizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = TensorSizes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sizes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TensorSizes, A::Error> {
                let mut sizes = Vec::new();
                while let Some(size) = seq.next_element()? {
                    if sizes.len() == MAX_RANK {
                        return Err(de::Error::custom(format!("{TOO_MANY} sizes of a tensor")));
                    }
                    sizes.push(size);
                }
                Ok(TensorSizes(sizes))
            }
        }

        deserializer.deserialize_seq(Each)
    }
}

/// Metadata of a file. The format allows text only; numbers, which some writers put there, are kept as text, and
/// everything else is dropped.
struct HeaderNotes(BTreeMap<String, String>);

/// Text of a note; `None` for what is neither a text nor a number.
struct HeaderNote(Option<String>);

impl<'de> Deserialize<'de> for HeaderNote {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NoteVisitor;

        impl<'de> Visitor<'de> for NoteVisitor {
            type Value = HeaderNote;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<HeaderNote, E> {
                Ok(HeaderNote(Some(text.to_owned())))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<HeaderNote, E> {
                Ok(HeaderNote(Some(flag.to_string())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<HeaderNote, E> {
                Ok(HeaderNote(Some(number.to_string())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<HeaderNote, E> {
                Ok(HeaderNote(Some(number.to_string())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<HeaderNote, E> {
                Ok(HeaderNote(Some(number.to_string())))
            }

            fn visit_unit<E>(self) -> Result<HeaderNote, E> {
                Ok(HeaderNote(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<HeaderNote, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| HeaderNote(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HeaderNote, A::Error> {
                IgnoredAny.visit_map(map).map(|_| HeaderNote(None))
            }
        }

        deserializer.deserialize_any(NoteVisitor)
    }
}

impl<'de> Deserialize<'de> for HeaderNotes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = HeaderNotes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("texts by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderNotes, A::Error> {
                let (mut notes, mut bytes) = (BTreeMap::new(), 0);
                while let Some((name, HeaderNote(text))) = map.next_entry::<String, HeaderNote>()? {
                    let Some(text) = text else {
                        continue;
                    };
                    let more = name.len() + text.len();
                    if bytes + more <= MAX_NOTE_BYTES && notes.len() < MAX_NOTES {
                        bytes += more;
                        notes.insert(name, text);
                    }
                }
                Ok(HeaderNotes(notes))
            }
        }

        deserializer.deserialize_map(Each)
    }
}

/// Checks that the tensors are contiguous and have the sizes that their shapes need, and sets their positions in the
/// file; returns the total size.
fn place(tensors: &mut [(String, TensorInfo)], data_start: u64) -> Result<u64, String> {
    let mut order: Vec<u32> = (0..tensors.len() as u32).collect();
    order.sort_unstable_by_key(|&index| {
        let info = &tensors[index as usize].1;
        (info.start, info.bytes)
    });
    let mut end = 0_u64;
    for index in order {
        let (name, info) = &mut tensors[index as usize];
        if info.start != end {
            return Err(format!("'{name}' begins at byte {}, not {end}", info.start));
        }
        if bytes_of(info) != Some(info.bytes) {
            let (shape, dtype) = (&info.shape, info.dtype);
            return Err(format!(
                "'{name}' has {} bytes, which {dtype} of {shape:?} are not",
                info.bytes
            ));
        }
        let next = end.checked_add(info.bytes);
        end = next.ok_or_else(|| format!("'{name}' ends nowhere"))?;
        info.start = info.start.saturating_add(data_start);
    }
    Ok(end)
}

/// Bytes of a tensor; `None` where its sizes overflow in any order of multiplication.
fn bytes_of(info: &TensorInfo) -> Option<u64> {
    let bits = info.dtype.plain()?.bitsize() as u64;
    let mut sizes = info.shape.iter().map(|&size| size.max(1));
    let bits = sizes.try_fold(bits, u64::checked_mul)?;
    if info.shape.contains(&0) {
        return Some(0);
    }
    (bits % 8 == 0).then_some(bits / 8)
}

/// Refuses what may be JSON for an endless text or endless white space between texts.
fn check_runs(json: &[u8]) -> Result<(), &'static str> {
    let (mut start, mut blank) = (None, 0);
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        let is_blank = start.is_none() && byte.is_ascii_whitespace();
        blank = if is_blank { blank + 1 } else { 0 };
        if blank > MAX_BLANK_BYTES {
            return Err("is mostly blank");
        }
        if start.is_some_and(|first| at - first > MAX_TEXT_BYTES) {
            return Err("has a text without end");
        }
        match (byte, start) {
            (b'\\', Some(_)) => at += 1,
            (b'"', Some(_)) => start = None,
            (b'"', None) => start = Some(at),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::file_of;
    use crate::testing::random::Random;

    fn read(bytes: &[u8]) -> Result<WeightHeader, HeaderError> {
        let (_folder, path) = file_of("a.safetensors", bytes);
        read_header(&File::open(&path).unwrap())
    }

    fn file(json: &str, data_bytes: usize) -> Vec<u8> {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.resize(bytes.len() + data_bytes, 0);
        bytes
    }

    const ONE: &str = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;

    #[test]
    fn safetensors_header_gives_names_shapes_and_metadata() {
        let header = read(&file(ONE, 24)).unwrap();
        assert_eq!(header.tensors.len(), 1);
        assert_eq!(header.info("a").unwrap().shape, [2, 3]);
        assert_eq!(header.data_bytes(), 24);
        assert_eq!(header.notes["format"], "pt");
    }

    #[test]
    fn metadata_that_is_no_text_is_no_fault() {
        let json = |value: &str| ONE.replace(r#"{"format":"pt"}"#, value);
        let notes = |value: &str| read(&file(&json(value), 24)).unwrap().notes;
        let mixed =
            r#"{"a":1,"b":-0.5,"c":true,"d":null,"e":[[1],{"f":2}],"g":{"h":[]},"i":"text"}"#;
        let kept = [("a", "1"), ("b", "-0.5"), ("c", "true"), ("i", "text")];
        let kept = kept.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(notes(mixed), BTreeMap::from(kept));
        assert!(notes("null").is_empty());
    }

    #[test]
    fn truncated_or_overlong_files_and_duplicate_keys_are_refused() {
        let whole = file(ONE, 24);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let twice = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
        for (bytes, said) in [
            (file(ONE, 120), "it is damaged (bytes too many: 96)"),
            (file("", 0), "its header is empty"),
            (file(twice, 2), "'a' twice"),
        ] {
            let err = read(&bytes).unwrap_err().to_string();
            assert!(err.contains(said), "{err}");
        }
    }

    #[test]
    fn hostile_headers_are_refused_without_a_panic() {
        let entry = |rest: &str| format!(r#"{{"a":{{"dtype":"U8",{rest}}}}}"#);
        let hostile = [
            u64::MAX.to_le_bytes().to_vec(),
            [100_000_001_u64.to_le_bytes().to_vec(), vec![b' '; 64]].concat(),
            file("not json", 0),
            file("[]", 0),
            file("\u{feff}{}", 0),
            file(&"[".repeat(100_000), 0),
            file(&entry(r#""shape":[4],"data_offsets":[4,0]"#), 4),
            file(&entry(r#""shape":[4],"data_offsets":[0,8]"#), 8),
            file(&entry(r#""shape":[-4],"data_offsets":[0,4]"#), 4),
            file(
                &entry(r#""shape":[18446744073709551615,2],"data_offsets":[0,4]"#),
                4,
            ),
            file(
                &entry(r#""shape":[4611686018427387904],"data_offsets":[0,4611686018427387904]"#),
                4,
            ),
            file(&ONE.replace("F32", "F33"), 24),
            file(
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                6,
            ),
            file(
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}}"#,
                9,
            ),
        ];
        for bytes in hostile {
            assert!(matches!(read(&bytes), Err(HeaderError::Unsound(_))));
        }
    }

    #[test]
    fn headers_that_need_excessive_memory_are_refused_or_trimmed() {
        let ones = format!(r#""shape":[{}1],"data_offsets":[0,1]"#, "1,".repeat(1000));
        let entry = |rest: &str| format!(r#"{{"a":{{"dtype":"U8",{rest}}}}}"#);
        let err = read(&file(&entry(&ones), 1)).unwrap_err().to_string();
        assert!(err.contains("too many sizes"), "{err}");
        let many = |count: usize| {
            let each = (0..count)
                .map(|i| format!(r#""{i:x}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#));
            format!("{{{}}}", each.collect::<Vec<_>>().join(","))
        };
        assert_eq!(read(&file(&many(40_000), 0)).unwrap().tensors.len(), 40_000);
        let endless = format!(r#"{{"{}":1}}"#, "\\n".repeat(SUSPICIOUS_BYTES));
        let err = read(&file(&endless, 0)).unwrap_err().to_string();
        assert!(err.contains("without end"), "{err}");
        let note = "x".repeat(MAX_NOTE_BYTES / 2);
        let noted = format!(r#"{{"__metadata__":{{"a":"{note}","b":"{note}","c":"d"}}}}"#);
        let header = read(&file(&noted, 0)).unwrap();
        assert_eq!(header.notes.keys().collect::<Vec<_>>(), ["a", "c"]);
        let text = |length: usize| format!("{{\"a\\\"{}\": 1}}", "b".repeat(length));
        assert!(check_runs(text(MAX_TEXT_BYTES - 8).as_bytes()).is_ok());
        assert!(check_runs(text(MAX_TEXT_BYTES + 1).as_bytes()).is_err());
        let blank = |length: usize| format!("{{\"a\":{}1}}", " ".repeat(length));
        assert!(check_runs(blank(MAX_BLANK_BYTES).as_bytes()).is_ok());
        assert!(check_runs(blank(MAX_BLANK_BYTES + 1).as_bytes()).is_err());
        assert!(check_runs(text(MAX_BLANK_BYTES * 2).replace('b', " ").as_bytes()).is_ok());
    }

    #[test]
    fn sizes_that_cannot_be_multiplied_in_every_order_are_refused() {
        let entry = |shape: &str| {
            format!(r#"{{"a":{{"dtype":"U8","shape":{shape},"data_offsets":[0,0]}}}}"#)
        };
        assert!(read(&file(&entry("[4294967296,0]"), 0)).is_ok());
        for shape in [
            "[0,4294967296,4294967296]",
            "[4294967296,0,4294967296]",
            "[18446744073709551615,0,2]",
        ] {
            let err = read(&file(&entry(shape), 0)).unwrap_err().to_string();
            assert!(err.contains("'a' has 0 bytes"), "{err}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = Random::new(7);
        for _ in 0..256 {
            let damaged = random.damaged(&file(ONE, 24), 64, 120);
            let _either = read(&damaged).is_ok();
        }
    }
}
