//! Published step cache calibration of Wan.
//!
//! The polynomials are from TeaCache4Wan2.1, <https://github.com/ali-vilab/TeaCache> (commit 7c10efc), in the form with
//! retained steps (`use_ret_steps`), which its authors recommend for all but T2V 1.3B. The ratios and limits are from
//! MagCache4Wan2.1 and MagCache4Wan2.2, <https://github.com/Zehong-Ma/MagCache> (commit df81cb1); of its two values per
//! step, for the prompt and for the negative prompt, the prompt's, from which the other differs by 0.01 at most, and
//! only in the first steps, which always run. Only the choice among them is computed here.

use safelight_core::networks::WanTransformerConfig;

use crate::step_cache::{CacheCalibration, MovementPolynomial, ResidualMagnitudes};

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 2;
/// The shares of the calls, the first ones, that always run: of one transformer, and of each expert of T2V A14B and of the
/// low-noise expert of I2V A14B, whose other one makes all of its calls.
const RETAINED: f64 = 0.2;
const RETAINED_T2V_EXPERT: f64 = 0.4;
const RETAINED_I2V_EXPERT: f64 = 0.1;
/// Calls that always run in TeaCache's form with retained steps.
const RETAINED_BY_TEA: usize = 5;
/// Pixels per frame from which the calibration of 720P is nearer than that of 480P.
const LARGE: i64 = 640 * 960;
/// Narrower transformers are T2V 1.3B.
const NARROW: i64 = 2048;

/// Properties of a job that decide its calibration.
#[derive(Clone, Copy, Debug)]
pub(super) struct CalibrationKey {
    /// Calls of the whole schedule.
    pub num_calls: usize,
    /// The part that each of two experts answers: the first call of the low-noise one, and whether this is that one.
    pub expert: Option<(usize, bool)>,
    /// True if the first frame is given and its latents replace noise (TI2V); `None` for other models.
    pub given_frame: Option<bool>,
    /// Pixels of a frame.
    pub pixels: i64,
}

/// Calibration of the nearest published model.
pub(super) fn measured(config: &WanTransformerConfig, walk: CalibrationKey) -> CacheCalibration {
    let takes_images = config.condition_channels() > 0;
    let is_large = walk.pixels >= LARGE;
    let table: &[f64] = match (walk.expert, walk.given_frame, takes_images) {
        (Some(_), _, false) => &T2V_A14B,
        (Some(_), _, true) => &I2V_A14B,
        (None, Some(false), _) => &TI2V_TEXT,
        (None, Some(true), _) => &TI2V_IMAGE,
        (None, None, true) if is_large => &I2V_720P,
        (None, None, true) => &I2V_480P,
        (None, None, false) if config.dim() < NARROW => &T2V_1_3B,
        (None, None, false) => &T2V_14B,
    };
    let one_of_its_own = walk.expert.is_none() && walk.given_frame.is_none();
    CacheCalibration {
        polynomial: one_of_its_own.then(|| polynomial(config, is_large)),
        magnitudes: Some(ResidualMagnitudes {
            retained: retained(walk, takes_images),
            ..ResidualMagnitudes::of(table, walk.num_calls, MAX_SKIPS, RETAINED)
        }),
    }
}

/// Calls of the whole schedule before which an expert always runs.
fn retained(walk: CalibrationKey, takes_images: bool) -> usize {
    let share = |count: usize, share: f64| (count as f64 * share) as usize;
    let Some((switch, is_low)) = walk.expert else {
        return share(walk.num_calls, RETAINED);
    };
    let low = walk.num_calls.saturating_sub(switch);
    match (is_low, takes_images) {
        (false, true) => switch,
        (false, false) => share(switch, RETAINED_T2V_EXPERT),
        (true, true) => switch + share(low, RETAINED_I2V_EXPERT),
        (true, false) => switch + share(low, RETAINED_T2V_EXPERT) + 1,
    }
}

/// Returns whether the signal is the blocks' modulation rather than the timestep's embedding before it.
pub(super) fn signal_is_modulation(config: &WanTransformerConfig) -> bool {
    config.condition_channels() > 0 || config.dim() >= NARROW
}

fn polynomial(config: &WanTransformerConfig, is_large: bool) -> MovementPolynomial {
    let takes_images = config.condition_channels() > 0;
    let coefficients = match (takes_images, is_large) {
        (true, true) => [
            8107.0546,
            2133.93892,
            -372.934672,
            16.6203073,
            -0.0417769401,
        ],
        (true, false) => [
            257_151.496,
            -35422.9917,
            1402.86849,
            -13.5890334,
            0.132517977,
        ],
        (false, _) if signal_is_modulation(config) => [
            -303_318.725,
            49053.7029,
            -2655.30556,
            58.7365115,
            -0.315583525,
        ],
        // The one without retained steps.
        (false, _) => [
            2396.76752,
            -1311.10545,
            201.331979,
            -8.29855975,
            0.137887774,
        ],
    };
    MovementPolynomial {
        coefficients,
        retained: if signal_is_modulation(config) {
            RETAINED_BY_TEA
        } else {
            1
        },
    }
}

/// Wan 2.1 T2V 1.3B, 50 steps.
const T2V_1_3B: [f64; 50] = [
    1.0, 1.0124, 1.00166, 0.99791, 0.99682, 0.99634, 0.99567, 0.99416, 0.99578, 0.9957, 0.99511,
    0.99535, 0.99552, 0.99541, 0.9954, 0.99489, 0.99518, 0.99484, 0.99481, 0.99415, 0.99419,
    0.99396, 0.99388, 0.99349, 0.99309, 0.9927, 0.99228, 0.99171, 0.99137, 0.99068, 0.99005,
    0.98944, 0.98849, 0.98758, 0.98644, 0.98504, 0.9836, 0.98202, 0.97977, 0.97717, 0.9741,
    0.97003, 0.96538, 0.9593, 0.95086, 0.94013, 0.92402, 0.90241, 0.86821, 0.81838,
];

/// Wan 2.1 T2V 14B, 50 steps.
const T2V_14B: [f64; 50] = [
    1.0, 1.02504, 1.00025, 0.9985, 0.99779, 0.9966, 0.99482, 0.99467, 0.99664, 0.99434, 0.99533,
    0.99468, 0.99438, 0.99516, 0.99384, 0.99404, 0.99517, 0.99409, 0.99428, 0.99347, 0.99418,
    0.99271, 0.99313, 0.99215, 0.99218, 0.99216, 0.99163, 0.99138, 0.98982, 0.98996, 0.9887,
    0.98772, 0.98767, 0.98573, 0.98501, 0.9838, 0.98177, 0.98037, 0.97678, 0.97546, 0.97184,
    0.96711, 0.96349, 0.95629, 0.94926, 0.93964, 0.92511, 0.90693, 0.8796, 0.86111,
];

/// Wan 2.1 I2V 14B 480P, 40 steps.
const I2V_480P: [f64; 40] = [
    1.0, 0.98783, 0.97559, 0.98311, 0.98202, 0.9888, 0.98762, 0.98957, 0.99052, 0.99383, 0.98857,
    0.99065, 0.98845, 0.99057, 0.98957, 0.98601, 0.98823, 0.98756, 0.98808, 0.98721, 0.98571,
    0.98543, 0.98157, 0.98411, 0.97952, 0.98149, 0.9774, 0.97825, 0.97355, 0.97085, 0.97056,
    0.96588, 0.96113, 0.9567, 0.94961, 0.93973, 0.93217, 0.91878, 0.90955, 0.92617,
];

/// Wan 2.1 I2V 14B 720P, 40 steps.
const I2V_720P: [f64; 40] = [
    1.0, 0.99428, 0.98588, 0.98273, 0.99018, 0.98911, 0.98646, 0.99454, 0.9891, 0.99124, 0.99102,
    0.99215, 0.99515, 0.99576, 0.99068, 0.99097, 0.99166, 0.99041, 0.99201, 0.99101, 0.98599,
    0.98845, 0.98848, 0.98862, 0.98718, 0.98497, 0.98264, 0.98389, 0.97938, 0.97535, 0.97498,
    0.973, 0.96827, 0.96261, 0.95335, 0.94649, 0.93397, 0.91636, 0.89088, 0.8679,
];

/// Wan 2.2 T2V A14B, 40 steps of both experts.
const T2V_A14B: [f64; 40] = [
    1.0, 1.00124, 0.99822, 0.99696, 0.99703, 0.9966, 0.99602, 0.99578, 0.99484, 0.99633, 0.99659,
    0.99534, 0.99584, 0.99681, 0.99563, 0.9944, 0.99594, 0.99466, 0.99453, 0.99389, 0.99391,
    0.99354, 0.99283, 0.99268, 0.99057, 0.99125, 0.65523, 0.98808, 0.98765, 0.9851, 0.98311,
    0.9805, 0.97776, 0.97278, 0.96731, 0.95857, 0.94385, 0.92118, 0.88108, 0.80263,
];

/// Wan 2.2 I2V A14B, 40 steps of both experts.
const I2V_A14B: [f64; 40] = [
    1.0, 0.99191, 0.99356, 0.99326, 0.99251, 0.99393, 0.9943, 0.99276, 0.99389, 0.99274, 0.99316,
    0.99379, 0.99268, 0.99222, 0.99175, 0.91076, 0.98931, 0.99087, 0.98852, 0.98895, 0.98806,
    0.9871, 0.98613, 0.98434, 0.983, 0.98185, 0.98131, 0.9783, 0.97619, 0.97264, 0.97088, 0.96568,
    0.96045, 0.95322, 0.94579, 0.93297, 0.91699, 0.89174, 0.8541, 0.79823,
];

/// Wan 2.2 TI2V 5B from text, 50 steps.
const TI2V_TEXT: [f64; 50] = [
    1.0, 0.99505, 0.99441, 0.99558, 0.99499, 0.99534, 0.99468, 0.99463, 0.9946, 0.99408, 0.9945,
    0.99409, 0.99403, 0.99382, 0.99349, 0.99377, 0.9933, 0.99303, 0.99217, 0.992, 0.99201, 0.99133,
    0.99112, 0.99155, 0.98958, 0.98959, 0.98838, 0.98826, 0.9883, 0.98711, 0.98562, 0.98511,
    0.98414, 0.98284, 0.98104, 0.97981, 0.97849, 0.97557, 0.97398, 0.97171, 0.96917, 0.96511,
    0.96263, 0.95839, 0.95483, 0.94942, 0.9468, 0.94583, 0.94843, 0.96949,
];

/// Wan 2.2 TI2V 5B from an image, 50 steps.
const TI2V_IMAGE: [f64; 50] = [
    1.0, 0.99512, 0.99559, 0.99595, 0.99512, 0.99546, 0.99543, 0.99496, 0.99504, 0.99444, 0.99481,
    0.99435, 0.9943, 0.99411, 0.99373, 0.99413, 0.99363, 0.99335, 0.99244, 0.99229, 0.99239,
    0.99163, 0.99149, 0.99191, 0.9898, 0.9899, 0.98849, 0.98846, 0.98861, 0.9874, 0.98588, 0.98539,
    0.98444, 0.9831, 0.98119, 0.98001, 0.97862, 0.97555, 0.97392, 0.97152, 0.96871, 0.96435,
    0.96129, 0.95639, 0.95176, 0.94446, 0.93972, 0.93575, 0.93537, 0.96655,
];

#[cfg(test)]
mod tests {
    use safelight_core::networks::WanTransformerConfig;
    use serde_json::json;

    use super::*;

    fn config(heads: i64, input: i64) -> WanTransformerConfig {
        let config = json!({
            "num_attention_heads": heads, "attention_head_dim": 128, "in_channels": input,
            "out_channels": 16, "ffn_dim": 8960, "num_layers": 30, "text_dim": 4096,
        });
        serde_json::from_value(config).expect("all else has defaults")
    }

    fn walk(num_calls: usize) -> CalibrationKey {
        CalibrationKey {
            num_calls,
            expert: None,
            given_frame: None,
            pixels: 832 * 480,
        }
    }

    fn magnitudes(config: &WanTransformerConfig, walk: CalibrationKey) -> ResidualMagnitudes {
        let magnitudes = measured(config, walk).magnitudes;
        magnitudes.expect("every model has some")
    }

    #[test]
    fn each_published_model_has_its_own_numbers() {
        let [narrow, wide, images] = [config(12, 16), config(40, 16), config(40, 36)];
        assert_eq!(magnitudes(&narrow, walk(50)).ratios, T2V_1_3B);
        assert_eq!(magnitudes(&wide, walk(50)).ratios, T2V_14B);
        assert_eq!(magnitudes(&images, walk(40)).ratios, I2V_480P);
        let large = CalibrationKey {
            pixels: 1280 * 720,
            ..walk(40)
        };
        assert_eq!(magnitudes(&images, large).ratios, I2V_720P);
        let tea = |config: &WanTransformerConfig, walk| {
            let polynomial = measured(config, walk).polynomial.expect("it was measured");
            (polynomial.coefficients[4], polynomial.retained)
        };
        assert_eq!(tea(&narrow, walk(50)), (0.137887774, 1));
        assert_eq!(tea(&wide, walk(50)), (-0.315583525, 5));
        assert_eq!(tea(&images, walk(40)), (0.132517977, 5));
        assert_eq!(tea(&images, large), (-0.0417769401, 5));
        for (given, table) in [(false, &TI2V_TEXT), (true, &TI2V_IMAGE)] {
            let walk = CalibrationKey {
                given_frame: Some(given),
                ..walk(50)
            };
            assert_eq!(&magnitudes(&wide, walk).ratios, table);
            assert!(measured(&wide, walk).polynomial.is_none());
        }
    }

    #[test]
    fn magcache_retains_the_first_calls_of_each_wan_expert() {
        for (input, expected) in [(16, [4, 23]), (36, [10, 13])] {
            let found = [false, true].map(|is_low| {
                let walk = CalibrationKey {
                    expert: Some((10, is_low)),
                    ..walk(40)
                };
                magnitudes(&config(40, input), walk).retained
            });
            // Of ten and of thirty calls: 0.4 each, with one more behind the switch; or all of ten, and 0.1.
            assert_eq!(found, expected);
        }
    }
}
