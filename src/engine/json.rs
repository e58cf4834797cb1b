//! Reads JSON configurations into types, with the path in every error.

use std::fs;
use std::path::Path;

use safelight_core::catalog::{Component, component_config};
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

/// What a component's folder or file says about its network.
pub fn component<T: DeserializeOwned>(
    component: Component,
    place: &Path,
) -> Result<T, EngineError> {
    let config = component_config(component, place)?;
    serde_json::from_value(config).map_err(|err| EngineError::Config {
        reason: format!("not the configuration it should be: {err}"),
        path: place.to_owned(),
    })
}
