//! Small JSON files of a diffusers folder, read with a limit.
//!
//! `networks` reads the configs of networks and schedulers.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CatalogError;
use crate::files::{self, read_bounded};
use crate::formats::weights::git_lfs_pointer;

const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// `model_index.json`: which pipeline this is, and which class each component has.
#[derive(Clone, Debug, Default)]
pub struct ModelIndex {
    pub class: String,
    pub expand_timesteps: bool,
    pub boundary_ratio: Option<f64>,
    /// True if the pipeline states that the model was distilled to few steps.
    pub is_distilled: Option<bool>,
    /// Component → class, for those that are not null.
    pub components: BTreeMap<String, String>,
}

impl ModelIndex {
    pub fn read(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.join("model_index.json");
        let fields: BTreeMap<String, Value> = read_json(&path)?;
        let Some(Value::String(class)) = fields.get("_class_name") else {
            return Err(CatalogError::config(
                "expected '_class_name' with a pipeline's name, found none",
                path,
            ));
        };
        let components = fields
            .iter()
            .filter_map(|(name, value)| match value.as_array().map(Vec::as_slice) {
                Some([_, Value::String(class)]) => Some((name.clone(), class.clone())),
                _ => None,
            })
            .collect();
        Ok(Self {
            class: class.clone(),
            expand_timesteps: fields.get("expand_timesteps") == Some(&Value::Bool(true)),
            boundary_ratio: fields.get("boundary_ratio").and_then(Value::as_f64),
            is_distilled: fields.get("is_distilled").and_then(Value::as_bool),
            components,
        })
    }
}

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
