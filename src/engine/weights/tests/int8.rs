//! Whole numbers of eight bits as ComfyUI stores them, against what the reference makes of them (`tests/fixtures/int8`): to
//! the last bit, wherever the matrix is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::nn::Linear;
use crate::weights::StoredMatrix;

/// Rotated in groups of 256 (twice), 64 and 16, and not at all.
const MATRICES: [(&str, [i64; 2]); 5] = [
    ("q", [6, 256]),
    ("k", [4, 256]),
    ("v", [4, 64]),
    ("o", [5, 48]),
    ("plain", [3, 40]),
];

fn fixture() -> PathBuf {
    fixtures::fixture("int8/stored.safetensors")
}

fn all() -> BTreeMap<String, Tensor> {
    fixtures::tensors_in(&fixture())
}

fn rounded(name: &str) -> Tensor {
    all().remove(&format!("rounded.{name}.weight")).unwrap()
}

#[test]
fn every_number_is_the_references_to_the_last_bit_and_eight_bits_stay_in_memory() {
    let weights = open(&fixture()).unwrap();
    for (name, size) in MATRICES {
        let exact = rounded(name);
        let w = &weights / name;
        let matrix = w.matrix("weight", size).unwrap();
        assert_eq!([matrix.rows(), matrix.columns()], size, "{name}");
        assert_eq!(matrix.bytes() as i64, size[0] * size[1] + 4 * size[0]);
        assert_eq!(matrix.expand(Kind::Float), exact, "{name}");
        let half = matrix.expand(Kind::BFloat16);
        assert_eq!(half, exact.to_kind(Kind::BFloat16), "{name}");
        let some = matrix.expand_rows(1, 2, Kind::Float);
        assert_eq!(some, exact.narrow(0, 1, 2), "{name}");
        let ids = Tensor::from_slice(&[2_i64, 0, 2]);
        let found = matrix.look_up(&ids, Kind::Float);
        assert_eq!(found, exact.index_select(0, &ids));
        assert_eq!(w.tensor("weight", &size).unwrap(), exact, "{name}");
    }
    let left = weights.finish();
    let is_own = |key: &String| key.starts_with("rounded.") || key.starts_with("img_in.");
    assert!(left.iter().all(is_own), "{left:?}");
}

#[test]
fn matrices_that_are_rotated_alike_become_one() {
    let weights = open(&fixture()).unwrap();
    let matrix = |i: usize| {
        let (name, size) = MATRICES[i];
        (&weights / name).matrix("weight", size).unwrap()
    };
    let stacked = StoredMatrix::stack(&[&matrix(0), &matrix(1)]).unwrap();
    let exact = Tensor::cat(&[rounded("q"), rounded("k")], 0);
    assert_eq!(stacked.expand(Kind::Float), exact);
    assert!(StoredMatrix::stack(&[&matrix(0), &matrix(2)]).is_none());
    assert!(StoredMatrix::stack(&[&matrix(4), &matrix(2)]).is_none());
}

#[test]
fn streamed_int8_matrix_matches_the_resident_one() {
    for resident_bytes in [0, 1500, u64::MAX] {
        let weights = open(&fixture()).unwrap();
        let weights = weights.with_residency(Some(resident_bytes));
        let matrices = MATRICES.map(|(name, size)| {
            let matrix = (&weights / name).matrix("weight", size);
            (name, matrix.unwrap())
        });
        for _ in 0..2 {
            for (name, matrix) in &matrices {
                let found = matrix.expand(Kind::Float);
                assert_eq!(found, rounded(name), "{resident_bytes}");
            }
        }
        let both = StoredMatrix::stack(&[&matrices[0].1, &matrices[1].1]).unwrap();
        let exact = Tensor::cat(&[rounded("q"), rounded("k")], 0);
        assert_eq!(both.expand(Kind::Float), exact);
        let ids = Tensor::from_slice(&[1_i64]);
        let found = matrices[2].1.look_up(&ids, Kind::Float);
        assert_eq!(found, rounded("v").narrow(0, 1, 1));
    }
}

#[test]
fn a_product_is_that_of_the_numbers() {
    let weights = open(&fixture()).unwrap();
    let xs = made_up::made_up("xs", &[3, 256]);
    let linear = Linear::without_bias(256, 6, &(&weights / "q")).unwrap();
    let expected = xs.mm(&rounded("q").tr());
    assert!(linear.forward(&xs).allclose(&expected, 1e-6, 1e-6, false));
}

#[test]
fn invalid_int8_layer_descriptions_are_refused() {
    let json = |text: &str| Tensor::from_slice(text.as_bytes());
    let usual = r#"{"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}"#;
    let scales = |count: i64| Tensor::ones([count, 1], (Kind::Float, Device::Cpu));
    let other = usual.replace("256", "32");
    let (rowwise, scale_key) = (r#"{"format": "int8_rowwise"}"#, "'q.weight_scale'");
    for (said, scale, part) in [
        (usual, scales(6), ""),
        (usual, scales(1), ""),
        (usual, scales(5), scale_key),
        (usual, scales(6) * f64::NAN, scale_key),
        (usual, scales(6).to_kind(Kind::Double), scale_key),
        (&other, scales(6), "no power of four"),
        (rowwise, scales(6), "int8_rowwise"),
        ("{}", scales(6), "do not say"),
    ] {
        let folder = folder();
        let path = folder.path().join("x.safetensors");
        let tensors = all();
        let said = json(said);
        let named = [
            ("q.weight", &tensors["q.weight"]),
            ("q.weight_scale", &scale),
            ("q.comfy_quant", &said),
        ];
        made_up::write(&path, &named, &[]);
        let found = open(&path).unwrap().matrix("q.weight", [6, 256]);
        let refusal = found.err().map(|err| err.to_string());
        assert_eq!(refusal.is_some(), !part.is_empty(), "{said}: {refusal:?}");
        assert!(refusal.is_none_or(|text| text.contains(part)), "{said}");
    }
}
