//! A byte-level tokenizer as it ships with the app: its merges alone, compressed.
//!
//! The ids of such a vocabulary follow from the merges: 256 for single bytes, then one for each merge. The published
//! files say the same in five times the room.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::classes;
use super::files::read_bytes;
use crate::model::CatalogError;

pub(crate) const PACKED_MERGES: &str = "merges.txt.gz";
/// Qwen's have 1.7 MB.
const MAX_BYTES: u64 = 64 << 20;

/// The vocabulary and the merges of what is packed in a folder, as `vocab.json` and `merges.txt` have them.
pub(super) fn read(folder: &Path) -> Result<[Value; 2], CatalogError> {
    let path = folder.join(PACKED_MERGES);
    let merges = classes::merges(&text(&path)?).map_err(|why| CatalogError::config(why, path))?;
    let joined = merges.as_array().into_iter().flatten().map(|pair| {
        let half = |at: usize| pair[at].as_str().unwrap_or_default();
        format!("{}{}", half(0), half(1))
    });
    let single = letters().map(String::from);
    let vocab: Map<String, Value> = single.chain(joined).zip((0..).map(Value::from)).collect();
    Ok([Value::Object(vocab), merges])
}

/// Number of ids in a folder's vocabulary.
pub(crate) fn packed_ids(folder: &Path) -> Result<u64, CatalogError> {
    let text = text(&folder.join(PACKED_MERGES))?;
    let merges = text.lines().filter(|line| !line.starts_with("#version"));
    Ok((letters().count() + merges.count()) as u64)
}

fn text(path: &Path) -> Result<String, CatalogError> {
    let bytes = read_bytes(path)?;
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice())
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|err| {
            CatalogError::config(format!("its merges cannot be unpacked: {err}"), path)
        })?;
    Ok(text)
}

/// Characters for single bytes, in the order of their ids: printable ones, then the others.
fn letters() -> impl Iterator<Item = char> {
    let seen = ('!'..='~').chain('¡'..='¬').chain('®'..='ÿ');
    seen.chain(('\u{100}'..).take(256 - 188))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_letter() {
        let all: std::collections::BTreeSet<char> = letters().collect();
        assert_eq!((all.len(), letters().count()), (256, 256));
        assert_eq!(letters().nth(188), Some('\u{100}'));
    }
}
