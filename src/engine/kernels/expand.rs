//! Numbers in narrow storage to numbers that can be computed with, in one pass: GGUF's blocks and fp8.
//!
//! As in `ops.rs`: everything that a kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;

use safelight_core::formats::weights::gguf::BlockType;
use tch::{Kind, Tensor};

use super::driver::Grid;
use super::loaded::{Kernels, SingleKernel};

/// `EXPAND_THREADS` of the source.
const THREADS: u32 = 256;

/// `BlocksArgs` of the source.
#[repr(C)]
struct BlocksArgs {
    bytes: *const c_void,
    out: *mut c_void,
    pieces: i64,
    block_bytes: u32,
    block_len: u32,
    block_type: u32,
}

/// `Fp8Args` of the source.
#[repr(C)]
struct Fp8Args {
    numbers: *const c_void,
    out: *mut c_void,
    pieces: i64,
    scale: f32,
    is_e5m2: i32,
}

impl Kernels {
    /// See [`super::expand_blocks`].
    pub(super) fn expand_blocks(&self, blocks: &Tensor, block: BlockType) -> Option<Tensor> {
        let (count, len) = (blocks.size()[0], block.block_len() as i64);
        let fits = blocks.kind() == Kind::Uint8
            && blocks.is_contiguous()
            && blocks.size() == [count, block.block_bytes() as i64];
        let pieces = fits.then_some(count * len / self.piece_len() as i64)?;
        let out = Tensor::empty([count * len], (self.kind(), blocks.device()));
        let number = BlockType::ALL.iter().position(|&other| other == block)?;
        let mut args = BlocksArgs {
            bytes: blocks.data_ptr(),
            out: out.data_ptr(),
            pieces,
            block_bytes: block.block_bytes() as u32,
            block_len: block.block_len() as u32,
            block_type: number as u32,
        };
        self.launch_pieces(SingleKernel::ExpandBlocks, pieces, &mut args)?;
        Some(out)
    }

    /// See [`super::expand_fp8`].
    pub(super) fn expand_fp8(&self, numbers: &Tensor, scale: f32) -> Option<Tensor> {
        let count = numbers.numel();
        let is_e5m2 = match numbers.kind() {
            Kind::Float8e5m2 => true,
            Kind::Float8e4m3fn => false,
            _ => return None,
        };
        let fits = numbers.is_contiguous()
            && count.is_multiple_of(self.piece_len())
            && numbers.data_ptr().addr().is_multiple_of(size_of::<u32>());
        let pieces = fits.then_some((count / self.piece_len()) as i64)?;
        let out = Tensor::empty(numbers.size(), (self.kind(), numbers.device()));
        let mut args = Fp8Args {
            numbers: numbers.data_ptr(),
            out: out.data_ptr(),
            pieces,
            scale,
            is_e5m2: i32::from(is_e5m2),
        };
        self.launch_pieces(SingleKernel::ExpandFp8, pieces, &mut args)?;
        Some(out)
    }

    fn launch_pieces<T>(&self, kernel: SingleKernel, pieces: i64, args: &mut T) -> Option<()> {
        let blocks = u32::try_from(pieces).ok()?.div_ceil(THREADS);
        if blocks == 0 {
            return Some(());
        }
        let grid = Grid {
            blocks,
            threads: [THREADS, 1],
        };
        // A thread beyond `pieces` does nothing.
        self.launch_single(kernel, grid, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<BlocksArgs>(), 40);
        assert_eq!(size_of::<Fp8Args>(), 32);
    }

    #[test]
    fn the_source_numbers_the_types_of_blocks_as_they_are_listed() {
        let source = include_str!("expand.cu");
        let names = BlockType::ALL.map(BlockType::name).join(", ");
        assert!(source.contains(&format!("enum {{ {names} }};")), "{names}");
    }
}
