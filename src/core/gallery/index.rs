//! Files of the gallery: metadata read from each result, and the favourites.
//!
//! Metadata can be read again, so a broken index is ignored. Favourites cannot: a broken file of them is moved aside,
//! never overwritten.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::FileStamp;
use super::facts::ResultMetadata;
use crate::files::{FileError, aside_path, read_bounded, write_json};
use crate::uri::{decoded, encoded};

/// Of a gallery of more than a million results.
const MAX_INDEX_BYTES: u64 = 1 << 30;
/// Of another version everything is read anew.
const VERSION: u32 = 5;
/// Limit of records of missing files, which are kept because a disk may come back.
const MAX_RECORDS: usize = 200_000;

/// Why something was not kept or found again.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Unreadable(FileError),
    #[error(transparent)]
    Other(FileError),
}

/// Result of reading a file.
pub(super) type KnownFile = (FileStamp, Result<Arc<ResultMetadata>, String>);

#[derive(Serialize, Deserialize)]
struct IndexFile {
    version: u32,
    records: Vec<IndexRecord>,
}

#[derive(Serialize, Deserialize)]
struct IndexRecord {
    path: String,
    #[serde(flatten)]
    stamp: FileStamp,
    facts: Arc<ResultMetadata>,
}

/// Records of the index; empty if it is lost.
pub(super) fn load(path: &Path) -> HashMap<PathBuf, KnownFile> {
    let Ok(bytes) = read_bounded(path, MAX_INDEX_BYTES) else {
        return HashMap::new();
    };
    match serde_json::from_slice::<IndexFile>(&bytes) {
        Ok(index) if index.version == VERSION => index
            .records
            .into_iter()
            .map(|record| (decoded(&record.path), (record.stamp, Ok(record.facts))))
            .collect(),
        Ok(_) => HashMap::new(),
        Err(err) => {
            tracing::info!("the gallery's index is rebuilt: {err}");
            HashMap::new()
        }
    }
}

/// Keeps what was read. What could not be is tried again at the next start: a disk may be back by then.
pub(super) fn save(path: &Path, known: &HashMap<PathBuf, KnownFile>) -> io::Result<()> {
    let mut records: Vec<IndexRecord> = known
        .iter()
        .filter_map(|(path, (stamp, read))| {
            Some(IndexRecord {
                path: encoded(path),
                stamp: *stamp,
                facts: Arc::clone(read.as_ref().ok()?),
            })
        })
        .take(MAX_RECORDS)
        .collect();
    records.sort_by(|one, other| one.path.cmp(&other.path));
    let index = IndexFile {
        version: VERSION,
        records,
    };
    write_json(path, &index)
}

#[derive(Serialize, Deserialize)]
struct FavouritesFile {
    favourites: Vec<String>,
}

pub(super) fn load_favourites(path: &Path) -> (BTreeSet<PathBuf>, Option<IndexError>) {
    let bytes = match read_bounded(path, MAX_INDEX_BYTES) {
        Ok(bytes) => bytes,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Default::default(),
        Err(err) => return (BTreeSet::new(), Some(unreadable(&err, path))),
    };
    if let Ok(file) = serde_json::from_slice::<FavouritesFile>(&bytes) {
        let paths = file.favourites.iter().map(|text| decoded(text));
        return (paths.collect(), None);
    }
    let aside = aside_path(path);
    let moved = fs::rename(path, &aside);
    let problem = match moved {
        Ok(()) => IndexError::Other(FileError::new(
            "the list of favourites is damaged and was moved aside",
            &aside,
        )),
        Err(err) => unreadable(&err, path),
    };
    (BTreeSet::new(), Some(problem))
}

pub(super) fn save_favourites(
    path: &Path,
    favourites: &BTreeSet<PathBuf>,
) -> Result<(), IndexError> {
    let file = FavouritesFile {
        favourites: favourites.iter().map(|path| encoded(path)).collect(),
    };
    write_json(path, &file).map_err(|err| {
        let sentence = format!("the list of favourites cannot be saved ({err})");
        IndexError::Other(FileError::new(sentence, path))
    })
}

fn unreadable(err: &io::Error, path: &Path) -> IndexError {
    let sentence = format!("the list of favourites cannot be read ({err})");
    IndexError::Unreadable(FileError::new(sentence, path))
}
