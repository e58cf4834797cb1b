//! Which calls of a network need not run its blocks, because what these add has hardly changed.
//!
//! One interface for three algorithms, a file each: what is skipped is theirs to say, what stands in is the same for
//! all: the residual that the blocks added when they last ran. Knows no network: it is given numbers and tensors of one.

mod first_block;
mod magnitude;
mod ratios;
mod tea;

use std::cell::{Cell, RefCell};

use safelight_core::job::{SectionOrder, StepCache as Choice, StepCacheKind};
use tch::{Kind, Tensor};

use first_block::FirstBlock;
use magnitude::Magnitude;
use tea::Tea;

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

/// What a network keeps from call to call along one walk, for one pass of its guidance.
pub struct StepCache {
    policy: RefCell<Box<dyn Policy>>,
    runs_first_block: bool,
    num_calls: usize,
    residual: RefCell<Option<Tensor>>,
    num_skipped: Cell<usize>,
    last_call: Cell<Option<usize>>,
}

/// What the algorithms' numbers were measured for.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub num_calls: usize,
    pub order: SectionOrder,
    pub side: u32,
}

impl StepCache {
    pub fn new(choice: Choice, walk: Walk) -> Self {
        let threshold = choice.threshold;
        let policy: Box<dyn Policy> = match choice.kind {
            StepCacheKind::TeaCache => Box::new(Tea::new(threshold)),
            StepCacheKind::MagCache => {
                let ratios = ratios::of_framepack(walk.order, walk.side, walk.num_calls);
                Box::new(Magnitude::new(threshold, ratios))
            }
            StepCacheKind::FirstBlock => Box::new(FirstBlock::new(threshold)),
        };
        Self {
            policy: RefCell::new(policy),
            runs_first_block: choice.kind == StepCacheKind::FirstBlock,
            num_calls: walk.num_calls,
            residual: RefCell::default(),
            num_skipped: Cell::default(),
            last_call: Cell::default(),
        }
    }

    /// Whether the first block runs before [`Self::stand_in`] is asked.
    pub fn runs_first_block(&self) -> bool {
        self.runs_first_block
    }

    /// What the blocks (all, or those behind the first) would add; `None` where they are to run, and then tell
    /// [`Self::keep`]. `call` counts from 0 along the walk, asked for in order; one that is asked for twice runs.
    pub fn stand_in(&self, call: usize, signals: &dyn Signals) -> Option<Tensor> {
        let mut policy = self.policy.borrow_mut();
        let residual = self.residual.borrow();
        // A call that is made again gave what could not be used.
        let again = self.last_call.replace(Some(call)) == Some(call);
        let must_run = again || call == 0 || call + 1 >= self.num_calls || residual.is_none();
        if must_run {
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
        self.residual.replace(Some(after - before));
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
