//! TaylorSeer: linear extrapolation of the last two computed predictions.
//!
//! After Liu and others 2025, <https://arxiv.org/abs/2503.06923>, in the lite mode of diffusers 0.42.1, which keeps
//! only the network's predictions. Needs no calibration.

use tch::Tensor;

/// Calls at the beginning that are all made.
const WARM_UP: usize = 3;
/// The highest power of the steps between.
const MAX_ORDER: usize = 1;

pub(super) struct TaylorSeer {
    /// One of `interval` calls is computed.
    interval: usize,
    /// The walk's first call.
    first: Option<usize>,
    /// The last call that was made, and its answer with its differences by a call.
    last: usize,
    factors: Vec<Tensor>,
}

impl TaylorSeer {
    pub(super) fn new(interval: usize) -> Self {
        Self {
            interval: interval.max(1),
            first: None,
            last: 0,
            factors: Vec::new(),
        }
    }

    /// Extrapolated prediction, if `call` is not to be computed.
    pub(super) fn answer(&self, call: usize) -> Option<Tensor> {
        let made = call - self.first?;
        let since_warm_up = made as i64 - WARM_UP as i64 - 1;
        let runs = made < WARM_UP || since_warm_up.rem_euclid(self.interval as i64) == 0;
        if runs {
            return None;
        }
        let ahead = (call - self.last) as f64;
        let mut coefficient = 1.0;
        let mut terms = (1..).zip(&self.factors).map(|(next, factor)| {
            let term = factor * coefficient;
            coefficient *= ahead / f64::from(next);
            term
        });
        let constant = terms.next()?;
        Some(terms.fold(constant, |sum, term| sum + term))
    }

    pub(super) fn keep(&mut self, call: usize, answer: &Tensor) {
        let first = *self.first.get_or_insert(call);
        let between = call.saturating_sub(self.last) as f64;
        let mut factors = vec![answer.copy()];
        // The first call, made once or again, has nothing to differ from.
        if call > first && between > 0.0 {
            for earlier in self.factors.iter().take(MAX_ORDER) {
                let difference = &factors[factors.len() - 1] - earlier;
                factors.push(difference / between);
            }
        }
        (self.last, self.factors) = (call, factors);
    }
}
