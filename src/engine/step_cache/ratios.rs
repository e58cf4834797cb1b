//! How much larger the residual of FramePack's whole stack of blocks is than that of the step before, as others have
//! measured it once.
//!
//! Numbers of <https://github.com/FP-Studio/FramePack-Studio/blob/main/diffusers_helper/models/mag_cache_ratios.py>
//! (seed 31337, default settings), of which those for sizes of 512 to 768 differ by 0.03 at the most. Nothing is
//! computed here but the choice among them.

use safelight_core::job::SectionOrder;

/// The ratio of every step to the one before; the first has none and is 1.
///
/// `side`: mean of width and height in pixels; `num_steps`: taken from the table that is closest.
pub(super) fn of_framepack(order: SectionOrder, side: u32, num_steps: usize) -> Vec<f64> {
    let is_small = side < 448;
    let is_long = num_steps > 37;
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
    let last = table.len() - 1;
    let place = |step: usize| match num_steps {
        0 | 1 => last,
        _ => (step * last + (num_steps - 1) / 2) / (num_steps - 1),
    };
    (0..num_steps).map(|step| table[place(step)]).collect()
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

    #[test]
    fn a_table_is_taken_as_it_is_and_stretched_to_other_numbers_of_steps() {
        let order = SectionOrder::Original;
        assert_eq!(of_framepack(order, 640, 25), ORIGINAL_640_25);
        assert_eq!(of_framepack(order, 320, 50), ORIGINAL_384_50);
        let few = of_framepack(SectionOrder::F1, 640, 9);
        assert_eq!(few.len(), 9);
        assert_eq!((few[0], few[8]), (F1_640_25[0], F1_640_25[24]));
        assert_eq!(few[4].to_bits(), F1_640_25[12].to_bits());
        assert_eq!(of_framepack(order, 640, 1), [ORIGINAL_640_25[24]]);
        assert!(of_framepack(order, 640, 0).is_empty());
    }
}
