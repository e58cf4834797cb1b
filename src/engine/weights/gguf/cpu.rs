//! All blocks of a tensor to numbers on the CPU: by several threads, each block in one go.

use std::slice;
use std::sync::{Mutex, PoisonError};

use safelight_core::formats::weights::gguf::BlockType;
use safelight_loops::gguf::{self, DequantizeFn, OutputElements};
use tch::{Device, Kind, Tensor};

use crate::runtime::for_each_range;

/// About this many numbers are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 64 * 1024;

/// `blocks`: `(N, bytes of a block)`, contiguous, on the CPU -> flat, of `kind`, which is f32, bf16 or f16
pub(super) fn expand(blocks: &Tensor, block: BlockType, kind: Kind) -> Tensor {
    let count = blocks.size()[0] * block.block_len() as i64;
    let out = Tensor::empty([count], (kind, Device::Cpu));
    if count > 0 {
        expand_into(blocks, block, &out);
    }
    out
}

fn expand_into(blocks: &Tensor, block: BlockType, out: &Tensor) {
    let len = blocks.numel();
    assert!(
        blocks.is_contiguous() && blocks.kind() == Kind::Uint8 && blocks.device() == Device::Cpu,
        "expected blocks on the CPU, got {blocks:?}"
    );
    assert!(
        out.is_contiguous() && out.numel() == len / block.block_bytes() * block.block_len(),
        "expected a place for each number, got {out:?}"
    );
    #[expect(unsafe_code, reason = "reads and writes tensors without a copy")]
    // SAFETY: both are contiguous CPU tensors with this number of elements of these types, which outlive the slices;
    // `out` was created for this call, so nothing else uses it.
    let (bytes, numbers) = unsafe {
        let bytes = slice::from_raw_parts(blocks.data_ptr().cast::<u8>().cast_const(), len);
        let (start, count) = (out.data_ptr(), out.numel());
        let numbers = match out.kind() {
            Kind::BFloat16 => OutputElements::Bf16(slice::from_raw_parts_mut(start.cast(), count)),
            Kind::Half => OutputElements::F16(slice::from_raw_parts_mut(start.cast(), count)),
            Kind::Float => OutputElements::F32(slice::from_raw_parts_mut(start.cast(), count)),
            other => unreachable!("blocks are not expanded to {other:?}"),
        };
        (bytes, numbers)
    };
    let blocks_per_turn = NUMBERS_PER_TURN / block.block_len();
    let bytes_per_turn = blocks_per_turn * block.block_bytes();
    let expand = expander(block);
    let parts = numbers.parts(blocks_per_turn * block.block_len());
    // A turn each, and never two for one: the locks are always free.
    let turns: Vec<Mutex<OutputElements<'_>>> = parts.into_iter().map(Mutex::new).collect();
    for_each_range(turns.len(), 1, &|range| {
        for turn in range {
            let mut numbers = turns[turn].lock().unwrap_or_else(PoisonError::into_inner);
            let start = turn * bytes_per_turn;
            let end = len.min(start + bytes_per_turn);
            expand(&bytes[start..end], &mut numbers);
        }
    });
}

fn expander(block: BlockType) -> DequantizeFn {
    match block {
        BlockType::Q4_0 => gguf::q4_0,
        BlockType::Q4_1 => gguf::q4_1,
        BlockType::Q5_0 => gguf::q5_0,
        BlockType::Q5_1 => gguf::q5_1,
        BlockType::Q8_0 => gguf::q8_0,
        BlockType::Q2K => gguf::q2_k,
        BlockType::Q3K => gguf::q3_k,
        BlockType::Q4K => gguf::q4_k,
        BlockType::Q5K => gguf::q5_k,
        BlockType::Q6K => gguf::q6_k,
        BlockType::Iq4Nl => gguf::iq4_nl,
        BlockType::Iq4Xs => gguf::iq4_xs,
    }
}
