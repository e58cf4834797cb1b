//! The weight files of one component folder: a single file, or an index with its shards.
//!
//! Reads headers only. The engine's `weights` chooses its files with these functions, so that what was checked is what
//! is loaded.

pub mod gguf;
pub mod header;
pub mod keys;
pub mod quant;
pub mod safetensors;
mod sniff;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Deserialize;
use serde_json::Value;

use crate::files::has_ending;
use crate::formats::{CatalogError, read_capped, sorted_entries};
pub(crate) use header::HeaderError;
use header::WeightHeader;
pub use header::{TensorInfo, TensorType};
pub(crate) use keys::ends_with_path;
use keys::is_aside;
pub(crate) use sniff::{git_lfs_pointer, is_gguf, without_content};
use sniff::{other_than_pickle, other_than_weights, unfinished_download};

/// An index of a model with thousands of layers has a few MB.
const MAX_INDEX_BYTES: u64 = 64 << 20;
/// A value takes many times as much as its text.
const MAX_NOTE_BYTES: usize = 2 << 20;
const PICKLES: [&str; 6] = ["bin", "ckpt", "pickle", "pkl", "pt", "pth"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    pub dtype: TensorType,
    pub shape: Vec<u64>,
    /// In the file.
    pub bytes: u64,
    /// Index of the file that holds it.
    pub file: usize,
}

/// All tensors of one component.
#[derive(Clone, Debug, Default)]
pub struct WeightSet {
    pub files: Vec<PathBuf>,
    pub tensors: BTreeMap<String, TensorEntry>,
    /// Bytes of all files.
    pub bytes: u64,
    pub notes: BTreeMap<String, String>,
    /// Noun phrases for quantized matrices that cannot be read, by name.
    pub faults: BTreeMap<String, String>,
    pub is_gguf: bool,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

impl WeightSet {
    /// Reads the headers of a component's folder, an index of shards, or one file.
    pub fn open(place: &Path) -> Result<Self, CatalogError> {
        let path = if place.is_dir() {
            weight_file_in(place)?
        } else {
            place.to_owned()
        };
        if is_index(&path) {
            Self::from_index(&path)
        } else {
            Self::from_file(&path)
        }
    }

    pub fn from_file(path: &Path) -> Result<Self, CatalogError> {
        let mut set = Self::default();
        set.add(path)?;
        if let Some(count) = shard_count(path).filter(|count| *count > 1) {
            let (whose, advice) = if set.is_gguf {
                (
                    "and Safelight reads GGUF models of one file",
                    "Get the model as one GGUF file, or download all of its files and merge them with llama-gguf-split",
                )
            } else {
                (
                    "whose index is not beside it",
                    "Download all of these files and the .safetensors.index.json into one folder",
                )
            };
            let reason = format!("this is one of {count} files of a model, {whose}");
            return Err(CatalogError::wrong_file(reason, advice, path));
        }
        Ok(set)
    }

    /// Reads the headers of all shards, and finds every tensor where the index says that it is.
    fn from_index(index_path: &Path) -> Result<Self, CatalogError> {
        let mut set = Self::default();
        for (key, shard) in tensors_of_index(index_path)? {
            let number = match set.files.iter().position(|file| *file == shard) {
                Some(number) => number,
                None => set.add(&shard)?,
            };
            let entry = set.tensors.get(&key);
            if entry.is_none_or(|entry| entry.file != number) {
                return Err(misplaced(&key, &shard, index_path));
            }
        }
        Ok(set)
    }

    /// Adds one file's tensors; returns its number.
    fn add(&mut self, path: &Path) -> Result<usize, CatalogError> {
        if is_pickle(path) {
            return Err(pickle(path));
        }
        if let Some((found, advice)) = unfinished_download(path) {
            let reason = format!("this is {found}");
            return Err(CatalogError::wrong_file(reason, advice, path));
        }
        let header = match WeightHeader::open(path) {
            Ok((_, header)) => header,
            Err(HeaderError::Io(err)) if err.kind() == std::io::ErrorKind::NotFound => {
                return Err(CatalogError::missing("a weight file", path));
            }
            Err(err) => {
                let is_read = matches!(err, HeaderError::Unsound(_));
                let found = is_read.then(|| other_than_weights(path)).flatten();
                return Err(match found {
                    Some(other) => not_a_model(other, path),
                    None => CatalogError::of_header(err, path),
                });
            }
        };
        let file = self.files.len();
        let entries = header.tensors().map(|(name, info)| {
            let entry = TensorEntry {
                dtype: info.dtype,
                shape: info.shape.clone(),
                bytes: info.bytes,
                file,
            };
            (name.to_owned(), entry)
        });
        if self.tensors.is_empty() {
            // Sorted as they are, they need no search each.
            self.tensors = entries.collect();
        } else {
            self.tensors.extend(entries);
        }
        self.bytes = self.bytes.saturating_add(header.file_bytes);
        self.is_gguf = header.gguf.is_some();
        self.notes.extend(header.notes);
        self.faults.extend(header.faults);
        self.files.push(path.to_owned());
        Ok(file)
    }

    pub fn expect(&self, key: &str, expected: &[u64]) -> Result<(), CatalogError> {
        let Some(entry) = self.tensors.get(key) else {
            let reason = format!("tensor '{key}' is missing, expected the shape {expected:?}");
            return Err(CatalogError::tensor(reason, self.place()));
        };
        if entry.shape != expected {
            let found = &entry.shape;
            let reason = format!(
                "tensor '{key}' has the wrong shape, expected {expected:?}, found {found:?}"
            );
            let path = self.files.get(entry.file).cloned().unwrap_or_default();
            return Err(CatalogError::tensor(reason, path));
        }
        Ok(())
    }

    /// A config that says fewer layers than the weights have would quietly make another image: `next` is what
    /// the names of one layer more would begin with.
    pub(crate) fn no_more_layers(
        &self,
        next: &str,
        expected: impl fmt::Display,
    ) -> Result<(), CatalogError> {
        match self.tensors.keys().find(|key| key.starts_with(next)) {
            Some(key) => Err(CatalogError::config(
                format!("expected {expected} layers by the config, found the tensor '{key}'"),
                self.files.first().cloned().unwrap_or_default(),
            )),
            None => Ok(()),
        }
    }

    /// Returns true if a key belongs to how the weights next to it are stored, and is no weight itself.
    pub fn is_aside(key: &str) -> bool {
        is_aside(key)
    }

    /// A note that is JSON. One that is far longer than anything that is looked for in notes is not read.
    pub(crate) fn json_note(&self, name: &str) -> Option<Value> {
        let text = self.notes.get(name)?;
        let is_sensible = text.len() <= MAX_NOTE_BYTES;
        is_sensible.then(|| serde_json::from_str(text).ok())?
    }

    pub fn shape(&self, key: &str) -> Option<Vec<u64>> {
        self.tensors.get(key).map(|entry| entry.shape.clone())
    }

    /// The shape of the first tensor whose key is one of `ends`, bare or after a prefix of whole names.
    pub(crate) fn shape_by_end(&self, ends: &[&str]) -> Option<&[u64]> {
        let is_it = |key: &str| ends.iter().any(|end| ends_with_path(key, end));
        let mut tensors = self.tensors.iter();
        let found = tensors.find(|(key, _)| is_it(key));
        found.map(|(_, entry)| &entry.shape[..])
    }

    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tensors.keys().map(String::as_str)
    }

    pub fn has(&self, key: &str) -> bool {
        self.tensors.contains_key(key)
    }

    /// The number of weights; what belongs to their storage does not count.
    pub fn parameters(&self) -> u64 {
        self.own_tensors()
            .map(|entry| entry.shape.iter().product::<u64>())
            .fold(0, u64::saturating_add)
    }

    fn own_tensors(&self) -> impl Iterator<Item = &TensorEntry> {
        let tensors = self.tensors.iter();
        tensors.filter_map(|(key, entry)| (!is_aside(key)).then_some(entry))
    }

    pub fn dtypes(&self) -> BTreeMap<String, u64> {
        let mut dtypes = BTreeMap::new();
        for entry in self.own_tensors() {
            let count: &mut u64 = dtypes.entry(entry.dtype.to_string()).or_default();
            *count = count.saturating_add(entry.shape.iter().product::<u64>());
        }
        dtypes
    }

    /// Files in which a missing tensor was searched.
    fn place(&self) -> PathBuf {
        match &self.files[..] {
            [only] => only.clone(),
            files => files
                .first()
                .and_then(|path| path.parent())
                .unwrap_or_else(|| Path::new(""))
                .to_owned(),
        }
    }
}

/// The bytes of weight files, each counted once however many parts it holds.
#[derive(Debug, Default)]
pub(crate) struct FileBytes(BTreeMap<Vec<PathBuf>, u64>);

impl FileBytes {
    pub(crate) fn add(&mut self, weights: &WeightSet) {
        self.0.insert(weights.files.clone(), weights.bytes);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.values().copied().fold(0, u64::saturating_add)
    }
}

/// The tensors that an index names, each with the file that holds it.
pub fn tensors_of_index(index_path: &Path) -> Result<Vec<(String, PathBuf)>, CatalogError> {
    let bad = |reason: String| CatalogError::config(reason, index_path);
    let text = read_capped(index_path, MAX_INDEX_BYTES)?;
    let index: ShardIndex = serde_json::from_slice(&text)
        .map_err(|err| bad(format!("not a sound weight index: {err}")))?;
    if index.weight_map.is_empty() {
        return Err(bad("the weight index lists no tensors".to_owned()));
    }
    let folder = index_path.parent().unwrap_or_else(|| Path::new(""));
    let placed = index.weight_map.into_iter().map(|(key, shard)| {
        // A shard is next to its index: a name with folders in it could lead anywhere.
        if Path::new(&shard).file_name() == Some(shard.as_ref()) {
            return Ok((key, folder.join(shard)));
        }
        Err(bad(format!(
            "expected the names of files beside the index, found '{shard}'"
        )))
    });
    placed.collect()
}

/// Error of an index that names a tensor of a file that does not hold it.
pub fn misplaced(key: &str, shard: &Path, index_path: &Path) -> CatalogError {
    let shard = shard.file_name().unwrap_or_default().display();
    let reason = format!("the weight index places '{key}' in {shard}, which does not have it");
    CatalogError::config(reason, index_path)
}

/// The file that a folder's weights are read from, which may be an index. The names that diffusers and transformers
/// write come first; otherwise a folder must leave no choice.
pub fn weight_file_in(folder: &Path) -> Result<PathBuf, CatalogError> {
    for stem in ["diffusion_pytorch_model", "model"] {
        for end in ["safetensors", "safetensors.index.json"] {
            let path = folder.join(format!("{stem}.{end}"));
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    let paths = sorted_entries(folder)?;
    for end in [".safetensors.index.json", ".safetensors", ".gguf"] {
        let mut fitting = paths
            .iter()
            .filter(|path| path.to_string_lossy().ends_with(end));
        if let (Some(only), None) = (fitting.next(), fitting.next()) {
            return Ok(only.clone());
        }
    }
    // A link to a file that is gone: a download whose parts were moved or cleaned up.
    let dangling = paths.iter().find(|path| {
        path.extension().is_some_and(|end| end == "safetensors") && fs::metadata(path).is_err()
    });
    if let Some(path) = dangling {
        return Err(CatalogError::missing(
            "the file that this link leads to",
            path.clone(),
        ));
    }
    if let Some(path) = paths.iter().find(|path| is_pickle(path)) {
        return Err(pickle(path));
    }
    Err(CatalogError::missing(
        "a weight file (.safetensors, .safetensors.index.json with its shards, or .gguf)",
        folder,
    ))
}

/// Returns true if `file`, a weight file or an index, is what its folder is read from.
pub(crate) fn is_weight_file_of(file: &Path, folder: &Path) -> bool {
    weight_file_in(folder).is_ok_and(|own| own == file)
}

/// Number of files that hold a model together, in a name such as `model-00002-of-00006.safetensors`.
pub(crate) fn shard_count(path: &Path) -> Option<u32> {
    let stem = path.file_stem()?.to_str()?;
    let mut parts = stem.rsplit('-');
    let is_number = |part: &&str| part.len() == 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    let count = parts.next().filter(is_number)?;
    let is_shard = parts.next() == Some("of") && parts.next().is_some_and(|part| is_number(&part));
    is_shard.then(|| count.parse().ok())?
}

pub fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".index.json")
}

pub fn is_pickle(path: &Path) -> bool {
    has_ending(path, &PICKLES)
}

pub fn pickle(path: &Path) -> CatalogError {
    pickle_instead(path, "the .safetensors version of the same weights")
}

pub(crate) fn pickle_instead(path: &Path, instead: &str) -> CatalogError {
    if let Some(other) = other_than_pickle(path) {
        return not_a_model(other, path);
    }
    CatalogError::Pickle {
        instead: instead.to_owned(),
        path: path.to_owned(),
    }
}

fn not_a_model((found, advice): (impl fmt::Display, &'static str), path: &Path) -> CatalogError {
    CatalogError::wrong_file(format!("this is {found}, not a model"), advice, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_json_unless_it_is_endless() {
        let mut set = WeightSet::default();
        let list = |count: usize| format!("[{}1]", "1,".repeat(count));
        set.notes.insert("short".to_owned(), list(1000));
        set.notes.insert("long".to_owned(), list(MAX_NOTE_BYTES));
        set.notes.insert("broken".to_owned(), "[1".to_owned());
        assert!(set.json_note("short").is_some_and(|list| list.is_array()));
        for name in ["long", "broken", "absent"] {
            assert_eq!(set.json_note(name), None, "{name}");
        }
    }
}
