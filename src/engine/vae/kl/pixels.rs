//! Statistics of channels, and what follows from them for each number, each in one pass over memory.
//!
//! For contiguous f32 pictures on the CPU. libtorch has a group norm for channels innermost there, but sums up all
//! pixels one after the other: at 512 × 512 its variance is off by a ten-thousandth.

#![expect(
    clippy::inline_always,
    reason = "inner loops must be compiled with the vectors of their caller"
)]

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use crate::runtime::for_each_range;
use crate::vae::pointwise::silu;
use crate::vae::slices::{SharedMut, VectorWork, floats, multiply_add, vectorized};

/// Numbers whose statistics are taken together: they stay in a core's own cache while they are read twice.
const NUMBERS_PER_BLOCK: usize = 32 * 1024;

/// Mean and variance of each channel in blocks of pixels.
pub(super) struct BlockMoments {
    /// Both `(blocks, C)`
    pub(super) means: Tensor,
    pub(super) variances: Tensor,
    /// Pixels of each block.
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
    let pass = Statistics {
        xs: floats(xs),
        channels,
        per_block,
        means: SharedMut::new(&means),
        variances: SharedMut::new(&variances),
    };
    for_each_range(blocks, 1, &|blocks| vectorized(Blocks(&pass, blocks)));
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

struct Statistics<'a> {
    xs: &'a [f32],
    channels: usize,
    per_block: usize,
    means: SharedMut<'a>,
    variances: SharedMut<'a>,
}

/// The blocks that one thread handles at a time.
struct Blocks<'a>(&'a Statistics<'a>, Range<usize>);

impl VectorWork for Blocks<'_> {
    #[expect(unsafe_code, reason = "threads write to different rows of one tensor")]
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self(pass, blocks) = self;
        let channels = pass.channels;
        for block in blocks {
            let start = block * pass.per_block * channels;
            let end = pass.xs.len().min(start + pass.per_block * channels);
            let xs = &pass.xs[start..end];
            let share = channels as f32 / xs.len() as f32;
            // SAFETY: each block's rows are written here alone.
            let means = unsafe { pass.means.row(block * channels, channels) };
            for pixel in xs.chunks_exact(channels) {
                for (sum, x) in means.iter_mut().zip(pixel) {
                    *sum += x;
                }
            }
            for mean in means.iter_mut() {
                *mean *= share;
            }
            // SAFETY: as above, of another tensor.
            let variances = unsafe { pass.variances.row(block * channels, channels) };
            for pixel in xs.chunks_exact(channels) {
                for ((sum, x), mean) in variances.iter_mut().zip(pixel).zip(&*means) {
                    let from_mean = x - mean;
                    *sum = multiply_add::<FUSED>(from_mean, from_mean, *sum);
                }
            }
            for variance in variances.iter_mut() {
                *variance *= share;
            }
        }
    }
}

/// `xs` · `scale` + `shift`, then SiLU if wanted. `xs`: `(…, C)`, `scale`, `shift`: `(C)` → the size of `xs`
pub(super) fn scaled(xs: &Tensor, scale: &Tensor, shift: &Tensor, with_silu: bool) -> Tensor {
    let out = xs.empty_like();
    let channels = channels_of(xs);
    let pass = Scaling {
        xs: floats(xs),
        scale: floats(scale),
        shift: floats(shift),
        out: SharedMut::new(&out),
    };
    let grain = (NUMBERS_PER_BLOCK / channels).max(1);
    for_each_range(xs.numel() / channels, grain, &|pixels| {
        if with_silu {
            vectorized(ScaledPixels::<true>(&pass, pixels));
        } else {
            vectorized(ScaledPixels::<false>(&pass, pixels));
        }
    });
    out
}

struct Scaling<'a> {
    xs: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    out: SharedMut<'a>,
}

/// The pixels that one thread handles at a time.
struct ScaledPixels<'a, const SILU: bool>(&'a Scaling<'a>, Range<usize>);

impl<const SILU: bool> VectorWork for ScaledPixels<'_, SILU> {
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of one tensor"
    )]
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self(pass, pixels) = self;
        let channels = pass.scale.len();
        for start in pixels.map(|pixel| pixel * channels) {
            // SAFETY: this pixel is written here alone.
            let out = unsafe { pass.out.row(start, channels) };
            let xs = &pass.xs[start..start + channels];
            let terms = pass.scale.iter().zip(pass.shift);
            for ((out, x), (scale, shift)) in out.iter_mut().zip(xs).zip(terms) {
                let y = multiply_add::<FUSED>(*x, *scale, *shift);
                *out = if SILU { silu::<FUSED>(y) } else { y };
            }
        }
    }
}
