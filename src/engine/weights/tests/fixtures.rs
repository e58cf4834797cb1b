//! Files of `tests/fixtures`, and files and folders made of what they hold. For tests alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::model::CatalogError;
use safelight_core::networks::NetworkConfig;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::made_up::made_up;
use crate::hooks::Hooks;
use crate::tensor_files;
pub(crate) use crate::text::tests::published::json_of;
use crate::weights::Weights;

/// A job that is cancelled before it begins.
pub struct Cancelled;

impl Hooks for Cancelled {
    fn cancelled(&self) -> bool {
        true
    }
}

/// A file or folder of `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    fixtures.join(path)
}

/// The JSON values of a program's output, one a line.
pub fn json_lines<T: DeserializeOwned>(out: &[u8]) -> Vec<T> {
    let lines = serde_json::Deserializer::from_slice(out).into_iter();
    lines.map(Result::unwrap).collect()
}

/// Tensors with a prefix before their names.
pub fn behind(prefix: &str, tensors: Vec<(String, Tensor)>) -> Vec<(String, Tensor)> {
    let tensors = tensors.into_iter();
    tensors
        .map(|(name, xs)| (format!("{prefix}{name}"), xs))
        .collect()
}

/// A tensor of a safetensors file of `tests/fixtures`.
pub fn recorded(file: &str, key: &str) -> Tensor {
    let tensors = Tensor::read_safetensors(fixture(file)).unwrap();
    let found = tensors.into_iter().find(|(name, _)| name == key);
    found.unwrap_or_else(|| panic!("{file} has no {key}")).1
}

/// All tensors of a file by their names.
pub fn tensors_in(path: &Path) -> BTreeMap<String, Tensor> {
    tensor_files::read(path).unwrap().into_iter().collect()
}

pub fn open(place: &Path, kind: Kind) -> Weights {
    Weights::open(place, kind, Device::Cpu).unwrap()
}

/// Tensors of the names and shapes in `shapes`, made up of their names after `prefix`.
pub fn tensors_of(shapes: &Value, prefix: &str) -> Vec<(String, Tensor)> {
    let shapes = shapes.as_object().unwrap().iter();
    let named = shapes.map(|(name, shape)| {
        let shape: Vec<i64> = serde_json::from_value(shape.clone()).unwrap();
        (name.clone(), made_up(&format!("{prefix}{name}"), &shape))
    });
    named.collect()
}

/// A file of `tensors` as `change` makes them, or leaves them out, and its folder.
pub fn write_changed(
    tensors: Vec<(String, Tensor)>,
    change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>,
) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.safetensors");
    let changed = tensors.into_iter();
    let changed: Vec<_> = changed
        .filter_map(|(name, tensor)| change(&name, tensor))
        .collect();
    Tensor::write_safetensors(&changed, &path).unwrap();
    (folder, path)
}

/// A network of `tests/fixtures/ltx2`: its config, and a file of its weights.
pub fn tiny_network(component: &str) -> (Value, TempDir, PathBuf) {
    let facts = json_of(&fixture("ltx2/networks.json"))[component].take();
    let made = tensors_of(&facts["shapes"], &format!("{component}."));
    let (folder, path) = write_changed(made, |name, tensor| {
        let tensor = if name.ends_with(".filter") {
            recorded("ltx2/networks.safetensors", "vocoder.filter")
        } else if name.ends_with("mel_basis") {
            tensor.abs()
        } else if name.ends_with("std-of-means") {
            tensor + 1.0
        } else if component == "vocoder" && name.ends_with("conv_post.weight") {
            tensor * 0.05
        } else {
            tensor
        };
        Some((name.to_owned(), tensor))
    });
    (facts["config"].clone(), folder, path)
}

/// An input that the networks of `tests/fixtures/ltx2` were called with.
pub fn given(name: &str, size: &[i64]) -> Tensor {
    let count = size.iter().product();
    made_up(&format!("input.{name}"), &[count]).view(size) * 17.0
}

/// An output of these networks.
pub fn tiny_output(name: &str) -> Tensor {
    recorded("ltx2/networks.safetensors", name)
}

/// A folder of a config and of `tensors`.
pub fn write_folder(config: &Value, tensors: &[(String, Tensor)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    Tensor::write_safetensors(tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

/// The config of a folder read with some values replaced; `null` leaves one out.
pub fn read_with<C: NetworkConfig>(
    folder: &Path,
    changes: &[(&str, &str)],
) -> Result<C, CatalogError> {
    let mut config = json_of(&folder.join("config.json"));
    for (key, value) in changes {
        match serde_json::from_str(value).unwrap() {
            Value::Null => drop(config.as_object_mut().unwrap().remove(*key)),
            value => config[*key] = value,
        }
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    C::read(folder.path())
}
