//! ComfyUI's quantized matrices against comfy-kitchen's numbers (`tests/fixtures/quant`): to the last bit, resident,
//! streamed and stacked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::parallel::tests::on_ranks;
use crate::weights::StoredMatrix;

/// Layers with their sizes, and the bytes of the block scales.
const MATRICES: [(&str, [i64; 2], i64); 11] = [
    ("nv.q", [131, 80], 131 * 5),
    ("nv.k", [21, 80], 21 * 5),
    ("awq", [5, 32], 5 * 2),
    ("mx.q", [129, 160], 129 * 5),
    ("mx.k", [7, 160], 7 * 5),
    ("i4.q", [5, 256], 0),
    ("i4.k", [3, 256], 0),
    ("i4.o", [3, 64], 0),
    ("w4.q", [5, 256], 5 * 16),
    ("w4.k", [3, 256], 3 * 16),
    ("w4.o", [3, 64], 3 * 8 * 4),
];

fn fixture() -> PathBuf {
    fixtures::fixture("quant/stored.safetensors")
}

fn rounded() -> BTreeMap<String, Tensor> {
    let all = fixtures::tensors_in(&fixture()).into_iter();
    let own = all.filter_map(|(key, tensor)| {
        let layer = key.strip_prefix("rounded.")?.strip_suffix(".weight")?;
        Some((layer.to_owned(), tensor))
    });
    own.collect()
}

#[test]
fn every_number_is_the_references_to_the_last_bit_and_codes_stay_in_memory() {
    let (weights, exact) = (open(&fixture()).unwrap(), rounded());
    assert_eq!(exact.len(), MATRICES.len());
    for (name, size, block_bytes) in MATRICES {
        let (w, exact) = (&weights / name, &exact[name]);
        let matrix = w.matrix("weight", size).unwrap();
        assert_eq!([matrix.rows(), matrix.columns()], size, "{name}");
        let code_bytes = if name.starts_with("mx") { 2 } else { 1 };
        let bytes = size[0] * size[1] * code_bytes / 2 + 4 * size[0] + block_bytes;
        assert_eq!(matrix.bytes() as i64, bytes, "{name}");
        assert_eq!(matrix.expand(Kind::Float), *exact, "{name}");
        let half = matrix.expand(Kind::BFloat16);
        assert_eq!(half, exact.to_kind(Kind::BFloat16), "{name}");
        let some = matrix.expand_rows(1, 2, Kind::Float);
        assert_eq!(some, exact.narrow(0, 1, 2), "{name}");
        let ids = Tensor::from_slice(&[2_i64, 0, 2]);
        let found = matrix.look_up(&ids, Kind::Float);
        assert_eq!(found, exact.index_select(0, &ids), "{name}");
        assert_eq!(w.tensor("weight", &size).unwrap(), *exact, "{name}");
    }
    let mut left = weights.finish();
    left.retain(|key| !key.starts_with("rounded."));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn matrices_of_one_format_become_one_resident_or_streamed() {
    let exact = rounded();
    for resident_bytes in [None, Some(0), Some(9000), Some(u64::MAX)] {
        let weights = open(&fixture()).unwrap();
        let weights = weights.with_residency(resident_bytes);
        let matrices = MATRICES.map(|(name, size, _)| {
            let matrix = (&weights / name).matrix("weight", size);
            (name, matrix.unwrap())
        });
        let get = |name: &str| &matrices.iter().find(|(own, _)| *own == name).unwrap().1;
        let stacked = ["nv", "mx", "i4", "w4"].map(|format| {
            let names = ["k", "q", "k"].map(|end| format!("{format}.{end}"));
            let parts = names.clone().map(|name| get(&name));
            (names, StoredMatrix::stack(&parts).unwrap())
        });
        for _ in 0..2 {
            for (name, matrix) in &matrices {
                let found = matrix.expand(Kind::Float);
                assert_eq!(found, exact[*name], "{name} {resident_bytes:?}");
            }
            for (names, matrix) in &stacked {
                let expected = names.clone().map(|name| &exact[&name]);
                let found = matrix.expand(Kind::Float);
                assert_eq!(found, Tensor::cat(&expected, 0), "{names:?}");
            }
        }
        let ids = Tensor::from_slice(&[130_i64, 0]);
        let found = get("nv.q").look_up(&ids, Kind::Float);
        assert_eq!(found, exact["nv.q"].index_select(0, &ids));
        for [a, b] in [["nv.q", "mx.q"], ["w4.q", "i4.q"], ["i4.o", "w4.o"]] {
            assert!(StoredMatrix::stack(&[get(a), get(b)]).is_none(), "{a} {b}");
        }
    }
}

#[test]
fn ranks_that_share_matrices_dequantize_the_same_numbers() {
    let exact = rounded();
    let all = on_ranks(2, || {
        let weights = open(&fixture()).unwrap();
        let weights = weights.with_residency(Some(28_000));
        let matrices = MATRICES.map(|(name, size, _)| {
            let matrix = (&weights / name).matrix("weight", size);
            matrix.unwrap()
        });
        let numbers = matrices.iter().map(|matrix| matrix.expand(Kind::Float));
        let numbers: Vec<Tensor> = numbers.collect();
        (numbers, weights.stream_bytes())
    });
    for (found, streamed) in all {
        assert!(streamed.unwrap().window > 0);
        for ((name, ..), found) in MATRICES.iter().zip(&found) {
            assert_eq!(*found, exact[*name], "{name}");
        }
    }
}

#[test]
fn matrices_with_other_tables_are_not_stacked() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let all = fixtures::tensors_in(&fixture());
    let book = &all["w4.k.weight_codebook"] * 0.5;
    let layers = all.iter().filter(|(key, _)| key.starts_with("w4."));
    let tensors = layers.map(|(key, tensor)| match &key[..] {
        "w4.k.weight_codebook" => (&key[..], &book),
        _ => (&key[..], tensor),
    });
    made_up::write(&path, &tensors.collect::<Vec<_>>(), &[]);
    for resident_bytes in [None, Some(0)] {
        let weights = open(&path).unwrap().with_residency(resident_bytes);
        let [q, k] = [("q", 5), ("k", 3)].map(|(name, rows)| {
            let w = &weights / "w4" / name;
            w.matrix("weight", [rows, 256]).unwrap()
        });
        assert!(StoredMatrix::stack(&[&q, &q]).is_some());
        assert!(StoredMatrix::stack(&[&q, &k]).is_none());
    }
}

#[test]
fn scales_that_are_no_numbers_are_refused() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let mut all = fixtures::tensors_in(&fixture());
    for scale in [f32::NAN, f32::INFINITY] {
        all.insert("nv.q.weight_scale_2".to_owned(), Tensor::from(scale));
        made_up::write_named(&path, &all);
        let err = (&open(&path).unwrap() / "nv.q").matrix("weight", [131, 80]);
        let err = err.unwrap_err().to_string();
        assert!(err.contains("'nv.q.weight_scale_2'"), "{err}");
    }
}
