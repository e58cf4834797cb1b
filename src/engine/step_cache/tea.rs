//! TeaCache: by how far the modulated input of the first block has moved since the blocks last ran.
//!
//! After Liu and others 2024, <https://arxiv.org/abs/2411.19108>, with a polynomial that was measured of the model: it
//! turns movements of the input to movements of the output.

use tch::Tensor;

use super::{SkipPolicy, SkipSignals, relative_change};

/// Calibration of a model.
#[derive(Clone, Copy, Debug)]
pub struct MovementPolynomial {
    /// From movements of the input to those of the output, the highest power first.
    pub coefficients: [f64; 5],
    /// The first calls, which always run.
    pub retained: usize,
}

/// Of which only the first call must run.
impl From<[f64; 5]> for MovementPolynomial {
    fn from(coefficients: [f64; 5]) -> Self {
        Self {
            coefficients,
            retained: 1,
        }
    }
}

pub(super) struct TeaCache {
    threshold: f64,
    polynomial: MovementPolynomial,
    /// Summed since the blocks last ran.
    moved: f64,
    previous: Option<Tensor>,
}

impl TeaCache {
    pub(super) fn new(threshold: f64, polynomial: MovementPolynomial) -> Self {
        Self {
            threshold,
            polynomial,
            moved: 0.0,
            previous: None,
        }
    }
}

impl SkipPolicy for TeaCache {
    fn skips(&mut self, call: usize, signals: &dyn SkipSignals) -> bool {
        if call < self.polynomial.retained {
            self.notes(signals);
            return false;
        }
        let now = signals.modulated();
        let Some(previous) = self.previous.replace(now.shallow_clone()) else {
            return false;
        };
        let change = relative_change(&now, &previous);
        let coefficients = self.polynomial.coefficients.iter();
        self.moved += coefficients.fold(0.0, |sum, c| sum * change + c);
        let skips = self.moved < self.threshold;
        if !skips {
            self.moved = 0.0;
        }
        skips
    }

    fn notes(&mut self, signals: &dyn SkipSignals) {
        self.moved = 0.0;
        self.previous = Some(signals.modulated());
    }
}
