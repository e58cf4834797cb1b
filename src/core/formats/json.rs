//! Small JSON files of a diffusers folder, read with a limit.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::CatalogError;
use super::weights::git_lfs_pointer;
use crate::files::{self, read_bounded};

const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Reads a JSON file of a sensible size into `T`.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, CatalogError> {
    let text = read_capped(path, MAX_CONFIG_BYTES)?;
    serde_json::from_slice(&text)
        .map_err(|err| CatalogError::damaged(format!("this config is damaged: {err}"), path))
}

/// Reads a whole file that must be a plain one of at most `max_bytes`.
pub(crate) fn read_capped(path: &Path, max_bytes: u64) -> Result<Vec<u8>, CatalogError> {
    if let Some((found, _)) = git_lfs_pointer(path) {
        let reason = format!("this is {found}: run `git lfs pull` in its folder");
        return Err(CatalogError::config(reason, path));
    }
    read_bounded(path, max_bytes).map_err(|source| {
        if source.kind() == ErrorKind::InvalidData {
            return CatalogError::damaged(source.to_string(), path);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        CatalogError::unread(&format!("the file {name}"), source, path)
    })
}

/// Entries of a folder, sorted.
pub(crate) fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    files::sorted_entries(folder)
        .map_err(|source| CatalogError::unread("the folder", source, folder))
}
