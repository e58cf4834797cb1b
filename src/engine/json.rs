//! Reads a JSON configuration file into a type, with the path in every error.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::EngineError;

pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, EngineError> {
    let text = fs::read(path).map_err(|source| EngineError::Io {
        source,
        path: path.to_owned(),
    })?;
    serde_json::from_slice(&text).map_err(|err| EngineError::Config {
        reason: format!("not the JSON it should be: {err}"),
        path: path.to_owned(),
    })
}
