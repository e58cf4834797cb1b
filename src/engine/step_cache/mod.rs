//! Which calls of a network need not run its blocks, because what these add has hardly changed, and which need not be
//! made at all, because their answers follow from earlier ones.
//!
//! One interface for four algorithms, a file each. Three of them leave out blocks: what is left out is theirs to say,
//! what stands in is the same for all: the residual that the blocks added when they last ran. Knows no network: it is
//! given numbers and tensors of one.

mod first_block;
mod magnitude;
mod shortcut;
mod skip;
mod taylor;
mod tea;

use std::cell::{Cell, RefCell};

use safelight_core::job::{StepCache as Choice, StepCacheKind};
use tch::{Kind, Tensor};

use first_block::FirstBlock;
use magnitude::Magnitude;
use taylor::Taylor;
use tea::Tea;

pub use magnitude::{Magnitudes, stretched};
pub use shortcut::{ContextCaches, SkipOptions};
pub use skip::BlockSkipper;
pub use tea::Polynomial;

/// What a call can be told by, each made only where an algorithm looks at it.
pub trait Signals {
    /// What the first block reads behind its norm and modulation.
    fn modulated(&self) -> Tensor;

    /// What the first block adds.
    fn first_residual(&self) -> Tensor;
}

/// Decides call by call, in their order.
trait Policy {
    /// Whether `call`, which is neither the first nor the last, needs no blocks.
    fn skips(&mut self, call: usize, signals: &dyn Signals) -> bool;

    /// What [`Self::skips`] would have looked at, of a call that is made in any case.
    fn notes(&mut self, _signals: &dyn Signals) {}
}

/// What a network keeps from call to call along one walk, for one picture or clip and one pass of its guidance.
pub struct StepCache {
    way: Way,
    num_calls: usize,
    num_skipped: Cell<usize>,
    last_call: Cell<Option<usize>>,
}

enum Way {
    /// Some calls leave out blocks.
    Blocks {
        policy: RefCell<Box<dyn Policy>>,
        runs_first: bool,
        residual: RefCell<Option<Tensor>>,
    },
    /// Some calls are not made.
    Answers(RefCell<Taylor>),
}

/// The cache of a walk, and which call of it is made.
pub type CallCache<'a> = Option<(&'a StepCache, usize)>;

/// What was measured of a model, for the algorithms that need it.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// TeaCache's.
    pub polynomial: Option<Polynomial>,
    /// MagCache's.
    pub magnitudes: Option<Magnitudes>,
}

impl StepCache {
    /// For a walk of so many calls; `None` where the algorithm needs what was not measured.
    pub fn new(choice: Choice, num_calls: usize, measured: Measured) -> Option<Self> {
        let threshold = choice.threshold;
        let policy: Box<dyn Policy> = match choice.kind {
            StepCacheKind::TeaCache => Box::new(Tea::new(threshold, measured.polynomial?)),
            StepCacheKind::MagCache => Box::new(Magnitude::new(threshold, measured.magnitudes?)),
            StepCacheKind::FirstBlock => Box::new(FirstBlock::new(threshold)),
            StepCacheKind::TaylorSeer => {
                let taylor = Taylor::new(choice.interval());
                return Some(Self::of(Way::Answers(taylor.into()), num_calls));
            }
        };
        let way = Way::Blocks {
            policy: policy.into(),
            runs_first: choice.kind == StepCacheKind::FirstBlock,
            residual: RefCell::default(),
        };
        Some(Self::of(way, num_calls))
    }

    fn of(way: Way, num_calls: usize) -> Self {
        Self {
            way,
            num_calls,
            num_skipped: Cell::default(),
            last_call: Cell::default(),
        }
    }

    /// Whether calls are made that leave out blocks.
    pub fn skips_blocks(&self) -> bool {
        matches!(self.way, Way::Blocks { .. })
    }

    /// Whether the first block runs before [`Self::stand_in`] is asked.
    pub fn runs_first_block(&self) -> bool {
        matches!(
            self.way,
            Way::Blocks {
                runs_first: true,
                ..
            }
        )
    }

    /// Whether `call` must be made in any case: the first and the last one, and one that is made again, as it gave what
    /// could not be used.
    fn must_run(&self, call: usize) -> bool {
        let again = self.last_call.replace(Some(call)) == Some(call);
        again || call == 0 || call + 1 >= self.num_calls
    }

    /// What the blocks (all, or those behind the first) would add; `None` where they are to run, and then tell
    /// [`Self::keep`]. `call` counts from 0 along the walk, asked for in order; one that is asked for twice runs.
    pub fn stand_in(&self, call: usize, signals: &dyn Signals) -> Option<Tensor> {
        let Way::Blocks {
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

    /// What the blocks added, `after` less `before`.
    pub fn keep(&self, before: &Tensor, after: &Tensor) {
        if let Way::Blocks { residual, .. } = &self.way {
            residual.replace(Some(after - before));
        }
    }

    /// What `make` answers to `call`, or what follows of earlier answers; `None` when cancelled.
    pub fn answer(&self, call: usize, make: impl FnOnce() -> Option<Tensor>) -> Option<Tensor> {
        let Way::Answers(taylor) = &self.way else {
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

/// How far `now` is from `before`, in the mean and relative to it.
fn relative_change(now: &Tensor, before: &Tensor) -> f64 {
    let mean = |xs: Tensor| xs.abs().mean(Kind::Float).double_value(&[]);
    mean(now - before) / mean(before.shallow_clone()).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests;
