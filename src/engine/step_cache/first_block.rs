//! By how far what the first block adds has moved since all blocks last ran; that block itself always runs.
//!
//! Needs no numbers of a model. After the first-block cache of ParaAttention,
//! <https://github.com/chengzeyi/ParaAttention/blob/main/doc/fastest_hunyuan_video.md>.

use tch::Tensor;

use super::{SkipPolicy, SkipSignals, relative_change};

pub(super) struct FirstBlock {
    threshold: f64,
    /// Of the call in which all blocks last ran.
    last_run: Option<Tensor>,
}

impl FirstBlock {
    pub(super) fn new(threshold: f64) -> Self {
        Self {
            threshold,
            last_run: None,
        }
    }
}

impl SkipPolicy for FirstBlock {
    fn skips(&mut self, _call: usize, signals: &dyn SkipSignals) -> bool {
        let now = signals.first_residual();
        let skips = self
            .last_run
            .as_ref()
            .is_some_and(|last| relative_change(&now, last) < self.threshold);
        if !skips {
            self.last_run = Some(now);
        }
        skips
    }

    fn notes(&mut self, signals: &dyn SkipSignals) {
        self.last_run = Some(signals.first_residual());
    }
}
