//! Statistics of channels, and what follows from them for each number, each in one pass over memory.
//!
//! For contiguous f32 pictures on the CPU. libtorch has a group norm for channels innermost there, but sums up all
//! pixels one after the other: at 512 × 512 its variance is off by a ten-thousandth.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use crate::vae::pointwise::silu;
use crate::vae::slices::{SharedMut, SharedWork, floats, multiply_add};

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
    let pass = Statistics {
        xs: floats(xs),
        channels,
        per_block,
        means: SharedMut::new(&means),
        variances: SharedMut::new(&variances),
    };
    pass.run_all(blocks, 1);
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

impl SharedWork for Statistics<'_> {
    #[expect(unsafe_code, reason = "threads write to different rows of one tensor")]
    #[inline(always)]
    fn run<const FUSED: bool>(&self, blocks: Range<usize>) {
        let channels = self.channels;
        for block in blocks {
            let start = block * self.per_block * channels;
            let end = self.xs.len().min(start + self.per_block * channels);
            let xs = &self.xs[start..end];
            let share = channels as f32 / xs.len() as f32;
            // SAFETY: each block's rows are written here alone.
            let means = unsafe { self.means.row(block * channels, channels) };
            for pixel in xs.chunks_exact(channels) {
                for (sum, x) in means.iter_mut().zip(pixel) {
                    *sum += x;
                }
            }
            for mean in means.iter_mut() {
                *mean *= share;
            }
            // SAFETY: as above, of another tensor.
            let variances = unsafe { self.variances.row(block * channels, channels) };
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
    let (count, grain) = (xs.numel() / channels, (NUMBERS_PER_BLOCK / channels).max(1));
    let (xs, scale, shift) = (floats(xs), floats(scale), floats(shift));
    let shared = SharedMut::new(&out);
    if with_silu {
        Scaling::<true>(xs, scale, shift, shared).run_all(count, grain);
    } else {
        Scaling::<false>(xs, scale, shift, shared).run_all(count, grain);
    }
    out
}

/// Pixels, scale and shift, and where the results go.
struct Scaling<'a, const SILU: bool>(&'a [f32], &'a [f32], &'a [f32], SharedMut<'a>);

impl<const SILU: bool> SharedWork for Scaling<'_, SILU> {
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of one tensor"
    )]
    #[inline(always)]
    fn run<const FUSED: bool>(&self, pixels: Range<usize>) {
        let Self(xs, scale, shift, out) = self;
        let channels = scale.len();
        for start in pixels.map(|pixel| pixel * channels) {
            // SAFETY: this pixel is written here alone.
            let out = unsafe { out.row(start, channels) };
            let xs = &xs[start..start + channels];
            let terms = scale.iter().zip(*shift);
            for ((out, x), (scale, shift)) in out.iter_mut().zip(xs).zip(terms) {
                let y = multiply_add::<FUSED>(*x, *scale, *shift);
                *out = if SILU { silu::<FUSED>(y) } else { y };
            }
        }
    }
}
