//! From a path to its weight files: a single file, an index with shards, or a folder with either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::files::read_bounded;
use serde::Deserialize;
use tch::Device;

use super::WeightsError;
use super::file::WeightFile;

/// An index of a 1000-layer model has a few MB.
const MAX_INDEX_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

type Opened = (Vec<WeightFile>, BTreeMap<String, usize>);

/// The files that [`open`] would read, by their names alone.
pub(super) fn files(path: &Path) -> Option<Vec<PathBuf>> {
    let path = if path.is_dir() {
        file_in_folder(path).ok()?
    } else {
        path.to_owned()
    };
    if !path.to_string_lossy().ends_with(".index.json") {
        return Some(vec![path]);
    }
    let index: Index = serde_json::from_slice(&read_bounded(&path, MAX_INDEX_BYTES).ok()?).ok()?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    let folder = path.parent()?;
    Some(shards.into_iter().map(|shard| folder.join(shard)).collect())
}

pub(super) fn open(path: &Path, device: Device) -> Result<Opened, WeightsError> {
    let (mut files, keys) = open_files(path, device)?;
    if device != Device::Cpu {
        WeightFile::stage(&mut files);
    }
    Ok((files, keys))
}

fn open_files(path: &Path, device: Device) -> Result<Opened, WeightsError> {
    let path = if path.is_dir() {
        &file_in_folder(path)?
    } else {
        path
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".index.json") {
        return open_shards(path, device);
    }
    if is_pickle(path) {
        return Err(WeightsError::Pickle {
            path: path.to_owned(),
        });
    }
    let file = WeightFile::open(path, device)?;
    let keys = file.names().map(|key| (key.to_owned(), 0)).collect();
    Ok((vec![file], keys))
}

/// The names that diffusers and transformers write come first; otherwise a folder must leave no choice.
fn file_in_folder(folder: &Path) -> Result<PathBuf, WeightsError> {
    let io = WeightsError::io(folder);
    for stem in ["diffusion_pytorch_model", "model"] {
        for end in ["safetensors", "safetensors.index.json"] {
            let path = folder.join(format!("{stem}.{end}"));
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(&io)? {
        paths.push(entry.map_err(&io)?.path());
    }
    paths.sort();
    let with_end = |end: &str| -> Vec<&PathBuf> {
        let ends = |p: &&PathBuf| p.to_string_lossy().ends_with(end);
        paths.iter().filter(ends).collect()
    };
    for end in [".safetensors.index.json", ".safetensors", ".gguf"] {
        if let [only] = with_end(end)[..] {
            return Ok(only.clone());
        }
    }
    if let Some(path) = paths.iter().find(|path| is_pickle(path)) {
        return Err(WeightsError::Pickle { path: path.clone() });
    }
    Err(WeightsError::NoWeights {
        path: folder.to_owned(),
    })
}

fn open_shards(index_path: &Path, device: Device) -> Result<Opened, WeightsError> {
    let io = WeightsError::io(index_path);
    let bad = |reason: String| WeightsError::Index {
        reason,
        path: index_path.to_owned(),
    };
    let text = read_bounded(index_path, MAX_INDEX_BYTES).map_err(io)?;
    let index: Index = serde_json::from_slice(&text).map_err(|err| bad(err.to_string()))?;
    let folder = index_path.parent().unwrap_or_else(|| Path::new(""));
    let mut files = Vec::new();
    let mut shards = BTreeMap::new();
    let mut keys = BTreeMap::new();
    for (key, shard) in index.weight_map {
        let number = if let Some(&number) = shards.get(&shard) {
            number
        } else {
            // A shard lies beside its index: a name with folders in it could lead anywhere.
            if Path::new(&shard).file_name() != Some(shard.as_ref()) {
                return Err(bad(format!("it names the shard '{shard}'")));
            }
            files.push(WeightFile::open(&folder.join(&shard), device)?);
            shards.insert(shard, files.len() - 1);
            files.len() - 1
        };
        let file: &WeightFile = &files[number];
        if file.info(&key).is_none() {
            return Err(bad(format!(
                "it places '{key}' in {}, which does not have it",
                file.path().display()
            )));
        }
        keys.insert(key, number);
    }
    // Keys that the index forgot are found all the same.
    for (number, file) in files.iter().enumerate() {
        for key in file.names() {
            if !keys.contains_key(key) {
                keys.insert(key.to_owned(), number);
            }
        }
    }
    Ok((files, keys))
}

fn is_pickle(path: &Path) -> bool {
    let ends = ["ckpt", "pt", "pth", "bin", "pkl"];
    path.extension()
        .is_some_and(|end| ends.iter().any(|pickle| end.eq_ignore_ascii_case(pickle)))
}
