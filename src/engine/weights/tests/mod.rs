//! The cursor against small files written here, sound and hostile; and the files that other tests write.

pub(crate) mod as_fp8;
pub(crate) mod as_quant;
pub(crate) mod fixtures;
mod int8;
pub(crate) mod made_up;
pub(crate) mod made_up_gguf;
mod quant;

use std::fs;
use std::path::Path;

use safelight_core::model::CatalogError;
use tch::{Device, Kind, Tensor};

use super::{Weights, WeightsError};

/// A file from its raw header text and data.
fn write_raw(path: &Path, header: &[u8], data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(data);
    fs::write(path, bytes).unwrap();
}

fn open(path: &Path) -> Result<Weights, WeightsError> {
    Weights::open(path, Kind::Float, Device::Cpu)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn tensor_outlives_its_weights_handle_and_keeps_the_file_mapped() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    let stored = Tensor::arange(1000, (Kind::Float, Device::Cpu)).view([10, 100]);
    Tensor::write_safetensors(&[("a.weight", &stored)], &path).unwrap();
    let weights = open(dir.path()).unwrap();
    let tensor = (&weights / "a").tensor("weight", &[10, 100]).unwrap();
    drop(weights);
    assert!(crate::runtime::mapped_bytes() >= 4000);
    let copy = tensor.shallow_clone();
    drop(tensor);
    assert!(copy.equal(&stored));
}

#[test]
fn stored_types_become_the_wanted_kind() {
    let dir = folder();
    let path = dir.path().join("x.safetensors");
    let base = Tensor::from_slice(&[0.0_f64, 1.0, 2.0, 3.0]);
    use Kind::{BFloat16, Double, Float, Half, Int, Int8, Int16, Int64, Uint8};
    for kind in [
        Double, Float, Half, BFloat16, Int64, Int, Int16, Int8, Uint8,
    ] {
        Tensor::write_safetensors(&[("x", base.to_kind(kind))], &path).unwrap();
        for wanted in [Kind::Float, Kind::BFloat16] {
            let weights = Weights::open(&path, wanted, Device::Cpu).unwrap();
            let found = weights.tensor("x", &[4]).unwrap();
            assert_eq!(found.kind(), wanted);
            assert!(found.equal(&base.to_kind(wanted)), "{kind:?} as {wanted:?}");
        }
    }
}

#[test]
fn numbers_that_start_at_an_odd_byte_are_copied() {
    let dir = folder();
    let path = dir.path().join("x.safetensors");
    let header = br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}"#;
    let mut data = vec![7];
    data.extend_from_slice(&1.5_f32.to_le_bytes());
    data.extend_from_slice(&(-2.0_f32).to_le_bytes());
    write_raw(&path, header, &data);
    let weights = open(&path).unwrap();
    let found: Vec<f32> = weights.tensor("b", &[2]).unwrap().try_into().unwrap();
    assert_eq!(found, [1.5, -2.0]);
}

#[test]
fn a_missing_key_and_a_wrong_shape_name_everything() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    let two = Tensor::zeros([2, 3], (Kind::Float, Device::Cpu));
    Tensor::write_safetensors(&[("blocks.0.q.weight", &two)], &path).unwrap();
    let blocks = open(&path).unwrap() / "blocks" / 0;
    let missing = blocks.tensor("q.bias", &[2]).unwrap_err().to_string();
    assert!(missing.contains("'blocks.0.q.bias'") && missing.contains("blocks.0.q.weight"));
    let wrong = blocks.tensor("q.weight", &[3, 2]).unwrap_err().to_string();
    assert!(wrong.contains("'blocks.0.q.weight'"), "{wrong}");
    assert!(wrong.contains("expected [3, 2], found [2, 3]"), "{wrong}");
    assert!(wrong.ends_with(&path.display().to_string()), "{wrong}");
}

#[test]
fn unrequested_keys_are_listed_as_unexpected() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    let one = Tensor::zeros([1], (Kind::Float, Device::Cpu));
    Tensor::write_safetensors(&[("a", &one), ("b", &one), ("c", &one)], &path).unwrap();
    let weights = open(&path).unwrap();
    let _b = weights.clone().tensor("b", &[1]).unwrap();
    assert_eq!(weights.finish(), ["a", "c"]);
    weights.ignore("c");
    assert_eq!(weights.finish(), ["a"]);
}

#[test]
fn keys_are_translated_below_the_cursor() {
    let dir = folder();
    let path = dir.path().join("model.safetensors");
    let one = Tensor::zeros([1], (Kind::Float, Device::Cpu));
    Tensor::write_safetensors(&[("attn1.to_q.weight", &one)], &path).unwrap();
    let rename = |key: &str| key.replace("self_attn.q", "attn1.to_q");
    let weights = open(&path).unwrap().translated(rename);
    let query = &weights / "self_attn" / "q";
    assert!(query.tensor("weight", &[1]).is_ok());
    assert!(weights.finish().is_empty());
}

#[test]
fn shards_are_one_component() {
    let dir = folder();
    let one = Tensor::ones([1], (Kind::Float, Device::Cpu));
    for (name, key) in [("m-1.safetensors", "a"), ("m-2.safetensors", "b")] {
        Tensor::write_safetensors(&[(key, &one)], dir.path().join(name)).unwrap();
    }
    let index = dir.path().join("model.safetensors.index.json");
    let sound = r#"{"metadata":{},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}"#;
    fs::write(&index, sound).unwrap();
    let weights = open(dir.path()).unwrap();
    assert!(weights.tensor("a", &[1]).is_ok() && weights.tensor("b", &[1]).is_ok());
    for hostile in [
        r#"{"weight_map":{"a":"../m-1.safetensors"}}"#,
        r#"{"weight_map":{"b":"m-1.safetensors"}}"#,
        r#"{"weight_map":{"a":"m-3.safetensors"}}"#,
        r#"{"weight_map":7}"#,
        "{",
        "",
    ] {
        fs::write(&index, hostile).unwrap();
        assert!(open(dir.path()).is_err(), "{hostile}");
    }
}

#[test]
fn hostile_files_are_errors() {
    let dir = folder();
    let path = dir.path().join("x.safetensors");
    let long = [0; 64];
    let texts: [&[u8]; 12] = [
        b"",
        b"{",
        b"[]",
        b"{\"a\xff\":{}}",
        br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}}"#,
        br#"{"a":{"dtype":"F32","shape":[16],"data_offsets":[64,0]}}"#,
        br#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,64]}}"#,
        br#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,64]}}"#,
        br#"{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},"b":{"dtype":"F32","shape":[8],"data_offsets":[32,64]}}"#,
        br#"{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}"#,
        br#"{"a":{"dtype":"F32","shape":[32],"data_offsets":[0,128]}}"#,
        br#"{"a":{"dtype":"NEW","shape":[16],"data_offsets":[0,64]}}"#,
    ];
    for text in texts {
        write_raw(&path, text, &long);
        let err = open(&path).unwrap_err();
        assert!(err.to_string().contains("file is damaged: "), "{err}");
    }
    for bytes in [
        &b""[..],
        &[1, 2, 3],
        &[0xff; 8],
        &[0xff; 4096],
        &[0, 0, 0, 0, 1, 0, 0, 0, 9],
    ] {
        fs::write(&path, bytes).unwrap();
        assert!(open(&path).is_err());
    }
    let err = open(&dir.path().join("none")).unwrap_err();
    let is_io = matches!(err, WeightsError::File(CatalogError::Io { .. }));
    assert!(is_io, "{err}");
}

#[test]
fn folder_without_safetensors_reports_missing_or_pickle_weights() {
    let dir = folder();
    let err = open(dir.path()).unwrap_err();
    let is_missing = matches!(err, WeightsError::File(CatalogError::Missing { .. }));
    assert!(is_missing, "{err}");
    fs::write(dir.path().join("diffusion_pytorch_model.bin"), b"x").unwrap();
    let err = open(dir.path()).unwrap_err();
    let is_pickle = matches!(err, WeightsError::File(CatalogError::Pickle { .. }));
    assert!(is_pickle, "{err}");
}
