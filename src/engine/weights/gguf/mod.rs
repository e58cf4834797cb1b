//! Numbers in GGUF's blocks: kept as the bytes of the file, expanded when they are used.
//!
//! Expansion gives, in f32, the very bits that gguf-py's `dequantize` gives, for every type, and is rounded once to
//! the type that is computed with. On the CPU a loop over the blocks does it, on other devices a kernel or tensor operations.

#[cfg(test)]
mod tests;

use std::slice;
use std::sync::{Mutex, PoisonError};

use safelight_core::formats::weights::gguf::BlockType;
use safelight_loops::gguf::{self, DequantizeFn, OutputElements};
use tch::{Device, Kind, Tensor};

use crate::kernels;
use crate::runtime::for_each_range;

/// `(rows, columns)` numbers in blocks, row after row.
#[derive(Debug)]
pub struct BlockMatrix {
    /// As they are stored: `(rows, bytes of a row)`, or `(1, bytes)` where rows do not end with a block.
    pub(super) bytes: Tensor,
    block: BlockType,
    pub(super) rows: i64,
    pub(super) columns: i64,
}

impl BlockMatrix {
    pub(super) fn new(bytes: &Tensor, block: BlockType, [rows, columns]: [i64; 2]) -> Self {
        let has_whole_rows = columns % block.block_len() as i64 == 0;
        let height = if has_whole_rows { rows } else { 1 };
        Self {
            bytes: bytes.view([height, if height == 0 { 0 } else { -1 }]),
            block,
            rows,
            columns,
        }
    }

    /// `(rows, columns)` of `kind`
    pub(super) fn expand(&self, kind: Kind) -> Tensor {
        expand(&self.bytes, self.block, kind).view([self.rows, self.columns])
    }

    /// `(count, columns)` of `kind`
    pub(super) fn expand_rows(&self, first: i64, count: i64, kind: Kind) -> Tensor {
        if !self.has_whole_rows() {
            return self.expand(kind).narrow(0, first, count);
        }
        let bytes = self.bytes.narrow(0, first, count);
        expand(&bytes, self.block, kind).view([count, self.columns])
    }

    /// `ids`: `(N)` -> `(N, columns)` of `kind`, of which only those rows are expanded
    pub(super) fn look_up(&self, ids: &Tensor, kind: Kind) -> Tensor {
        if !self.has_whole_rows() {
            return self.expand(kind).index_select(0, ids);
        }
        let found = self.bytes.index_select(0, ids);
        expand(&found, self.block, kind).view([-1, self.columns])
    }

    /// One below the other, where their blocks are of one type; copies them.
    pub(super) fn stack(parts: &[&Self]) -> Option<Self> {
        let (first, others) = parts.split_first()?;
        let is_alike = |other: &&&Self| {
            other.block == first.block && other.columns == first.columns && other.has_whole_rows()
        };
        if !first.has_whole_rows() || !others.iter().all(|other| is_alike(&other)) {
            return None;
        }
        let bytes: Vec<&Tensor> = parts.iter().map(|part| &part.bytes).collect();
        Some(Self {
            bytes: Tensor::cat(&bytes, 0),
            block: first.block,
            rows: parts.iter().map(|part| part.rows).sum(),
            columns: first.columns,
        })
    }

    /// Returns whether every row begins with a block.
    pub(super) fn has_whole_rows(&self) -> bool {
        self.columns % self.block.block_len() as i64 == 0
    }
}

/// All numbers of `bytes`, whole blocks, as a flat tensor of `kind` on the same device.
pub(super) fn expand(bytes: &Tensor, block: BlockType, kind: Kind) -> Tensor {
    let bytes = bytes.contiguous().view([-1, block.block_bytes() as i64]);
    match kind {
        Kind::Float | Kind::Half | Kind::BFloat16 if bytes.device() == Device::Cpu => {
            expand_on_cpu(&bytes, block, kind)
        }
        _ => kernels::expand_blocks(&bytes, block, kind),
    }
}

/// About this many numbers are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 64 * 1024;

/// `blocks`: `(N, bytes of a block)`, contiguous, on the CPU -> flat, of `kind`, which is f32, bf16 or f16
fn expand_on_cpu(blocks: &Tensor, block: BlockType, kind: Kind) -> Tensor {
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
