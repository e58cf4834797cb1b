//! Writes files of fp8 as people publish them, and reads `tests/fixtures/fp8`, where diffusers' results with the same
//! numbers are recorded. For tests alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::fixtures::{fixture, json_of, open, tensors_in, tensors_of};
use super::made_up::write;
use crate::weights::Weights;

pub type Tensors = BTreeMap<String, Tensor>;

/// Where a file has the scales of its matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// In no place: every number is only cast.
    None,
    Legacy,
    ComfyQuant,
    Metadata,
}

/// Every form of file, with the name under which its results are recorded.
pub const FORMS: [(Kind, Scales, &str); 8] = [
    (Kind::Float8e4m3fn, Scales::None, "plain.e4m3fn"),
    (Kind::Float8e5m2, Scales::None, "plain.e5m2"),
    (Kind::Float8e4m3fn, Scales::Legacy, "scaled.e4m3fn"),
    (Kind::Float8e4m3fn, Scales::ComfyQuant, "scaled.e4m3fn"),
    (Kind::Float8e4m3fn, Scales::Metadata, "scaled.e4m3fn"),
    (Kind::Float8e5m2, Scales::Legacy, "scaled.e5m2"),
    (Kind::Float8e5m2, Scales::ComfyQuant, "scaled.e5m2"),
    (Kind::Float8e5m2, Scales::Metadata, "scaled.e5m2"),
];

/// What is recorded of one family.
pub struct Recorded {
    family: &'static str,
    tensors: Tensors,
}

impl Recorded {
    pub fn open(family: &'static str) -> Self {
        let path = fixture(&format!("fp8/{family}.safetensors"));
        Self {
            family,
            tensors: tensors_in(&path),
        }
    }

    pub fn get(&self, name: &str) -> &Tensor {
        let found = self.tensors.get(name);
        found.unwrap_or_else(|| panic!("no '{name}' was recorded"))
    }

    pub fn config(&self, component: &str) -> PathBuf {
        fixture(&format!("fp8/{}.{component}.json", self.family))
    }

    /// The weights that diffusers had, before they went through fp8.
    pub fn weights(&self, component: &str) -> Tensors {
        let shapes = json_of(&fixture(&format!("fp8/{}.shapes.json", self.family)));
        let tensors = tensors_of(&shapes[component], &format!("{component}."));
        tensors.into_iter().collect()
    }

    /// A component's folder, its weights in fp8.
    pub fn folder(
        &self,
        component: &str,
        tensors: &Tensors,
        kind: Kind,
        scales: Scales,
    ) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(self.config(component), folder.path().join("config.json")).unwrap();
        let path = folder.path().join("model.safetensors");
        write_fp8(&path, tensors, kind, scales);
        folder
    }
}

pub fn opened(place: &Path) -> Weights {
    open(place, Kind::Float)
}

pub fn write_fp8(path: &Path, tensors: &Tensors, kind: Kind, scales: Scales) {
    let mut stored = Tensors::new();
    let mut layers = serde_json::Map::new();
    let (format, largest) = match kind {
        Kind::Float8e5m2 => ("float8_e5m2", 57344.0),
        _ => ("float8_e4m3fn", 448.0),
    };
    let description = json!({"format": format});
    for (name, tensor) in tensors {
        let layer = name.trim_end_matches(".weight");
        let is_scaled = scales != Scales::None && is_matrix_of_block(name, tensor);
        if !is_scaled {
            let is_cast = scales == Scales::None;
            let kept = if is_cast { kind } else { Kind::BFloat16 };
            stored.insert(name.clone(), tensor.to_kind(kept));
            continue;
        }
        let scale = tensor.abs().max() / largest;
        stored.insert(name.clone(), (tensor / &scale).to_kind(kind));
        let mut beside =
            |end: &str, tensor: Tensor| stored.insert(format!("{layer}.{end}"), tensor);
        if scales == Scales::Legacy {
            beside("scale_weight", scale);
            beside("scale_input", Tensor::from(1_f32));
        } else {
            beside("weight_scale", scale);
            layers.insert(layer.to_owned(), description.clone());
        }
        if scales == Scales::ComfyQuant {
            let text = description.to_string();
            beside("comfy_quant", Tensor::from_slice(text.as_bytes()));
        }
    }
    if scales == Scales::Legacy {
        let marker = Tensor::zeros([2], (kind, Device::Cpu));
        stored.insert("scaled_fp8".to_owned(), marker);
    }
    let note = json!({"format_version": "1.0", "layers": Value::Object(layers)}).to_string();
    let num_notes = usize::from(scales == Scales::Metadata);
    let notes = &[("_quantization_metadata", note.as_str())][..num_notes];
    let named: Vec<(&str, &Tensor)> = stored.iter().map(|(k, v)| (&k[..], v)).collect();
    write(path, &named, notes);
}

/// Those that published files have scales for.
fn is_matrix_of_block(name: &str, tensor: &Tensor) -> bool {
    tensor.dim() == 2
        && (name.contains("block") || name.contains("layers."))
        && name.ends_with(".weight")
        && !name.contains("relative_attention_bias")
}
