//! Index file of the gallery: metadata read from each result.
//!
//! It can be read from them again, so a broken index is ignored.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::FileStamp;
use super::facts::ResultMetadata;
use crate::files::{FileError, read_bounded, write_json};
use crate::uri::{decoded, encoded};

/// Of a gallery of more than a million results.
const MAX_INDEX_BYTES: u64 = 1 << 30;
/// Of another version everything is read anew.
const VERSION: u32 = 7;
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
