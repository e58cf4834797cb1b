//! Numbers against gguf-py's (`tests/fixtures/gguf`), bit for bit, from both ways of making them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::kernels;
use crate::weights::Weights;
use crate::weights::tests::fixtures::{fixture, tensors_in};

fn place(name: &str) -> PathBuf {
    fixture("gguf").join(name)
}

/// The matrices of the fixture as gguf-py reads them, by the names of their types.
fn numbers() -> BTreeMap<String, Tensor> {
    tensors_in(&place("numbers.safetensors"))
}

fn open(kind: Kind) -> Weights {
    Weights::open(&place("blocks.gguf"), kind, Device::Cpu).unwrap()
}

/// The bytes of the fixture's matrix of a type, flat.
fn blocks(block: BlockType) -> Tensor {
    let weights = open(Kind::Float);
    let (file, info) = weights.find(block.name(), &size_of(block)).unwrap();
    file.blocks(block.name(), info, Device::Cpu).unwrap()
}

fn size_of(block: BlockType) -> [i64; 2] {
    let is_small = block.block_len() == 32;
    if is_small { [8, 64] } else { [3, 512] }
}

/// Bits: -0 is not 0.
fn bits(numbers: &Tensor) -> Tensor {
    numbers.contiguous().view_dtype(Kind::Int)
}

#[test]
fn every_type_gives_the_bits_of_the_reference_on_every_device() {
    let numbers = numbers();
    for block in BlockType::ALL {
        let (name, bytes) = (block.name(), blocks(block));
        let numbers = &numbers[name];
        let expected = bits(&numbers.view(-1));
        let by_loop = expand(&bytes, block, Kind::Float);
        assert!(bits(&by_loop).equal(&expected), "{name}");
        let rows = bytes.view([-1, block.block_bytes() as i64]);
        let by_ops = kernels::expand_blocks(&rows, block, Kind::Float);
        assert!(bits(&by_ops).equal(&expected), "{name}");
        for kind in [Kind::BFloat16, Kind::Half, Kind::Double] {
            let rounded = expand(&bytes, block, kind);
            let expected = numbers.to_kind(kind).view(-1);
            assert!(rounded.equal(&expected), "{name} as {kind:?}");
        }
    }
}

#[test]
fn a_file_gives_matrices_that_stay_in_blocks_and_tensors_that_do_not() {
    let numbers = numbers();
    for kind in [Kind::Float, Kind::BFloat16] {
        let weights = open(kind);
        for block in BlockType::ALL {
            let (name, size) = (block.name(), size_of(block));
            let matrix = weights.matrix(name, size).unwrap();
            let count = (size[0] * size[1]) as usize;
            let bytes = count / block.block_len() * block.block_bytes();
            assert_eq!(matrix.bytes(), bytes as u64);
            assert_eq!([matrix.rows(), matrix.columns()], size);
            let expected = numbers[name].to_kind(kind);
            assert!(matrix.expand(kind).equal(&expected), "{name}");
            let tensor = weights.tensor(name, &size).unwrap();
            assert!(tensor.equal(&expected), "{name}");
            let ids = Tensor::from_slice(&[2_i64, 0, 2, 1]).view([2, 2]);
            let found = matrix.look_up(&ids, kind);
            let rows = Tensor::embedding(&expected, &ids, -1, false, false);
            assert!(found.equal(&rows), "{name}");
        }
        for (name, size) in [
            ("F32", &[4, 6][..]),
            ("F16", &[4, 6]),
            ("BF16", &[4, 6]),
            ("reshaped", &[32, 16]),
            ("kernel", &[3, 2, 1, 2, 2]),
        ] {
            let tensor = weights.tensor(name, size).unwrap();
            assert!(tensor.equal(&numbers[name].to_kind(kind)), "{name}");
        }
        let reshaped = weights.matrix("reshaped", [32, 16]).unwrap();
        let expected = numbers["reshaped"].to_kind(kind);
        assert!(reshaped.expand(kind).equal(&expected));
        assert_eq!(weights.finish(), Vec::<String>::new());
        assert!(weights.matrix("Q8_0", [64, 8]).is_err());
    }
}

#[test]
fn many_turns_and_a_short_last_one_are_the_blocks_one_by_one() {
    let numbers = numbers();
    for block in [BlockType::Q4_0, BlockType::Q6K] {
        let rows = blocks(block).view([-1, block.block_bytes() as i64]);
        let count = 3 * 64 * 1024 / block.block_len() as i64 + 5;
        let times = count / rows.size()[0] + 1;
        let many = rows.repeat([times, 1]).narrow(0, 0, count);
        let expected = numbers[block.name()].view(-1).repeat([times]);
        let expected = expected.narrow(0, 0, count * block.block_len() as i64);
        assert!(expand(&many, block, Kind::Float).equal(&expected));
    }
}

#[test]
fn rows_are_looked_up_and_stacked_without_being_expanded() {
    let bytes = blocks(BlockType::Q8_0);
    let numbers = numbers()["Q8_0"].shallow_clone();
    let matrix = BlockMatrix::new(&bytes, BlockType::Q8_0, [8, 64]);
    let ids = Tensor::from_slice(&[7_i64, 0, 7]);
    let found = matrix.look_up(&ids, Kind::Float);
    assert!(found.equal(&numbers.index_select(0, &ids)));
    let some = matrix.expand_rows(2, 5, Kind::Float);
    assert!(some.equal(&numbers.narrow(0, 2, 5)));
    let both = BlockMatrix::stack(&[&matrix, &matrix]).unwrap();
    let expected = Tensor::cat(&[&numbers, &numbers], 0);
    assert!(both.expand(Kind::Float).equal(&expected));
    // Rows that share blocks.
    let narrow = BlockMatrix::new(&bytes, BlockType::Q8_0, [32, 16]);
    let numbers = numbers.view([32, 16]);
    assert!(narrow.expand(Kind::Float).equal(&numbers));
    let some = narrow.expand_rows(3, 2, Kind::Float);
    assert!(some.equal(&numbers.narrow(0, 3, 2)));
    let found = narrow.look_up(&ids, Kind::Float);
    assert!(found.equal(&numbers.index_select(0, &ids)));
    assert!(BlockMatrix::stack(&[&narrow, &narrow]).is_none());
    assert!(BlockMatrix::stack(&[&matrix, &narrow]).is_none());
}

#[test]
fn a_matrix_of_no_rows_has_no_numbers() {
    let none = Tensor::empty([0], (Kind::Uint8, Device::Cpu));
    for block in BlockType::ALL {
        let matrix = BlockMatrix::new(&none, block, [0, 256]);
        assert_eq!(matrix.expand(Kind::Float).size(), [0, 256]);
        let rows = none.view([0, block.block_bytes() as i64]);
        let found = kernels::expand_blocks(&rows, block, Kind::Half);
        assert_eq!(found.size(), [0]);
    }
}
