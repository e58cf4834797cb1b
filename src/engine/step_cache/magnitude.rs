//! MagCache: by how much the residual of all blocks is known to grow from step to step.
//!
//! After Ma and others 2025, <https://arxiv.org/abs/2506.09045>, with the limits that FramePack-Studio has chosen for
//! quality. Looks at no tensor.

use super::{Policy, Signals};

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 2;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.25;
/// A step whose residual changes more than this alone is made.
const MAX_CHANGE: f64 = 0.06;

pub(super) struct Magnitude {
    threshold: f64,
    ratios: Vec<f64>,
    /// Of the residual that stands in to the one that it stands in for.
    ratio: f64,
    off: f64,
    num_skipped: usize,
}

impl Magnitude {
    pub(super) fn new(threshold: f64, ratios: Vec<f64>) -> Self {
        Self {
            threshold,
            ratios,
            ratio: 1.0,
            off: 0.0,
            num_skipped: 0,
        }
    }
}

impl Policy for Magnitude {
    fn skips(&mut self, call: usize, _signals: &dyn Signals) -> bool {
        let retained = (RETAINED * self.ratios.len() as f64) as usize;
        let Some(&ratio) = self.ratios.get(call).filter(|_| call >= retained) else {
            return false;
        };
        self.ratio *= ratio;
        self.off += (1.0 - self.ratio).abs();
        self.num_skipped += 1;
        let skips = self.off < self.threshold
            && self.num_skipped <= MAX_SKIPS
            && (1.0 - ratio).abs() <= MAX_CHANGE;
        if !skips {
            (self.ratio, self.off, self.num_skipped) = (1.0, 0.0, 0);
        }
        skips
    }
}
