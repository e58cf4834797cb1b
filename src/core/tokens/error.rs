//! Errors of tokenizers and of their JSON files.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::files::{MAX_JSON_BYTES, read_bounded};
use crate::model::CatalogError;

/// Values in a JSON file, each of which takes many times its text in memory. Llama 3's tokenizer has a million.
const MAX_VALUES: usize = 1 << 21;

#[derive(Debug, Error)]
pub enum TokensError {
    /// Unreadable, unsound, or of a kind that is not supported.
    #[error(transparent)]
    File(#[from] CatalogError),
    /// The request cannot be fulfilled.
    #[error("{reason}")]
    Request { reason: String },
}

impl TokensError {
    pub(super) fn config(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        CatalogError::config(reason, path).into()
    }
}

/// Reads a file of a tokenizer, with the path in every error.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, TokensError> {
    read_bounded(path, MAX_JSON_BYTES).map_err(|source| match source.kind() {
        // The content is invalid; the disk is fine.
        io::ErrorKind::InvalidData => TokensError::config(source.to_string(), path),
        _ => CatalogError::io(source, path).into(),
    })
}

/// Reads a JSON file of at most [`MAX_VALUES`] into a type, with the path in every error.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TokensError> {
    let bytes = read_bytes(path)?;
    // Each value but the first follows one of these. Those within texts are few.
    let separators = bytes.iter().filter(|byte| b",[{".contains(byte));
    if separators.count() > MAX_VALUES {
        let reason = format!("expected a tokenizer of at most {MAX_VALUES} values, found more");
        return Err(TokensError::config(reason, path));
    }
    serde_json::from_slice(&bytes)
        .map_err(|err| TokensError::config(format!("not the JSON it should be: {err}"), path))
}
