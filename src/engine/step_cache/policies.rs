//! The algorithms of step caches.

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

/// By how far the modulated input of the first block has moved since the blocks last ran. After Liu and others 2024,
/// <https://arxiv.org/abs/2411.19108>, with a polynomial that was measured of the model.
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

impl ResidualMagnitudes {
    /// Ratios measured with another number of calls; `retained`: the share of the calls, the first ones, that always run.
    pub fn of(table: &[f64], num_calls: usize, max_skips: usize, retained: f64) -> Self {
        Self {
            ratios: stretched(table, num_calls),
            max_skips,
            retained: (retained * num_calls as f64) as usize,
            max_change: f64::INFINITY,
        }
    }
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

/// By how much the residual of all blocks is known to grow from step to step. After Ma and others 2025,
/// <https://arxiv.org/abs/2506.09045>.
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

/// By how far what the first block adds, which always runs, has moved since all blocks last ran. After the first-block cache
/// of ParaAttention, <https://github.com/chengzeyi/ParaAttention/blob/main/doc/fastest_hunyuan_video.md>.
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

/// Calls at the beginning that are all made.
const WARM_UP: usize = 3;
/// The highest power of the steps between.
const MAX_ORDER: usize = 1;

/// Linear extrapolation of the last two computed predictions. After Liu and others 2025,
/// <https://arxiv.org/abs/2503.06923>, in the lite mode of diffusers 0.42.1, which keeps only the network's predictions.
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
