//! Step caches: calls of a network that need not run its blocks, because their residual has hardly changed, and calls
//! that are extrapolated from earlier predictions.
//!
//! One interface for four algorithms. Three of them skip blocks: each decides which calls, and the
//! residual of the last run is reused for all. Independent of the network: it passes numbers and tensors.

mod policies;
mod skip;

use std::cell::{Cell, RefCell};

use policies::{FirstBlock, MagCache, TaylorSeer, TeaCache};
use safelight_core::job::{StepCache as Choice, StepCacheKind};
use tch::{Kind, Tensor};

use crate::parallel::sum_over_ranks;

pub use policies::{MovementPolynomial, ResidualMagnitudes, stretched};
pub use skip::{BlockSkipper, ContextCaches, SkipOptions};

/// Inputs of the decision, each computed only if an algorithm uses it.
pub trait SkipSignals {
    /// Input of the first block after its norm and modulation.
    fn modulated(&self) -> Tensor;

    fn first_residual(&self) -> Tensor;
}

/// Decides call by call, in their order.
trait SkipPolicy {
    /// Returns whether `call`, which is neither the first nor the last, may skip the blocks.
    fn skips(&mut self, call: usize, signals: &dyn SkipSignals) -> bool;

    /// Observes the inputs of a call that runs in any case.
    fn notes(&mut self, _signals: &dyn SkipSignals) {}
}

/// Cached values of a network along one denoising loop, for one image or video and one guidance pass.
pub struct ContextCache {
    way: CacheStrategy,
    num_calls: usize,
    num_skipped: Cell<usize>,
    last_call: Cell<Option<usize>>,
}

enum CacheStrategy {
    /// Some calls leave out blocks.
    Blocks {
        policy: RefCell<Box<dyn SkipPolicy>>,
        runs_first: bool,
        residual: RefCell<Option<Tensor>>,
    },
    /// Some calls are not made.
    Answers(RefCell<TaylorSeer>),
}

/// The cache of a walk, and which call of it is made.
pub type CallCache<'a> = Option<(&'a ContextCache, usize)>;

/// Calibration of a model, for the algorithms that need it.
#[derive(Clone, Debug, Default)]
pub struct CacheCalibration {
    /// TeaCache's.
    pub polynomial: Option<MovementPolynomial>,
    /// MagCache's.
    pub magnitudes: Option<ResidualMagnitudes>,
}

impl ContextCache {
    /// For `num_calls` calls; `None` if the algorithm needs a calibration that the model lacks.
    pub fn new(choice: Choice, num_calls: usize, measured: CacheCalibration) -> Option<Self> {
        let threshold = choice.threshold;
        let policy: Box<dyn SkipPolicy> = match choice.kind {
            StepCacheKind::TeaCache => Box::new(TeaCache::new(threshold, measured.polynomial?)),
            StepCacheKind::MagCache => Box::new(MagCache::new(threshold, measured.magnitudes?)),
            StepCacheKind::FirstBlock => Box::new(FirstBlock::new(threshold)),
            StepCacheKind::TaylorSeer => {
                let taylor = TaylorSeer::new(choice.interval());
                return Some(Self::with_strategy(
                    CacheStrategy::Answers(taylor.into()),
                    num_calls,
                ));
            }
        };
        let way = CacheStrategy::Blocks {
            policy: policy.into(),
            runs_first: choice.kind == StepCacheKind::FirstBlock,
            residual: RefCell::default(),
        };
        Some(Self::with_strategy(way, num_calls))
    }

    fn with_strategy(way: CacheStrategy, num_calls: usize) -> Self {
        Self {
            way,
            num_calls,
            num_skipped: Cell::default(),
            last_call: Cell::default(),
        }
    }

    /// Returns whether calls may skip blocks.
    pub fn skips_blocks(&self) -> bool {
        matches!(self.way, CacheStrategy::Blocks { .. })
    }

    /// Returns whether the first block runs before [`Self::stand_in`] is called.
    pub fn runs_first_block(&self) -> bool {
        matches!(
            self.way,
            CacheStrategy::Blocks {
                runs_first: true,
                ..
            }
        )
    }

    /// Returns whether `call` must run: the first and the last one, and a repeated one, whose result could not be used.
    fn must_run(&self, call: usize) -> bool {
        let again = self.last_call.replace(Some(call)) == Some(call);
        again || call == 0 || call + 1 >= self.num_calls
    }

    /// Residual of the blocks (all, or those after the first); `None` if they must run, and then call [`Self::keep`].
    /// `call` counts from 0, in order; a repeated call runs.
    pub fn stand_in(&self, call: usize, signals: &dyn SkipSignals) -> Option<Tensor> {
        let CacheStrategy::Blocks {
            policy, residual, ..
        } = &self.way
        else {
            return None;
        };
        let (mut policy, residual) = (policy.borrow_mut(), residual.borrow());
        if self.must_run(call) || residual.is_none() {
            policy.notes(signals);
            return None;
        }
        if !policy.skips(call, signals) {
            return None;
        }
        self.num_skipped.set(self.num_skipped.get() + 1);
        residual.as_ref().map(Tensor::shallow_clone)
    }

    /// Stores the residual of the blocks, `after` minus `before`.
    pub fn keep(&self, before: &Tensor, after: &Tensor) {
        if let CacheStrategy::Blocks { residual, .. } = &self.way {
            residual.replace(Some(after - before));
        }
    }

    /// Prediction of `make` for `call`, or one extrapolated from earlier ones; `None` when cancelled.
    pub fn answer(&self, call: usize, make: impl FnOnce() -> Option<Tensor>) -> Option<Tensor> {
        let CacheStrategy::Answers(taylor) = &self.way else {
            return make();
        };
        let must_run = self.must_run(call);
        let mut taylor = taylor.borrow_mut();
        if !must_run && let Some(answer) = taylor.answer(call) {
            self.num_skipped.set(self.num_skipped.get() + 1);
            return Some(answer);
        }
        let answer = make()?;
        taylor.keep(call, &answer);
        Some(answer)
    }

    pub fn num_skipped(&self) -> usize {
        self.num_skipped.get()
    }
}

/// Mean absolute change from `before` to `now`, relative to `before`.
fn relative_change(now: &Tensor, before: &Tensor) -> f64 {
    // All ranks decide alike: each has its share of the tokens.
    let mean = |xs: Tensor| sum_over_ranks(xs.abs().mean(Kind::Float)).double_value(&[]);
    mean(now - before) / mean(before.shallow_clone()).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests;
