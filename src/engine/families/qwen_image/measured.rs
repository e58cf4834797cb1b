//! Published step cache calibration of Qwen-Image and Qwen-Image-Edit.
//!
//! The ratios and limits are from MagCache4QwenImage and MagCache4QwenImageEdit,
//! <https://github.com/Zehong-Ma/MagCache> (commit df81cb1), for the first models of both kinds; of its two values per
//! step, which hardly differ, the prompt's.

use crate::step_cache::{CacheCalibration, ResidualMagnitudes, stretched};

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 2;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.2;

/// `edits`: whether reference pictures are seen.
pub(super) fn measured(edits: bool, num_calls: usize) -> CacheCalibration {
    let table = if edits { &EDIT_RATIOS } else { &RATIOS };
    CacheCalibration {
        polynomial: None,
        magnitudes: Some(ResidualMagnitudes {
            ratios: stretched(table, num_calls),
            max_skips: MAX_SKIPS,
            retained: (RETAINED * num_calls as f64) as usize,
            max_change: f64::INFINITY,
        }),
    }
}

/// Qwen-Image, 50 steps.
const RATIOS: [f64; 50] = [
    1.0, 1.64062, 1.45312, 1.1875, 1.17188, 1.05469, 1.21094, 1.10938, 1.11719, 1.13281, 1.11719,
    1.07812, 1.07031, 1.08594, 1.08594, 1.07812, 1.03906, 1.04688, 1.07812, 1.07031, 1.03125,
    1.07812, 1.04688, 1.04688, 1.04688, 1.03906, 1.01562, 1.03125, 1.02344, 1.02344, 1.02344,
    1.03906, 1.0, 1.01562, 1.0, 0.99219, 1.00781, 0.98047, 0.95703, 0.96875, 0.99219, 0.92578,
    0.92578, 0.90625, 0.85938, 0.80469, 0.87891, 0.75, 0.60938, 0.55078,
];

/// Qwen-Image-Edit, 50 steps.
const EDIT_RATIOS: [f64; 50] = [
    1.0, 1.41406, 1.09375, 1.3125, 1.20312, 1.0625, 1.125, 1.14062, 1.17969, 1.09375, 1.10938,
    1.10938, 1.07031, 1.04688, 1.09375, 1.03906, 1.0625, 1.04688, 1.0625, 1.04688, 1.07031,
    1.03125, 1.03906, 1.03906, 1.02344, 1.01562, 1.03125, 1.00781, 1.01562, 1.00781, 1.01562, 1.0,
    1.0, 0.98828, 0.98047, 0.98047, 0.97266, 0.92578, 0.94922, 0.98438, 0.89844, 0.91797, 0.92188,
    0.84375, 0.82812, 0.78516, 0.87891, 0.71094, 0.56641, 0.50781,
];
