//! The header of a safetensors file, read and checked without touching its data.
//!
//! Everything in a header is hostile until checked here: its length, its text, the tensors' offsets and
//! sizes. Does not know which tensors a model needs, nor about shards.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use safetensors::tensor::{Metadata, TensorInfo};

use super::header::HeaderError;

/// The format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// The checked header of one file: every tensor lies within the file, none overlaps another, and
/// together they fill it to its last byte.
#[derive(Debug)]
pub struct Header {
    metadata: Metadata,
    /// Where the data begins, from the start of the file.
    pub data_start: u64,
    pub file_bytes: u64,
}

impl Header {
    /// Reads the header of an open file, whose position does not matter and does not move.
    pub(super) fn of_file(file: &File) -> Result<Self, HeaderError> {
        let unsound = |reason: String| Err(HeaderError::Unsound(reason));
        let file_bytes = file.metadata()?.len();
        if file_bytes < 8 {
            return unsound(format!(
                "expected a header of at least 8 bytes, the file has {file_bytes}"
            ));
        }
        let mut length = [0; 8];
        file.read_exact_at(&mut length, 0)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > MAX_HEADER_BYTES || header_bytes > file_bytes - 8 {
            return unsound(format!(
                "its header claims {header_bytes} bytes, the file has {file_bytes}: it is cut off or no safetensors file"
            ));
        }
        let mut text = vec![0; header_bytes as usize];
        file.read_exact_at(&mut text, 8)?;
        let metadata: Metadata = match serde_json::from_slice(&text) {
            Ok(metadata) => metadata,
            Err(err) => return unsound(format!("its header is wrong: {err}")),
        };
        let data_start = 8 + header_bytes;
        // Offsets are as hostile as the rest: their sum may not fit.
        let expected = data_start.checked_add(metadata.data_len() as u64);
        if expected != Some(file_bytes) {
            let expected = expected.map_or_else(|| "too many".to_owned(), |n| n.to_string());
            return unsound(format!(
                "its header describes {expected} bytes, the file has {file_bytes}: it is cut off or damaged"
            ));
        }
        Ok(Self {
            metadata,
            data_start,
            file_bytes,
        })
    }

    /// The tensors' names, in the order of their data.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.metadata.info(name)
    }

    /// Bytes of all tensors.
    pub fn data_bytes(&self) -> u64 {
        self.metadata.data_len() as u64
    }

    /// The free text that the file carries about itself.
    pub fn notes(&self) -> BTreeMap<String, String> {
        self.metadata
            .metadata()
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        fs::write(&path, bytes).unwrap();
        Header::of_file(&File::open(&path).unwrap())
    }

    fn file(json: &str, data_bytes: usize) -> Vec<u8> {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.resize(bytes.len() + data_bytes, 0);
        bytes
    }

    const ONE: &str = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;

    #[test]
    fn a_sound_header_tells_names_shapes_and_notes() {
        let header = read(&file(ONE, 24)).unwrap();
        assert_eq!(header.names(), ["a"]);
        assert_eq!(header.info("a").unwrap().shape, [2, 3]);
        assert_eq!(header.data_bytes(), 24);
        assert_eq!(header.notes()["format"], "pt");
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let whole = file(ONE, 24);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let longer = file(ONE, 25);
        assert!(read(&longer).unwrap_err().to_string().contains("damaged"));
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

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), at in 0usize..120) {
            let mut damaged = file(ONE, 24);
            let at = at.min(damaged.len());
            let end = (at + bytes.len()).min(damaged.len());
            damaged[at..end].copy_from_slice(&bytes[..end - at]);
            let _either = read(&damaged).is_ok();
        }
    }
}
