//! Numbers against gguf-py's (`tests/fixtures/gguf`), bit for bit, from both ways of making them.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::store;

fn fixture() -> BTreeMap<String, Tensor> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/gguf/blocks.safetensors");
    store::read(&path).unwrap().into_iter().collect()
}

/// Bits: -0 is not 0.
fn bits(numbers: &Tensor) -> Tensor {
    numbers.contiguous().view_dtype(Kind::Int)
}

#[test]
fn every_type_gives_the_bits_of_the_reference_on_every_device() {
    let fixture = fixture();
    for block in BlockType::ALL {
        let blocks = &fixture[&format!("{}.blocks", block.name())];
        let numbers = &fixture[&format!("{}.numbers", block.name())];
        let expected = bits(&numbers.view(-1));
        let by_loop = expand(blocks, block, Kind::Float);
        assert!(bits(&by_loop).equal(&expected), "{}", block.name());
        let by_ops = expand_by_ops(blocks, block, Kind::Float);
        assert!(bits(&by_ops).equal(&expected), "{}", block.name());
        for kind in [Kind::BFloat16, Kind::Half, Kind::Double] {
            let rounded = expand(blocks, block, kind);
            let expected = numbers.to_kind(kind).view(-1);
            assert!(rounded.equal(&expected), "{} as {kind:?}", block.name());
        }
    }
}

#[test]
fn many_turns_and_a_short_last_one_are_the_blocks_one_by_one() {
    let fixture = fixture();
    for block in [BlockType::Q4_0, BlockType::Q6K] {
        let blocks = &fixture[&format!("{}.blocks", block.name())];
        let count = 3 * 64 * 1024 / block.block_len() as i64 + 5;
        let times = count / blocks.size()[0] + 1;
        let many = blocks.repeat([times, 1]).narrow(0, 0, count);
        let expected = fixture[&format!("{}.numbers", block.name())].repeat([times, 1]);
        let expected = expected.narrow(0, 0, count).contiguous().view(-1);
        assert!(expand(&many, block, Kind::Float).equal(&expected));
    }
}

#[test]
fn rows_are_looked_up_and_stacked_without_being_expanded() {
    let fixture = fixture();
    let blocks = fixture["Q8_0.blocks"].view(-1);
    let numbers = fixture["Q8_0.numbers"].view([8, 64]);
    let matrix = BlockMatrix::new(&blocks, BlockType::Q8_0, [8, 64]);
    let whole = matrix.expand(Kind::Float);
    assert!(whole.equal(&numbers) && matrix.bytes().numel() == 16 * 34);
    let ids = Tensor::from_slice(&[7_i64, 0, 7]);
    let found = matrix.look_up(&ids, Kind::Float);
    assert!(found.equal(&numbers.index_select(0, &ids)));
    let both = BlockMatrix::stack(&[&matrix, &matrix]).unwrap();
    let expected = Tensor::cat(&[&numbers, &numbers], 0);
    assert!(both.expand(Kind::Float).equal(&expected));
    // Rows that share blocks.
    let narrow = BlockMatrix::new(&blocks, BlockType::Q8_0, [32, 16]);
    let numbers = numbers.view([32, 16]);
    assert!(narrow.expand(Kind::Float).equal(&numbers));
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
        assert_eq!(
            expand_by_ops(
                &none.view([0, block.block_bytes() as i64]),
                block,
                Kind::Half
            )
            .size(),
            [0]
        );
    }
}
