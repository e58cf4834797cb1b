//! Weights that are a formula of their names, as `tests/fixtures/made_up.py` has it, so that fixtures hold only shapes.
//!
//! Also writes files of every type that a tensor may have; tch itself writes no fp8. For tests alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safelight_core::job::LoraChoice;
use safelight_loops::hash::{OFFSET, hashed, scatter};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tch::{Kind, Tensor};

/// FNV-1a of the name, then splitmix64 of each place; vectors are scales around one or small offsets.
pub fn made_up(name: &str, shape: &[i64]) -> Tensor {
    let seed = hashed(OFFSET, name.as_bytes());
    let count: i64 = shape.iter().product();
    let is_vector = shape.contains(&count);
    let is_scale = name.ends_with("weight") || name.ends_with("gamma");
    let rows = shape.first().copied().unwrap_or(1);
    let spread = (3.0 / (count as f64 / rows as f64)).sqrt();
    let (center, spread) = match (is_vector, is_scale) {
        (true, true) => (1.0, 0.1),
        (true, false) => (0.0, 0.1),
        (false, _) => (0.0, spread),
    };
    let mut values = vec![0.0; count as usize];
    scatter(&mut values, seed, center, spread);
    Tensor::from_slice(&values).view(shape)
}

/// A LoRA of `tests/fixtures/lora`: `form` names it there, and `config` is what PEFT has beside such a file.
pub fn write_lora(folder: &Path, form: &str, config: Option<&str>) -> PathBuf {
    write_lora_of(&lora_fixtures().join("forms.json"), folder, form, config)
}

/// The same of a list of forms.
pub fn write_lora_of(list: &Path, folder: &Path, form: &str, config: Option<&str>) -> PathBuf {
    let facts: serde_json::Value = serde_json::from_slice(&std::fs::read(list).unwrap()).unwrap();
    let keys = facts["forms"][form].as_object().unwrap();
    let tensors: Vec<(String, Tensor)> = keys
        .iter()
        .map(|(key, shape)| {
            let shape: Vec<i64> = serde_json::from_value(shape.clone()).unwrap();
            let tensor = if shape.is_empty() {
                Tensor::from(facts["alpha"].as_f64().unwrap() as f32)
            } else {
                made_up(&format!("{form}.{key}"), &shape)
            };
            (key.clone(), tensor)
        })
        .collect();
    let path = match config {
        Some(config) => {
            std::fs::write(folder.join("adapter_config.json"), config).unwrap();
            folder.join("adapter_model.safetensors")
        }
        None => folder.join(format!("{form}.safetensors")),
    };
    let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
    write(&path, &named, &[]);
    path
}

pub fn lora_fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/lora")
}

pub fn lora(path: PathBuf, strength: f64) -> LoraChoice {
    LoraChoice {
        path,
        strength,
        strength_2: None,
    }
}

/// A safetensors file of `tensors` by their names.
pub fn write_named<'a>(path: &Path, tensors: impl IntoIterator<Item = (&'a String, &'a Tensor)>) {
    let named = tensors
        .into_iter()
        .map(|(name, tensor)| (&name[..], tensor));
    write(path, &named.collect::<Vec<_>>(), &[]);
}

/// A safetensors file of `tensors`, which may be of eight bits, with `notes` in its header.
pub fn write(path: &Path, tensors: &[(&str, &Tensor)], notes: &[(&str, &str)]) {
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(_, tensor)| bytes_of(tensor)).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, tensor), bytes)| {
        let shape = tensor.size().iter().map(|&n| n as usize).collect();
        (
            *name,
            TensorView::new(dtype_of(tensor.kind()), shape, bytes).unwrap(),
        )
    });
    let notes: HashMap<String, String> = notes
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    safetensors::serialize_to_file(views, Some(notes), path).unwrap();
}

fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let width = tensor.kind().elt_size_in_bytes();
    let mut bytes = vec![0; tensor.numel() * width];
    let contiguous = tensor.contiguous();
    contiguous.copy_data_u8(&mut bytes, tensor.numel());
    bytes
}

fn dtype_of(kind: Kind) -> Dtype {
    match kind {
        Kind::Float8e4m3fn => Dtype::F8_E4M3,
        Kind::Float8e5m2 => Dtype::F8_E5M2,
        Kind::BFloat16 => Dtype::BF16,
        Kind::Half => Dtype::F16,
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::Int64 => Dtype::I64,
        Kind::Int8 => Dtype::I8,
        Kind::Uint8 => Dtype::U8,
        other => panic!("nobody writes {other:?}"),
    }
}
