//! MagCache: by how much the residual of all blocks is known to grow from step to step.
//!
//! After Ma and others 2025, <https://arxiv.org/abs/2506.09045>. Looks at no tensor.

use super::{SkipPolicy, SkipSignals};

/// Calibration of a model's residuals, and the tolerated error.
#[derive(Clone, Debug)]
pub struct ResidualMagnitudes {
    /// Of every call's residual to that of the one before; the first has none and is 1.
    pub ratios: Vec<f64>,
    /// Calls that may be skipped one after the other.
    pub max_skips: usize,
    /// The first calls, which always run.
    pub retained: usize,
    /// A call whose residual changes more than this alone is made.
    pub max_change: f64,
}

/// A table that was measured with another number of calls, with the nearest of its numbers for each of `num_calls`.
pub fn stretched(table: &[f64], num_calls: usize) -> Vec<f64> {
    let last = table.len().saturating_sub(1);
    let place = |call: usize| match num_calls {
        0 | 1 => last,
        _ => {
            let place = call as f64 * last as f64 / (num_calls - 1) as f64;
            place.round_ties_even() as usize
        }
    };
    let calls = 0..num_calls;
    calls
        .filter_map(|call| table.get(place(call)).copied())
        .collect()
}

pub(super) struct MagCache {
    threshold: f64,
    measured: ResidualMagnitudes,
    /// Ratio of the reused residual to the one that it replaces.
    ratio: f64,
    off: f64,
    num_skipped: usize,
}

impl MagCache {
    pub(super) fn new(threshold: f64, measured: ResidualMagnitudes) -> Self {
        Self {
            threshold,
            measured,
            ratio: 1.0,
            off: 0.0,
            num_skipped: 0,
        }
    }
}

impl SkipPolicy for MagCache {
    fn skips(&mut self, call: usize, _signals: &dyn SkipSignals) -> bool {
        let ratio = self.measured.ratios.get(call);
        let Some(&ratio) = ratio.filter(|_| call >= self.measured.retained) else {
            return false;
        };
        self.ratio *= ratio;
        self.off += (1.0 - self.ratio).abs();
        self.num_skipped += 1;
        let skips = self.off < self.threshold
            && self.num_skipped <= self.measured.max_skips
            && (1.0 - ratio).abs() <= self.measured.max_change;
        if !skips {
            (self.ratio, self.off, self.num_skipped) = (1.0, 0.0, 0);
        }
        skips
    }
}
