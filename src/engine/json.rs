//! Reads a JSON configuration into a type, with the path in every error.

use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::catalog::{Component, Family, component_config};
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// The numbers of a component: its folder's `config.json`, or what the header of its file says. `part` is where
/// they stand when the configuration is that of a larger model.
pub fn read_component<T: DeserializeOwned>(
    family: Family,
    component: Component,
    part: Option<&str>,
    place: &Path,
) -> Result<T, EngineError> {
    let mut value = component_config(family, component, place)?;
    let inner = part.and_then(|part| value.get_mut(part));
    if let Some(inner @ Value::Object(_)) = inner {
        value = inner.take();
    }
    serde_json::from_value(value).map_err(|err| EngineError::Config {
        reason: format!("its configuration is not sound: {err}"),
        path: config_path(place),
    })
}

/// The file that is to blame for the numbers of a component.
pub fn config_path(place: &Path) -> PathBuf {
    if place.is_dir() {
        place.join("config.json")
    } else {
        place.to_owned()
    }
}

/// What is said of the first thing in a scheduler's config that is on and not known here: `options` are names and
/// whether they are on.
pub(crate) fn unsupported(options: &[(&str, bool)]) -> Option<String> {
    let (name, _) = options.iter().find(|(_, is_on)| *is_on)?;
    Some(format!("the scheduler's '{name}' is not supported"))
}
