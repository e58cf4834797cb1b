//! Norm and SiLU of pixels, each in one pass over memory.

use std::ops::Range;

use crate::SharedRows;
use crate::vectors::{InRanges, LANES, RangeWork, copy, multiply_add, vectorized_range};

/// Each pixel divided by its length, times `gamma`, then SiLU. Items are pixels.
pub struct NormSilu<'a> {
    /// `(pixels, C)`, as `out`
    pub xs: &'a [f32],
    /// `(C)`
    pub gamma: &'a [f32],
    pub out: SharedRows<'a>,
}

impl InRanges for NormSilu<'_> {
    #[expect(unsafe_code, reason = "as the trait's")]
    unsafe fn run(&self, range: Range<usize>) {
        vectorized_range(self, range);
    }
}

impl RangeWork for NormSilu<'_> {
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of the same tensor"
    )]
    #[inline(always)]
    fn run_range<const FUSED: bool>(&self, pixels: Range<usize>) {
        let channels = self.gamma.len();
        for start in pixels.map(|pixel| pixel * channels) {
            // SAFETY: this pixel is written here alone.
            let row = unsafe { self.out.row(start, channels) };
            copy(row, &self.xs[start..][..channels]);
            normalize_and_activate::<FUSED>(row, self.gamma);
        }
    }
}

/// One pixel of one frame: divided by its length, times `gamma`, then SiLU.
#[inline(always)]
pub(crate) fn normalize_and_activate<const FUSED: bool>(row: &mut [f32], gamma: &[f32]) {
    let inverse = 1.0 / sum_of_squares::<FUSED>(row).sqrt().max(1e-12);
    for (x, gamma) in row.iter_mut().zip(gamma) {
        *x = silu::<FUSED>(*x * inverse * gamma);
    }
}

/// In as many partial sums as a vector has lanes.
#[inline(always)]
fn sum_of_squares<const FUSED: bool>(row: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let mut chunks = row.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum = multiply_add::<FUSED>(*x, *x, *sum);
        }
    }
    for (sum, x) in sums.iter_mut().zip(chunks.remainder()) {
        *sum = multiply_add::<FUSED>(*x, *x, *sum);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
pub(crate) fn silu<const FUSED: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<FUSED>(-x))
}

/// e to the power of `x` to a unit or two in the last place, without branches, so that it becomes vector code.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Above, the result would be infinite; below, not a normal number.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    // Adding this number rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, the first of which times n is exact.
    let r = multiply_add::<FUSED>(n, -0.693_359_4, x);
    let r = multiply_add::<FUSED>(n, 2.121_944_4e-4, r);
    let power_of_two = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    // The series of e^r up to its 7th power: |r| is below 0.35.
    let mut sum = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = multiply_add::<FUSED>(sum, r, factor);
    }
    sum * power_of_two
}

#[cfg(test)]
mod tests {
    use super::{exp, silu};

    #[test]
    fn the_exponential_is_as_exact_as_single_precision_allows() {
        for i in -8700..8800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            for found in [exp::<false>(x), exp::<true>(x)] {
                let off = (f64::from(found) - exact).abs() / exact;
                assert!(off < 2.5e-7, "e^{x} is off by {off}");
            }
        }
    }

    #[test]
    fn the_activation_goes_to_zero_and_to_its_argument() {
        assert_eq!(silu::<false>(0.0), 0.0);
        assert_eq!(silu::<false>(200.0), 200.0);
        assert!(silu::<false>(-200.0).abs() < 1e-30);
        assert!(silu::<false>(f32::NAN).is_nan());
    }
}
