//! Callbacks of a stage to its caller: cancellation, progress, previews, frames.

use tch::Tensor;

use crate::fault::{self, FaultSite};

/// State of the loop between two calls, enough to resume bit for bit, except for the rounding of a GPU that has room for
/// both passes of the guidance in one batch only before or only after.
#[derive(Debug)]
pub struct DenoiseState {
    /// Next call, counted from 0 in the whole schedule: a step, except for samplers whose steps have two.
    pub step: usize,
    /// In f32, in the family's form.
    pub latents: Tensor,
    /// The sampler's, see [`Solver::history`](crate::sampling::Solver::history).
    pub history: Vec<Tensor>,
}

/// Everything has a default, so that a caller implements what it needs.
pub trait Hooks {
    /// Checked between blocks, tiles and steps. Once true, the stage ends with `None` soon.
    fn cancelled(&self) -> bool {
        false
    }

    /// `None` once cancelled, so that `?` leaves a network between two of its parts. `next`: the part that follows, where
    /// a test may ask for a fault.
    fn check_cancelled(&self, next: FaultSite) -> Option<()> {
        if self.cancelled() {
            return None;
        }
        fault::at(next);
        Some(())
    }

    /// `step` of `num_steps` is done, counted from 1.
    fn step(&self, _step: usize, _num_steps: usize) {}

    /// Predicted latents without noise, `(1, C, f, h, w)` in f32 on the stage's device.
    fn preview(&self, _x0_latents: &Tensor) {}

    /// The next frames of the video, `(F, H, W, 3)` bytes on the CPU.
    fn frames(&self, _frames: &Tensor) {}

    /// The sound of the video, `(1, channels, samples)` in -1..1; `rate`: samples in a second
    fn sound(&self, _waveform: &Tensor, _rate: u32) {}

    /// Frames so far are invalid; they come again from the first.
    fn restart_frames(&self) {}

    /// State to resume from bit for bit, should the process die.
    fn checkpoint(&self, _state: DenoiseState) {}

    /// Number of calls that a step cache skipped, of all calls of a loop.
    fn report_skipped_calls(&self, _num_skipped: usize, _num_calls: usize) {}

    /// A problem that does not end the job.
    fn warn(&self, _message: String) {}
}

/// Hooks of callers that need only the result.
pub struct NoHooks;

impl Hooks for NoHooks {}
