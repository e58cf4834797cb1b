//! The four pixels that one becomes, put where they belong together with a shortcut.

use std::ops::Range;

use crate::SharedRows;
use crate::vectors::{InRanges, RangeWork, vectorized_range};

/// The four pixels that one becomes.
pub const CORNERS: usize = 4;

/// Items are rows of all frames before doubling.
pub struct CornerPlacing<'a> {
    /// `(T, H + 1, W + 1, corners · outputs)`
    pub corners: &'a [f32],
    /// `(T, 2H, 2W, outputs)`
    pub doubled: SharedRows<'a>,
    /// The frames that the shortcut begins from: `(T', H, W, inputs)`
    pub before: &'a [f32],
    /// For each place in a cube of `time` × 2 × 2 pixels, which channel each output takes.
    pub sources: Vec<Vec<usize>>,
    /// Frames that one of `before` becomes.
    pub time: usize,
    /// Number of the first ones that are left out.
    pub skipped: usize,
    pub height: usize,
    pub width: usize,
    pub outputs: usize,
    pub inputs: usize,
}

impl InRanges for CornerPlacing<'_> {
    #[expect(unsafe_code, reason = "as the trait's")]
    unsafe fn run(&self, range: Range<usize>) {
        vectorized_range(self, range);
    }
}

impl RangeWork for CornerPlacing<'_> {
    #[inline(always)]
    fn run_range<const FUSED: bool>(&self, rows: Range<usize>) {
        for row in rows {
            self.row(row);
        }
    }
}

impl CornerPlacing<'_> {
    /// `row` counts the rows of all frames before doubling.
    #[expect(
        unsafe_code,
        reason = "threads write to different rows of the same tensor"
    )]
    #[inline(always)]
    fn row(&self, row: usize) {
        let (frame, y) = (row / self.height, row % self.height);
        let (before, instant) = {
            let moment = frame + self.skipped;
            (moment / self.time, moment % self.time)
        };
        let before = &self.before[(before * self.height + y) * self.width * self.inputs..];
        for corner in 0..CORNERS {
            let (down, right) = (corner / 2, corner % 2);
            let sources = &self.sources[instant * CORNERS + corner];
            let start = ((frame * (self.height + 1) + y + down) * (self.width + 1) + right)
                * CORNERS
                + corner;
            let corners = &self.corners[start * self.outputs..];
            let line = (frame * self.height + y) * 2 + down;
            for x in 0..self.width {
                let out = (line * self.width + x) * 2 + right;
                // SAFETY: each pixel of the doubled frames is written here alone.
                let out = unsafe { self.doubled.row(out * self.outputs, self.outputs) };
                let corner = &corners[x * CORNERS * self.outputs..][..self.outputs];
                let before = &before[x * self.inputs..][..self.inputs];
                self.add_shortcut(out, corner, before, sources);
            }
        }
    }

    /// `out` = `corner` + the channels of `before` that `sources` names.
    #[inline(always)]
    fn add_shortcut(&self, out: &mut [f32], corner: &[f32], before: &[f32], sources: &[usize]) {
        let sums = out.iter_mut().zip(corner);
        // The two usual cases in a form that becomes vector code.
        if self.inputs == self.outputs {
            for ((out, corner), before) in sums.zip(before) {
                *out = corner + before;
            }
        } else if self.inputs == 2 * self.outputs {
            let second = sources[0] == 1;
            for ((out, corner), pair) in sums.zip(before.chunks_exact(2)) {
                *out = corner + if second { pair[1] } else { pair[0] };
            }
        } else {
            for ((out, corner), &source) in sums.zip(sources) {
                *out = corner + before[source];
            }
        }
    }
}
