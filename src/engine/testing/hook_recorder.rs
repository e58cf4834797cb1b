//! Hooks that record the reports of a loop.

use std::cell::{Cell, RefCell};

use tch::Tensor;

use crate::hooks::{DenoiseState, Hooks};

/// Recorder of all reports, which may cancel the loop after a number of queries.
#[derive(Default)]
pub(crate) struct HookRecorder {
    pub(crate) frames: RefCell<Vec<Tensor>>,
    pub(crate) states: RefCell<Vec<DenoiseState>>,
    pub(crate) steps: RefCell<Vec<(usize, usize)>>,
    pub(crate) previews: RefCell<Vec<Tensor>>,
    /// Skipped and all calls, as a step cache reports them.
    pub(crate) skipped: Cell<(usize, usize)>,
    pub(crate) asked: Cell<usize>,
    patience: Option<usize>,
}

impl HookRecorder {
    /// Cancels the loop at its query number `patience`.
    pub(crate) fn impatient(patience: usize) -> Self {
        Self {
            patience: Some(patience),
            ..Self::default()
        }
    }

    /// Asserts that each of `num_steps` steps was reported once.
    pub(crate) fn assert_steps(&self, num_steps: usize, what: &str) {
        let steps: Vec<_> = (1..=num_steps).map(|step| (step, num_steps)).collect();
        assert_eq!(self.steps.take(), steps, "{what}");
    }
}

impl Hooks for HookRecorder {
    fn cancelled(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.patience
            .is_some_and(|patience| self.asked.get() > patience)
    }
    fn step(&self, step: usize, num_steps: usize) {
        self.steps.borrow_mut().push((step, num_steps));
    }
    fn preview(&self, x0_latents: &Tensor) {
        self.previews.borrow_mut().push(x0_latents.copy());
    }
    fn frames(&self, frames: &Tensor) {
        self.frames.borrow_mut().push(frames.copy());
    }
    fn checkpoint(&self, state: DenoiseState) {
        self.states.borrow_mut().push(state);
    }
    fn report_skipped_calls(&self, num_skipped: usize, num_calls: usize) {
        self.skipped.set((num_skipped, num_calls));
    }
}
