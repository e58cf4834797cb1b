//! TeaCache: by how far the modulated input of the first block has moved since the blocks last ran.
//!
//! After Liu and others 2024, <https://arxiv.org/abs/2411.19108>, with a polynomial that was measured of the model: it
//! turns movements of the input to movements of the output.

use tch::Tensor;

use super::{Policy, Signals, relative_change};

pub(super) struct Tea {
    threshold: f64,
    /// The highest power first.
    polynomial: [f64; 5],
    /// Summed since the blocks last ran.
    moved: f64,
    previous: Option<Tensor>,
}

impl Tea {
    pub(super) fn new(threshold: f64, polynomial: [f64; 5]) -> Self {
        Self {
            threshold,
            polynomial,
            moved: 0.0,
            previous: None,
        }
    }
}

impl Policy for Tea {
    fn skips(&mut self, _call: usize, signals: &dyn Signals) -> bool {
        let now = signals.modulated();
        let Some(previous) = self.previous.replace(now.shallow_clone()) else {
            return false;
        };
        let change = relative_change(&now, &previous);
        self.moved += self.polynomial.iter().fold(0.0, |sum, c| sum * change + c);
        let skips = self.moved < self.threshold;
        if !skips {
            self.moved = 0.0;
        }
        skips
    }

    fn notes(&mut self, signals: &dyn Signals) {
        self.moved = 0.0;
        self.previous = Some(signals.modulated());
    }
}
