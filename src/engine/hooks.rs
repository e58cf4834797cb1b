//! How a stage talks to whoever runs it: asks whether to stop, tells how far it is, hands out what is ready.
//!
//! Knows no channels and no processes; a test implements it with a few cells.

use tch::Tensor;

use crate::denoise::DenoiseState;
use crate::fault::{self, Site};

/// Everything has a default, so that a caller implements what it needs.
pub trait Hooks {
    /// Asked between blocks, tiles and steps. Once true, the stage ends with `None` soon.
    fn cancelled(&self) -> bool {
        false
    }

    /// `None` once cancelled, so that `?` leaves a network between two of its parts. `next`: the part that follows, where
    /// a test may ask for a fault.
    fn go_on(&self, next: Site) -> Option<()> {
        if self.cancelled() {
            return None;
        }
        fault::at(next);
        Some(())
    }

    /// `step` of `num_steps` is done, counted from 1.
    fn step(&self, _step: usize, _num_steps: usize) {}

    /// What the latents would be if the noise were gone already, `(1, C, f, h, w)` in f32 on the stage's device.
    fn preview(&self, _x0_latents: &Tensor) {}

    /// The next frames of the clip, `(F, H, W, 3)` bytes on the CPU.
    fn frames(&self, _frames: &Tensor) {}

    /// The frames that were handed out are none: they come again, from the first one on.
    fn frames_begin_again(&self) {}

    /// Enough to go on from here bit for bit, should the process die.
    fn checkpoint(&self, _state: DenoiseState) {}

    /// Of so many calls of a network along one walk some took over what earlier ones had computed.
    fn skipped(&self, _num_skipped: usize, _num_calls: usize) {}

    /// The job goes on, but something is not as it should be.
    fn warn(&self, _message: String) {}
}

/// For callers that want nothing but the result.
pub struct NoHooks;

impl Hooks for NoHooks {}
