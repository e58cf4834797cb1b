//! Area of an outline: the covered part of each pixel of a row. Paints nothing.

use std::ops::Range;

/// Lines in a row at which the outline is cut.
const NUM_LINES: u16 = 4;

/// Covered part of the pixels of row `y` in these columns, 0 to 1, of what an outline surrounds.
pub(super) fn covered_row(corners: &[[f32; 2]], y: u32, columns: Range<usize>) -> Vec<f32> {
    let mut covered = vec![0.0; columns.len()];
    let mut crossings = Vec::new();
    for line in 0..NUM_LINES {
        let line = y as f32 + (f32::from(line) + 0.5) / f32::from(NUM_LINES);
        crossings.clear();
        let ends = corners.iter().cycle().skip(1);
        for (from, to) in corners.iter().zip(ends) {
            if (from[1] <= line) != (to[1] <= line) {
                let x = from[0] + (line - from[1]) / (to[1] - from[1]) * (to[0] - from[0]);
                crossings.push((x, if from[1] <= line { 1 } else { -1 }));
            }
        }
        crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut turns = 0;
        for pair in crossings.windows(2) {
            turns += pair[0].1;
            if turns != 0 {
                cover(&mut covered, columns.start as f32, pair[0].0, pair[1].0);
            }
        }
    }
    covered
}

/// Adds the part of one line between two places.
fn cover(covered: &mut [f32], start: f32, from: f32, to: f32) {
    let last = covered.len() as f32;
    let (from, to) = (
        (from - start).clamp(0.0, last),
        (to - start).clamp(0.0, last),
    );
    for at in from as usize..(to.ceil() as usize).min(covered.len()) {
        let part = to.min(at as f32 + 1.0) - from.max(at as f32);
        covered[at] += part / f32::from(NUM_LINES);
    }
}
