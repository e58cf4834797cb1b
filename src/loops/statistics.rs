//! Statistics of channels, and what follows from them for each number, each in one pass over memory.

use std::ops::Range;

use crate::SharedRows;
use crate::activation::silu;
use crate::vectors::{InRanges, RangeWork, multiply_add, vectorized_range};

/// Mean and variance of each channel in blocks of pixels. Items are blocks.
pub struct BlockStatistics<'a> {
    /// `(pixels, C)`
    pub xs: &'a [f32],
    pub channels: usize,
    /// Pixels of a block; the last may have fewer.
    pub per_block: usize,
    /// Zeros, `(blocks, C)`
    pub means: SharedRows<'a>,
    /// As `means`.
    pub variances: SharedRows<'a>,
}

impl InRanges for BlockStatistics<'_> {
    #[expect(unsafe_code, reason = "as the trait's")]
    unsafe fn run(&self, range: Range<usize>) {
        vectorized_range(self, range);
    }
}

impl RangeWork for BlockStatistics<'_> {
    #[expect(unsafe_code, reason = "threads write to different rows of one tensor")]
    #[inline(always)]
    fn run_range<const FUSED: bool>(&self, blocks: Range<usize>) {
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

/// `xs` · `scale` + `shift`, then SiLU if wanted. Items are pixels.
pub struct ScaleShift<'a> {
    /// `(pixels, C)`, as `out`
    pub xs: &'a [f32],
    /// `(C)`, as `shift`
    pub scale: &'a [f32],
    pub shift: &'a [f32],
    pub with_silu: bool,
    pub out: SharedRows<'a>,
}

/// Like [`ScaleShift`], with SiLU decided at compile time.
struct ScaleShiftSilu<'a, const SILU: bool>(&'a ScaleShift<'a>);

impl InRanges for ScaleShift<'_> {
    #[expect(unsafe_code, reason = "as the trait's")]
    unsafe fn run(&self, range: Range<usize>) {
        if self.with_silu {
            vectorized_range(&ScaleShiftSilu::<true>(self), range);
        } else {
            vectorized_range(&ScaleShiftSilu::<false>(self), range);
        }
    }
}

impl<const SILU: bool> RangeWork for ScaleShiftSilu<'_, SILU> {
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of one tensor"
    )]
    #[inline(always)]
    fn run_range<const FUSED: bool>(&self, pixels: Range<usize>) {
        let ScaleShift {
            xs,
            scale,
            shift,
            out,
            ..
        } = self.0;
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
