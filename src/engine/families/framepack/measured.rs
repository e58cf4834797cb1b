//! Published step cache calibration of FramePack: the relation of input and output changes, and the ratios of
//! consecutive residuals of the whole stack of blocks.
//!
//! The polynomial is from FramePack's demo for HunyuanVideo. The ratios are from
//! <https://github.com/FP-Studio/FramePack-Studio/blob/main/diffusers_helper/models/mag_cache_ratios.py>
//! (seed 31337, default settings), where those for sizes of 512 to 768 differ by 0.03 at most, with the limits that
//! FramePack-Studio chose for quality. Only the choice among them is computed here.

use safelight_core::job::SectionOrder;

use crate::step_cache::{CacheCalibration, ResidualMagnitudes};

/// Highest power first.
const POLYNOMIAL: [f64; 5] = [
    733.226_126,
    -401.131_952,
    67.586_917_4,
    -3.149_878,
    0.096_123_789_6,
];

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 2;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.25;
/// A step whose residual changes more than this alone is made.
const MAX_CHANGE: f64 = 0.06;

/// For a section of `num_calls`. `side`: mean of width and height in pixels
pub(super) fn measured(order: SectionOrder, side: u32, num_calls: usize) -> CacheCalibration {
    let is_small = side < 448;
    let is_long = num_calls > 37;
    let table: &[f64] = match (order, is_small, is_long) {
        (SectionOrder::Original, false, false) => &ORIGINAL_640_25,
        (SectionOrder::Original, false, true) => &ORIGINAL_640_50,
        (SectionOrder::Original, true, false) => &ORIGINAL_384_25,
        (SectionOrder::Original, true, true) => &ORIGINAL_384_50,
        (SectionOrder::F1, false, false) => &F1_640_25,
        (SectionOrder::F1, false, true) => &F1_640_50,
        (SectionOrder::F1, true, false) => &F1_384_25,
        (SectionOrder::F1, true, true) => &F1_384_50,
    };
    CacheCalibration {
        polynomial: Some(POLYNOMIAL.into()),
        magnitudes: Some(ResidualMagnitudes {
            max_change: MAX_CHANGE,
            ..ResidualMagnitudes::of(table, num_calls, MAX_SKIPS, RETAINED)
        }),
    }
}

const ORIGINAL_640_25: [f64; 25] = [
    1.0, 1.30469, 1.22656, 1.05469, 1.02344, 1.03906, 1.02344, 1.03906, 1.05469, 1.02344, 1.03906,
    0.99609, 1.02344, 1.03125, 1.01562, 1.02344, 1.00781, 1.03906, 0.98828, 1.0, 1.0, 0.98828,
    0.94531, 0.93359, 0.78516,
];

const ORIGINAL_640_50: [f64; 50] = [
    1.0, 1.28906, 1.0, 1.17188, 1.0625, 1.02344, 1.02344, 1.02344, 1.0, 1.04688, 0.99219, 1.00781,
    1.01562, 1.00781, 1.03125, 1.02344, 1.03125, 1.00781, 1.01562, 0.99219, 1.04688, 1.00781,
    0.98828, 1.01562, 1.00781, 1.01562, 1.01562, 1.00781, 1.00781, 1.00781, 1.01562, 1.00781, 1.0,
    1.03125, 1.01562, 0.97266, 1.01562, 1.01562, 0.98828, 1.01562, 0.98828, 0.98828, 1.0, 0.98438,
    0.95703, 0.95312, 0.97656, 0.91016, 0.85547, 0.76953,
];

const ORIGINAL_384_25: [f64; 25] = [
    1.0, 1.58594, 1.0625, 1.03906, 1.02344, 1.0625, 1.04688, 1.04688, 1.03125, 1.02344, 1.01562,
    1.00781, 1.01562, 1.01562, 0.99219, 1.07031, 0.96094, 0.96484, 1.03125, 0.96875, 0.94141,
    0.97266, 0.92188, 0.88672, 0.75,
];

const ORIGINAL_384_50: [f64; 50] = [
    1.0, 1.29688, 1.21875, 1.02344, 1.03906, 1.0, 1.03906, 1.00781, 1.02344, 1.05469, 1.00781,
    1.03125, 1.01562, 1.04688, 1.00781, 0.98828, 1.03906, 0.99609, 1.03125, 1.03125, 0.98438,
    1.01562, 0.99609, 1.01562, 1.0, 1.01562, 1.0, 1.01562, 0.98047, 1.02344, 1.04688, 0.97266,
    0.98828, 0.97656, 0.98828, 1.05469, 0.97656, 0.98828, 0.98047, 0.98438, 0.95703, 1.00781,
    0.96484, 0.97656, 0.94531, 0.94141, 0.94531, 0.875, 0.85547, 0.79688,
];

const F1_640_25: [f64; 25] = [
    1.0, 1.27344, 1.07031, 1.03906, 1.00781, 1.00781, 1.00781, 1.03125, 1.04688, 1.00781, 1.03125,
    0.99219, 1.01562, 1.01562, 1.01562, 1.00781, 0.98438, 1.05469, 0.98438, 0.96875, 1.03125,
    0.97266, 0.92578, 0.95703, 0.77734,
];

const F1_640_50: [f64; 50] = [
    1.0, 1.27344, 1.0, 1.07812, 1.01562, 1.0, 1.01562, 1.00781, 1.00781, 1.02344, 0.98828, 1.00781,
    1.00781, 1.00781, 1.02344, 1.01562, 1.03125, 1.0, 1.00781, 0.98047, 1.05469, 1.00781, 0.98047,
    1.01562, 1.0, 1.00781, 1.00781, 0.99609, 1.02344, 1.01562, 0.99609, 1.00781, 0.98047, 1.04688,
    1.00781, 0.95312, 1.03125, 0.99609, 0.97266, 1.02344, 1.00781, 0.95312, 1.02344, 0.98828,
    0.93359, 0.97656, 0.97656, 0.92188, 0.84375, 0.76953,
];

const F1_384_25: [f64; 25] = [
    1.0, 1.36719, 1.03125, 1.02344, 1.01562, 1.04688, 1.03125, 1.04688, 1.02344, 1.00781, 0.99609,
    1.01562, 0.99219, 1.00781, 0.97266, 1.07812, 0.95703, 0.9375, 1.04688, 0.98828, 0.89844,
    1.00781, 0.92188, 0.89844, 0.72656,
];

const F1_384_50: [f64; 50] = [
    1.0, 1.27344, 1.08594, 1.01562, 1.01562, 1.00781, 1.00781, 1.00781, 1.00781, 1.03906, 1.00781,
    1.02344, 1.00781, 1.03125, 1.01562, 0.98047, 1.04688, 0.98438, 1.02344, 1.02344, 0.97656,
    1.03125, 0.98828, 1.00781, 0.98828, 1.00781, 1.0, 0.99609, 0.97656, 1.03125, 1.04688, 0.97656,
    0.98047, 0.97266, 0.96094, 1.09375, 0.95703, 0.98438, 1.0, 0.96094, 0.93359, 1.03125, 0.97266,
    1.0, 0.92188, 0.93359, 0.96484, 0.85156, 0.84375, 0.79688,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(order: SectionOrder, side: u32, num_calls: usize) -> Vec<f64> {
        let magnitudes = measured(order, side, num_calls).magnitudes;
        magnitudes.expect("they were measured").ratios
    }

    #[test]
    fn a_table_is_taken_as_it_is_and_stretched_to_other_numbers_of_steps() {
        let order = SectionOrder::Original;
        assert_eq!(ratios(order, 640, 25), ORIGINAL_640_25);
        assert_eq!(ratios(order, 320, 50), ORIGINAL_384_50);
        let few = ratios(SectionOrder::F1, 640, 9);
        assert_eq!(few.len(), 9);
        assert_eq!((few[0], few[8]), (F1_640_25[0], F1_640_25[24]));
        assert_eq!(few[4].to_bits(), F1_640_25[12].to_bits());
        assert_eq!(ratios(order, 640, 1), [ORIGINAL_640_25[24]]);
        assert!(ratios(order, 640, 0).is_empty());
    }
}
