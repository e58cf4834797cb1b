//! Where an encoder lies: a folder with its `config.json`, a file of its own, or a part of a larger file.
//!
//! Reads no weights and knows no network: the encoders say by which key they are known.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::EngineError;
use crate::json;
use crate::weights::Weights;

/// More than any encoder has.
const MAX_LAYERS: i64 = 1000;

/// The numbers that a folder's `config.json` says; `None` where there is none: headers have to show them.
///
/// A file in the folder of its config counts as the folder, where the config is of a `model` at all: there are
/// folders of loose files with the config of another component. `part` is where the numbers stand in the
/// configuration of a larger model, if that is what lies there.
pub(crate) fn own_config<T: DeserializeOwned>(
    place: &Path,
    model: &str,
    part: &str,
) -> Result<Option<T>, EngineError> {
    let (folder, is_folder) = if place.is_dir() {
        (place, true)
    } else {
        (place.parent().unwrap_or_else(|| Path::new("")), false)
    };
    let path = folder.join("config.json");
    if !path.exists() || !(is_folder || is_a_folders_own(place)) {
        return Ok(None);
    }
    let mut value: Value = json::read(&path)?;
    let says = value["model_type"].as_str().unwrap_or_default();
    if !is_folder && !says.starts_with(model) {
        return Ok(None);
    }
    if let Some(part @ Value::Object(_)) = value.get_mut(part) {
        value = part.take();
    }
    let config = serde_json::from_value(value).map_err(|err| EngineError::Config {
        reason: format!("its configuration is not sound: {err}"),
        path,
    })?;
    Ok(Some(config))
}

/// Whether a file has a name that `transformers` gives to the weights of a folder.
fn is_a_folders_own(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| {
        let stem = name.strip_prefix("model.");
        let index = stem.is_some_and(|end| end.ends_with("safetensors.index.json"));
        index || stem.is_some_and(|end| end.ends_with("safetensors"))
    })
}

/// What stands before the shortest key that ends in one of `ends`; nothing where there is no such key.
fn prefix<'a>(weights: &'a Weights, ends: &[&str]) -> &'a str {
    let before = |key: &'a str| {
        let before = ends.iter().find_map(|end| key.strip_suffix(end))?;
        (before.is_empty() || before.ends_with('.')).then_some(before)
    };
    let found = weights.keys().filter_map(before);
    found.min_by_key(|before| before.len()).unwrap_or_default()
}

/// The position from which a key is one of `ends`.
pub(crate) fn at_key(weights: &Weights, ends: &[&str]) -> Weights {
    match prefix(weights, ends).strip_suffix('.') {
        Some(name) => weights / name,
        None => weights.clone(),
    }
}

/// The keys behind the prefix of an encoder that nobody asked for, but for those of its `others`.
pub(crate) fn left_over(weights: &Weights, ends: &[&str], others: &[&str]) -> Vec<String> {
    let prefix = prefix(weights, ends);
    let mut keys = weights.finish();
    keys.retain(|key| {
        let name = key.strip_prefix(prefix);
        name.is_some_and(|name| !others.iter().any(|other| name.starts_with(other)))
    });
    keys
}

/// The rows and columns of a matrix that every `model` has.
pub(crate) fn matrix(w: &Weights, name: &str, model: &str) -> Result<(i64, i64), EngineError> {
    let reason = match w.shape_of(name).as_deref() {
        Some(&[rows, columns]) if rows > 0 && columns > 0 => return Ok((rows, columns)),
        Some(shape) => format!("its '{name}' has the shape {shape:?}"),
        None => format!("it is no {model}: it has no '{name}'"),
    };
    let path = w.path().to_owned();
    Err(EngineError::Config { reason, path })
}

/// How many layers a file has, each with the tensor that is called `name` in it.
pub(crate) fn num_layers(w: &Weights, name: impl Fn(i64) -> String) -> i64 {
    (0..MAX_LAYERS).take_while(|&i| w.has(&name(i))).count() as i64
}
