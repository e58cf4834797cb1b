//! What can be wrong with a tokenizer, and how its JSON files are read.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::files::{MAX_JSON_BYTES, read_bounded};
use crate::formats::weights::header::HeaderError;

#[derive(Debug, Error)]
pub enum TokensError {
    /// Unreadable, unsound, or of a kind that is not supported.
    #[error("{reason}: {}", path.display())]
    Config { reason: String, path: PathBuf },
    /// What is asked of it cannot be had.
    #[error("{reason}")]
    Request { reason: String },
    #[error("{source}: {}", path.display())]
    Io { source: io::Error, path: PathBuf },
}

impl TokensError {
    /// What is wrong with the header of a weight file that may carry a tokenizer.
    pub(super) fn of_header(err: HeaderError, path: &Path) -> Self {
        let path = path.to_owned();
        match err {
            HeaderError::Io(source) => Self::Io { source, path },
            HeaderError::Unsound(reason) => Self::Config { reason, path },
        }
    }
}

/// Reads a file of a tokenizer, with the path in every error.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, TokensError> {
    read_bounded(path, MAX_JSON_BYTES).map_err(|source| {
        let path = path.to_owned();
        match source.kind() {
            // What it holds is wrong, and no disk.
            io::ErrorKind::InvalidData => TokensError::Config {
                reason: source.to_string(),
                path,
            },
            _ => TokensError::Io { source, path },
        }
    })
}

/// Reads a JSON file into a type, with the path in every error.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TokensError> {
    serde_json::from_slice(&read_bytes(path)?).map_err(|err| TokensError::Config {
        reason: format!("not the JSON it should be: {err}"),
        path: path.to_owned(),
    })
}
