//! Numbers in narrow storage to numbers that can be computed with, in one pass: GGUF's blocks, fp8, quantized matrices.
//!
//! As in `ops.rs`: everything that a kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;
use std::ptr::null;

use safelight_core::formats::weights::gguf::BlockType;
use safelight_core::formats::weights::quant::{BlockScales, CodeType};
use safetensors::Dtype;
use tch::{Kind, Tensor};

use super::driver::LaunchGrid;
use super::loaded::{KernelSet, SingleKernel};
use super::pass_params::QuantRows;

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

/// `QuantArgs` of the source.
#[repr(C)]
struct QuantArgs {
    codes: *const c_void,
    scales: *const c_void,
    blocks: *const c_void,
    table: *const c_void,
    out: *mut c_void,
    runs: u32,
    runs_per_row: u32,
    code_type: i32,
    levels: i32,
    scale_type: i32,
    block_columns: u32,
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

    /// See [`super::expand_quant`].
    pub(super) fn expand_quant(&self, rows: &QuantRows<'_>) -> Option<Tensor> {
        let QuantRows { format, codes, .. } = *rows;
        let (count, bits) = (codes.size()[0], format.codes.bits() as i64);
        let columns = codes.size()[1] * 8 / bits;
        let levels = levels_of(rows.rotation.map(|rotation| rotation.size()[0]))?;
        let is_ready = |tensor: &Tensor, kind: Kind, len: i64| {
            tensor.kind() == kind
                && tensor.is_contiguous()
                && tensor.numel() as i64 == len
                && tensor.device() == codes.device()
        };
        let (scale_type, block_columns) = scale_type_of(format.blocks)?;
        let block_kind = match scale_type {
            3 => Kind::Float,
            _ => Kind::Uint8,
        };
        let has_blocks = match rows.blocks {
            Some(blocks) => is_ready(blocks, block_kind, count * columns / block_columns),
            None => scale_type == 0,
        };
        let is_half = bits == 4;
        let has_table = rows
            .table
            .is_some_and(|table| is_ready(table, Kind::Float, 16));
        let fits = codes.is_contiguous()
            && codes.kind().elt_size_in_bytes() == 1
            && codes
                .data_ptr()
                .addr()
                .is_multiple_of((RUN * bits / 8) as usize)
            && columns % RUN == 0
            && columns % format.group.map_or(1, |group| group as i64) == 0
            && is_ready(rows.scales, Kind::Float, count)
            && has_blocks
            && is_half == has_table;
        let runs = fits.then(|| u32::try_from(count * columns / RUN).ok())??;
        let out = Tensor::empty([count, columns], (self.kind(), codes.device()));
        let pointer =
            |tensor: Option<&Tensor>| tensor.map_or(null(), |it| it.data_ptr().cast_const());
        let mut args = QuantArgs {
            codes: codes.data_ptr(),
            scales: rows.scales.data_ptr(),
            blocks: pointer(rows.blocks),
            table: pointer(rows.table),
            out: out.data_ptr(),
            runs,
            runs_per_row: u32::try_from(columns / RUN).ok()?,
            code_type: CodeType::ALL.iter().position(|&it| it == format.codes)? as i32,
            levels,
            scale_type,
            block_columns: u32::try_from(block_columns).ok()?,
        };
        self.launch_pieces(SingleKernel::ExpandQuant, i64::from(runs), &mut args)?;
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

/// Number of a type of block scales in the source, and the columns of a block.
fn scale_type_of(blocks: Option<BlockScales>) -> Option<(i32, i64)> {
    let Some(blocks) = blocks else {
        return Some((0, 1));
    };
    let number = match blocks.dtype {
        Dtype::F8_E4M3 => 1,
        Dtype::F8_E8M0 => 2,
        Dtype::F32 => 3,
        _ => return None,
    };
    Some((number, blocks.columns as i64))
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
        assert_eq!(size_of::<QuantArgs>(), 64);
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
    fn the_source_numbers_types_as_they_are_listed() {
        let source = include_str!("expand.cu");
        let names = BlockType::ALL.map(BlockType::name).join(", ");
        assert!(source.contains(&format!("enum {{ {names} }};")), "{names}");
        let codes = CodeType::ALL.map(|codes| format!("CODES_{codes:?}").to_uppercase());
        let names = codes.join(", ");
        assert!(source.contains(&format!("enum {{ {names} }};")), "{names}");
    }
}
