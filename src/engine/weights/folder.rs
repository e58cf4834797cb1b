//! From a path to its weight files: a single file, an index with shards, or a folder with either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use safelight_core::formats::weights::{
    is_index, is_pickle, misplaced, pickle, tensors_of_index, weight_file_in,
};
use safelight_core::model::CatalogError;
use tch::Device;

use super::WeightsError;
use super::file::OpenWeightFile;

type OpenedFiles = (Vec<OpenWeightFile>, BTreeMap<String, usize>);

/// The files that [`open`] would read, by their names alone.
pub(super) fn files(path: &Path) -> Option<Vec<PathBuf>> {
    let path = file_at(path).ok()?;
    if !is_index(&path) {
        return Some(vec![path]);
    }
    let placed = tensors_of_index(&path).ok()?.into_iter();
    let shards: BTreeSet<PathBuf> = placed.map(|(_, shard)| shard).collect();
    Some(shards.into_iter().collect())
}

pub(super) fn open(path: &Path, device: Device) -> Result<OpenedFiles, WeightsError> {
    let (mut files, keys) = open_files(path, device)?;
    if device != Device::Cpu {
        OpenWeightFile::stage(&mut files);
    }
    Ok((files, keys))
}

fn file_at(path: &Path) -> Result<PathBuf, CatalogError> {
    if path.is_dir() {
        weight_file_in(path)
    } else {
        Ok(path.to_owned())
    }
}

fn open_files(path: &Path, device: Device) -> Result<OpenedFiles, WeightsError> {
    let path = &file_at(path)?;
    if is_index(path) {
        return open_shards(path, device);
    }
    if is_pickle(path) {
        return Err(pickle(path).into());
    }
    let file = OpenWeightFile::open(path, device)?;
    let keys = file.names().map(|key| (key.to_owned(), 0)).collect();
    Ok((vec![file], keys))
}

fn open_shards(index_path: &Path, device: Device) -> Result<OpenedFiles, WeightsError> {
    let mut files: Vec<OpenWeightFile> = Vec::new();
    let mut keys = BTreeMap::new();
    for (key, shard) in tensors_of_index(index_path)? {
        let known = files.iter().position(|file| file.path() == shard);
        if known.is_none() {
            files.push(OpenWeightFile::open(&shard, device)?);
        }
        let number = known.unwrap_or(files.len() - 1);
        if files[number].info(&key).is_none() {
            return Err(misplaced(&key, &shard, index_path).into());
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
