//! Published step cache calibration of FLUX.1 dev.
//!
//! The polynomial is from TeaCache4FLUX, <https://github.com/ali-vilab/TeaCache>; the ratios and limits are from
//! diffusers 0.42.1 (`hooks/mag_cache.py`), by <https://github.com/Zehong-Ma/MagCache>.

use crate::step_cache::{CacheCalibration, ResidualMagnitudes, stretched};

/// Highest power first.
const POLYNOMIAL: [f64; 5] = [
    498.651_651,
    -283.781_631,
    55.855_438_2,
    -3.820_214_01,
    0.264_230_861,
];

/// Ratio of the residual of all blocks to that of the previous step, in 28 steps.
const RATIOS: [f64; 28] = [
    1.0, 1.21094, 1.11719, 1.07812, 1.0625, 1.03906, 1.03125, 1.03906, 1.02344, 1.03125, 1.02344,
    0.98047, 1.01562, 1.00781, 1.0, 1.00781, 1.0, 1.00781, 1.0, 1.0, 0.99609, 0.99609, 0.98047,
    0.98828, 0.96484, 0.95703, 0.93359, 0.89062,
];

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 3;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.2;

pub(super) fn measured(num_calls: usize) -> CacheCalibration {
    CacheCalibration {
        polynomial: Some(POLYNOMIAL.into()),
        magnitudes: Some(ResidualMagnitudes {
            ratios: stretched(&RATIOS, num_calls),
            max_skips: MAX_SKIPS,
            retained: (RETAINED * num_calls as f64).round() as usize,
            max_change: f64::INFINITY,
        }),
    }
}
