//! Numbers in GGUF's blocks: kept as the bytes of the file, expanded when they are used.
//!
//! Expansion gives, in f32, the very bits that gguf-py's `dequantize` gives, for every type, and is rounded once to
//! the type that is computed with. On the CPU a loop over the blocks does it, on other devices a kernel or tensor operations.
//! Reads no file (see [`Weights::matrix`](super::Weights::matrix)).

mod cpu;
#[cfg(test)]
mod tests;

use safelight_core::formats::weights::gguf::BlockType;
use tch::{Device, Kind, Tensor};

use crate::kernels;

/// `(rows, columns)` numbers in blocks, row after row.
#[derive(Debug)]
pub(super) struct BlockMatrix {
    /// `(rows, bytes of a row)`, or `(1, bytes)` where rows do not end with a block.
    bytes: Tensor,
    block: BlockType,
    rows: i64,
    columns: i64,
}

impl BlockMatrix {
    /// `bytes`: flat, all blocks of the matrix.
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

    pub(super) fn rows(&self) -> i64 {
        self.rows
    }

    pub(super) fn columns(&self) -> i64 {
        self.columns
    }

    /// As they are stored.
    pub(super) fn bytes(&self) -> &Tensor {
        &self.bytes
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
            cpu::expand(&bytes, block, kind)
        }
        _ => kernels::expand_blocks(&bytes, block, kind),
    }
}
