//! Matrices that stream against the same ones that stay, on the CPU.

use std::fs::OpenOptions;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use safelight_core::model::CatalogError;
use tempfile::TempDir;

use super::*;
use crate::error::EngineError;
use crate::weights::StoredMatrix;
use crate::weights::tests::made_up::{made_up, write};

const ROWS: i64 = 24;
const COLUMNS: i64 = 32;
const KINDS: [Kind; 4] = [
    Kind::Float,
    Kind::BFloat16,
    Kind::Float8e4m3fn,
    Kind::Float8e5m2,
];

fn name(i: usize) -> String {
    format!("blocks.{i}.weight")
}

/// `count` matrices of all kinds by turns; every fifth has a scale.
fn written(count: usize) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let scale = Tensor::from(0.375_f32);
    let mut tensors = Vec::new();
    for i in 0..count {
        let tensor = made_up(&name(i), &[ROWS, COLUMNS]);
        tensors.push((name(i), tensor.to_kind(KINDS[i % KINDS.len()])));
        if i % 5 == 0 {
            let key = name(i).replace("weight", "scale_weight");
            tensors.push((key, scale.shallow_clone()));
        }
    }
    let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
    write(&path, &named, &[]);
    (folder, path)
}

fn open(path: &Path, resident_bytes: Option<u64>) -> Weights {
    let w = Weights::open(path, Kind::BFloat16, Device::Cpu).unwrap();
    w.with_window(resident_bytes, 0)
}

fn matrices(w: &Weights, count: usize) -> Vec<StoredMatrix> {
    let matrix = |i| w.matrix(&name(i), [ROWS, COLUMNS]).unwrap();
    (0..count).map(matrix).collect()
}

/// Orders of use in which guesses come true, never, and now and then.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let forward: Vec<usize> = (0..count).collect();
    let backward: Vec<usize> = forward.iter().rev().copied().collect();
    let strides = (0..2 * count).map(|i| i * 7 % count).collect();
    let pairs = (0..count).flat_map(|i| [i, i, (i + 1) % count]).collect();
    vec![
        [&forward[..], &forward, &forward].concat(),
        [&forward[..], &backward, &forward].concat(),
        strides,
        pairs,
    ]
}

#[test]
fn streamed_matrices_match_resident_ones_in_any_order_and_budget() {
    let count = 13;
    let (_folder, path) = written(count);
    let staying = matrices(&open(&path, None), count);
    let total: u64 = staying.iter().map(StoredMatrix::bytes).sum();
    for budget in [0, total / 3, total / 2, total - 1, total] {
        for order in orders(count) {
            let w = open(&path, Some(budget));
            let streaming = matrices(&w, count);
            assert_eq!(w.stream_bytes(), None);
            for &i in &order {
                for kind in [Kind::Float, Kind::BFloat16] {
                    let expected = staying[i].expand(kind);
                    assert!(streaming[i].expand(kind).equal(&expected), "{i}");
                    let rows = streaming[i].expand_rows(5, 7, kind);
                    assert!(rows.equal(&expected.narrow(0, 5, 7)));
                    let found = streaming[i].rows_per_piece(3, kind);
                    assert_eq!(found, staying[i].rows_per_piece(3, kind));
                }
            }
            let taken = w.stream_bytes().unwrap();
            let largest = (ROWS * COLUMNS * 4) as u64;
            assert!(taken.resident <= budget && taken.window <= 2 * largest);
            assert_eq!(taken.window == 0, budget == total);
            let resident: u64 = streaming.iter().map(StoredMatrix::bytes).sum();
            assert_eq!(resident, taken.resident);
            assert!(w.finish().is_empty(), "{:?}", w.finish());
        }
    }
}

#[test]
fn matrices_that_are_joined_stream_as_one() {
    let (_folder, path) = written(20);
    // Alike; of other kinds and scales that become one; of fp8; and such as cannot be joined.
    for parts in [
        vec![4, 8],
        vec![0, 1, 4, 5],
        vec![2, 6, 14],
        vec![1, 2],
        vec![2, 10],
    ] {
        let joined = |w: &Weights| {
            let matrix = |&i: &usize| w.matrix(&name(i), [ROWS, COLUMNS]).unwrap();
            let parts: Vec<StoredMatrix> = parts.iter().map(matrix).collect();
            StoredMatrix::stack(&parts.iter().collect::<Vec<_>>())
        };
        let staying = joined(&open(&path, None));
        for budget in [0, 1 << 20] {
            let w = open(&path, Some(budget));
            let (streaming, others) = (joined(&w), matrices(&w, 3));
            assert_eq!(streaming.is_some(), staying.is_some(), "{parts:?}");
            let Some((streaming, staying)) = streaming.zip(staying.as_ref()) else {
                continue;
            };
            for other in &others {
                assert_eq!(streaming.rows(), parts.len() as i64 * ROWS);
                let expected = staying.expand(Kind::Float);
                assert!(streaming.expand(Kind::Float).equal(&expected), "{parts:?}");
                drop(other.expand(Kind::Float));
            }
        }
    }
}

#[test]
fn embedding_table_stays_in_its_file_and_returns_the_requested_rows() {
    let (_folder, path) = written(4);
    let ids = Tensor::from_slice(&[23_i64, 0, 7, 7, 11, 0]).view([2, 3]);
    for i in 0..4 {
        let staying = matrices(&open(&path, None), 4);
        let w = open(&path, Some(1 << 30));
        let table = w.table(&name(i), [ROWS, COLUMNS]).unwrap();
        for kind in [Kind::Float, Kind::BFloat16] {
            let found = table.look_up(&ids, kind);
            assert_eq!(found.size(), [2, 3, COLUMNS]);
            assert!(found.equal(&staying[i].look_up(&ids, kind)), "{i}");
        }
        assert_eq!((table.bytes(), w.stream_bytes()), (0, None));
        // One that is used as a matrix after all is read for it.
        let expected = staying[i].expand(Kind::Float);
        assert!(table.expand(Kind::Float).equal(&expected));
    }
}

#[test]
fn a_matrix_is_there_while_the_network_is_built_and_that_settles_nothing() {
    let (_folder, path) = written(6);
    let w = open(&path, Some(0));
    let streaming = matrices(&w, 5);
    let staying = matrices(&open(&path, None), 6);
    let early = streaming[0].expand_early(Kind::Float);
    assert!(early.equal(&staying[0].expand(Kind::Float)) && w.stream_bytes().is_none());
    drop(streaming[1].expand(Kind::Float));
    // What is asked for too late is read by itself.
    let late = w.matrix(&name(5), [ROWS, COLUMNS]).unwrap();
    for matrix in [0, 5, 1, 5] {
        let found = streaming.get(matrix).unwrap_or(&late);
        let expected = staying[matrix].expand(Kind::Float);
        assert!(found.expand(Kind::Float).equal(&expected));
    }
}

#[test]
fn a_file_that_ends_while_it_is_streamed_is_one_error_that_names_it() {
    let count = 9;
    let (_folder, path) = written(count);
    let w = open(&path, Some(0));
    let streaming = matrices(&w, count);
    for matrix in &streaming {
        drop(matrix.expand(Kind::Float));
    }
    let len = path.metadata().unwrap().len();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(len / 2).unwrap();
    let mut errors = Vec::new();
    for matrix in &streaming {
        let used = catch_unwind(AssertUnwindSafe(|| matrix.expand(Kind::Float)));
        let panic = used.err().into_iter();
        errors.extend(panic.map(|panic| EngineError::from_panic(panic.as_ref())));
    }
    assert!((1..count).contains(&errors.len()), "{errors:?}");
    for err in errors {
        let text = err.to_string();
        let EngineError::Weights(WeightsError::File(CatalogError::Io { .. })) = err else {
            panic!("{err:?}");
        };
        assert!(text.contains("the file is shorter than it was"), "{text}");
        assert!(text.contains("model.safetensors"), "{text}");
    }
}

#[test]
fn first_guesses_follow_the_order_of_building_within_each_class() {
    let found = first_guesses(&[false, true, false, true, false]);
    assert_eq!(found, [2, 3, 4, 1, 0]);
    assert_eq!(first_guesses(&[true]), [0]);
}
