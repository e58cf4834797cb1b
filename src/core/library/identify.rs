//! Recognition of model folders and files by their configs and headers, never by their names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::formats::weights::{WeightSet, is_pickle, pickle};
use crate::formats::{read_json, sorted_entries};
use crate::library::single::not_a_model;
use crate::library::{place_of, tensor_kind};
use crate::model::configs::ModelIndex;
use crate::model::{CatalogError, ComponentOverrides};

#[derive(Debug)]
pub(crate) enum ModelTarget {
    /// A diffusers folder.
    Pipeline(PathBuf),
    /// A weight file, or a folder that is no diffusers folder.
    Parts(PathBuf),
}

/// Resolves a path. The `model_index.json` of a diffusers folder and its transformer are as good as the folder.
pub(crate) fn target(path: &Path) -> Result<ModelTarget, CatalogError> {
    let absolute = std::path::absolute(path).map_err(|source| CatalogError::io(source, path))?;
    let stat = fs::metadata(&absolute).map_err(|source| {
        let is_link = fs::symlink_metadata(&absolute).is_ok();
        match source.kind() {
            std::io::ErrorKind::NotFound if is_link => {
                CatalogError::missing("the file that this link leads to", &absolute)
            }
            std::io::ErrorKind::NotFound => CatalogError::NoSuchPath {
                path: absolute.clone(),
            },
            _ => CatalogError::io(source, &absolute),
        }
    })?;
    if !stat.is_dir() && !stat.is_file() {
        return Err(CatalogError::wrong_file(
            "this is a pipe or a device, not a file",
            "Choose a weight file or the folder of a model",
            absolute,
        ));
    }
    let parent = absolute.parent().map(Path::to_owned).unwrap_or_default();
    if stat.is_dir() {
        if ModelIndex::path_in(&absolute).is_some() {
            return Ok(ModelTarget::Pipeline(absolute));
        }
        if is_transformer_of(&absolute, &parent) {
            return Ok(ModelTarget::Pipeline(parent));
        }
        return Ok(ModelTarget::Parts(absolute));
    }
    if ModelIndex::is_named(&absolute) {
        return Ok(ModelTarget::Pipeline(parent));
    }
    if let Some(around) = parent.parent()
        && place_of(&absolute) == parent
        && is_transformer_of(&parent, around)
    {
        return Ok(ModelTarget::Pipeline(around.to_owned()));
    }
    if is_pickle(&absolute) {
        return Err(pickle(&absolute));
    }
    Ok(ModelTarget::Parts(absolute))
}

/// Returns true if a folder is what the diffusers folder around it loads as a transformer.
fn is_transformer_of(folder: &Path, around: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    matches!(&*name, "transformer" | "transformer_2")
        && ModelIndex::read(around).is_ok_and(|index| index.components.contains_key(&*name))
}

/// Returns true if a diffusers folder has its components, each of the class that it should have, but for those that the
/// user named others for.
pub(crate) fn check_components(
    folder: &Path,
    index: &ModelIndex,
    components: &[(&str, Option<&str>)],
    companions: &ComponentOverrides,
) -> Result<(), CatalogError> {
    components
        .iter()
        .filter(|(component, _)| !companions.names(component))
        .try_for_each(|(component, class)| check_component(folder, index, component, *class))
}

fn check_component(
    folder: &Path,
    index: &ModelIndex,
    component: &str,
    expected: Option<&str>,
) -> Result<(), CatalogError> {
    let component = index.folder_of(component);
    if component == "scheduler" && index.is_modular() && !folder.join(component).exists() {
        return Ok(());
    }
    let index_path = || folder.join("model_index.json");
    let Some(class) = index.components.get(component) else {
        return Err(CatalogError::config(
            format!("model_index.json names no {component}"),
            index_path(),
        ));
    };
    if let Some(expected) = expected
        // A class with a projection on top has the same layers below.
        && class.strip_suffix("WithProjection").unwrap_or(class) != expected
    {
        return Err(CatalogError::config(
            format!("the {component} should be of class {expected}, but is {class}"),
            index_path(),
        ));
    }
    let path = folder.join(component);
    if !path.is_dir() {
        return Err(CatalogError::missing(
            format!("the folder {component}"),
            path,
        ));
    }
    // Without it a header would have to be believed, and the download is not whole anyway.
    let config = path.join("config.json");
    if expected.is_some() && !config.exists() {
        return Err(CatalogError::missing("the file config.json", config));
    }
    Ok(())
}

/// A folder without `model_index.json`: one component, an original checkpoint, or no model at all.
pub(crate) fn without_index(folder: &Path) -> CatalogError {
    let unsupported = |what: String| CatalogError::unsupported(what, folder);
    let config: BTreeMap<String, Value> =
        read_json(&folder.join("config.json")).unwrap_or_default();
    match config.get("_class_name").and_then(Value::as_str) {
        Some("WanModel") => {
            if let Err(err) = WeightSet::open(folder) {
                return err;
            }
        }
        Some(class) => {
            return unsupported(format!("one component of a model alone ({class})"));
        }
        None => {}
    }
    let paths = sorted_entries(folder).unwrap_or_default();
    if let Some(path) = paths.iter().find(|path| is_pickle(path)) {
        return pickle(path);
    }
    CatalogError::NoModel {
        path: folder.to_owned(),
    }
}

/// A single file of a family that this version does not run, or of a form that it does not read.
pub(crate) fn foreign_file(path: &Path) -> CatalogError {
    match WeightSet::open(path) {
        Ok(weights) => not_a_model(&tensor_kind::of_tensors(&weights), path),
        Err(err) => err,
    }
}
