//! Statistics of channels, and what follows from them for each number, each in one pass over memory.
//!
//! For contiguous f32 pictures on the CPU. libtorch has a group norm for channels innermost there, but sums up all
//! pixels one after the other: at 512 × 512 its variance is off by a ten-thousandth.

use safelight_loops::statistics::{BlockStatistics, ScaleShift};
use tch::{Device, Kind, Tensor};

use crate::vae::slices::{floats, run_all, shared};

/// Numbers whose statistics are taken together: they stay in a core's own cache while they are read twice.
const NUMBERS_PER_BLOCK: usize = 32 * 1024;

/// Mean and variance of each channel in blocks of pixels.
pub(super) struct BlockMoments {
    /// Both `(blocks, C)`
    pub(super) means: Tensor,
    pub(super) variances: Tensor,
    pub(super) pixels: Vec<usize>,
}

/// `xs`: `(…, C)`, of one pixel at least
pub(super) fn moments(xs: &Tensor) -> BlockMoments {
    let channels = channels_of(xs);
    let total = xs.numel() / channels;
    let per_block = (NUMBERS_PER_BLOCK / channels).max(1);
    let blocks = total.div_ceil(per_block);
    let options = (Kind::Float, Device::Cpu);
    let [means, variances] =
        [(); 2].map(|()| Tensor::zeros([blocks as i64, channels as i64], options));
    let pass = BlockStatistics {
        xs: floats(xs),
        channels,
        per_block,
        means: shared(&means),
        variances: shared(&variances),
    };
    run_all(&pass, blocks, 1);
    let pixels = (0..blocks).map(|block| per_block.min(total - block * per_block));
    BlockMoments {
        pixels: pixels.collect(),
        means,
        variances,
    }
}

fn channels_of(xs: &Tensor) -> usize {
    xs.size()
        .last()
        .map_or(1, |&channels| channels.max(1) as usize)
}

/// `xs` · `scale` + `shift`, then SiLU if wanted. `xs`: `(…, C)`, `scale`, `shift`: `(C)` → the size of `xs`
pub(super) fn scaled(xs: &Tensor, scale: &Tensor, shift: &Tensor, with_silu: bool) -> Tensor {
    let out = xs.empty_like();
    let channels = channels_of(xs);
    let (count, grain) = (xs.numel() / channels, (NUMBERS_PER_BLOCK / channels).max(1));
    let pass = ScaleShift {
        xs: floats(xs),
        scale: floats(scale),
        shift: floats(shift),
        with_silu,
        out: shared(&out),
    };
    run_all(&pass, count, grain);
    out
}
