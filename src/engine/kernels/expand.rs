//! Numbers in narrow storage to numbers that can be computed with, in one pass: GGUF's blocks, fp8, int8.
//!
//! As in `ops.rs`: everything that a kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;

use safelight_core::formats::weights::gguf::BlockType;
use tch::{Kind, Tensor};

use super::driver::LaunchGrid;
use super::loaded::{KernelSet, SingleKernel};

/// `EXPAND_THREADS` of the source.
const THREADS: u32 = 256;
/// `RUN` of the source.
const RUN: i64 = 16;
/// Numbers that the lanes which exchange with each other have together: more are not rotated in one pass.
const MAX_GROUP: i64 = 256;

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

/// `Int8Args` of the source.
#[repr(C)]
struct Int8Args {
    codes: *const c_void,
    scales: *const c_void,
    out: *mut c_void,
    runs: u32,
    runs_per_row: u32,
    levels: i32,
}

impl KernelSet {
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

    /// See [`super::expand_int8`].
    pub(super) fn expand_int8(
        &self,
        codes: &Tensor,
        scales: &Tensor,
        group: Option<i64>,
    ) -> Option<Tensor> {
        let (rows, columns) = (codes.size()[0], codes.size()[1]);
        let levels = levels_of(group)?;
        let fits = codes.kind() == Kind::Int8
            && codes.is_contiguous()
            && codes.data_ptr().addr().is_multiple_of(RUN as usize)
            && columns % RUN == 0
            && columns % group.unwrap_or(1) == 0
            && scales.kind() == Kind::Float
            && scales.is_contiguous()
            && scales.numel() as i64 == rows
            && scales.device() == codes.device();
        let runs = fits.then(|| u32::try_from(rows * columns / RUN).ok())??;
        let out = Tensor::empty(codes.size(), (self.kind(), codes.device()));
        let mut args = Int8Args {
            codes: codes.data_ptr(),
            scales: scales.data_ptr(),
            out: out.data_ptr(),
            runs,
            runs_per_row: u32::try_from(columns / RUN).ok()?,
            levels,
        };
        self.launch_pieces(SingleKernel::ExpandInt8, i64::from(runs), &mut args)?;
        Some(out)
    }

    fn launch_pieces<T>(&self, kernel: SingleKernel, pieces: i64, args: &mut T) -> Option<()> {
        let blocks = u32::try_from(pieces).ok()?.div_ceil(THREADS);
        if blocks == 0 {
            return Some(());
        }
        let grid = LaunchGrid {
            blocks,
            threads: [THREADS, 1],
        };
        // A thread beyond `pieces` does nothing.
        self.launch_single(kernel, grid, args)
    }
}

/// Exponent of a group that is a power of four.
fn levels_of(group: Option<i64>) -> Option<i32> {
    let Some(group) = group else {
        return Some(0);
    };
    let is_power = group >= 4 && group.count_ones() == 1 && group.trailing_zeros() % 2 == 0;
    (is_power && group <= MAX_GROUP).then(|| group.trailing_zeros() as i32 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<BlocksArgs>(), 40);
        assert_eq!(size_of::<Fp8Args>(), 32);
        assert_eq!(size_of::<Int8Args>(), 40);
    }

    #[test]
    fn groups_are_rotated_in_one_pass_where_lanes_that_exchange_hold_them() {
        let levels = [None, Some(4), Some(16), Some(64), Some(256)].map(levels_of);
        assert_eq!(levels, [0, 1, 2, 3, 4].map(Some));
        for other in [0, 1, 2, 8, 12, 128, 1024] {
            assert_eq!(levels_of(Some(other)), None, "{other}");
        }
    }

    #[test]
    fn the_source_numbers_the_types_of_blocks_as_they_are_listed() {
        let source = include_str!("expand.cu");
        let names = BlockType::ALL.map(BlockType::name).join(", ");
        assert!(source.contains(&format!("enum {{ {names} }};")), "{names}");
    }
}
