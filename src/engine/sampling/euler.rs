//! Flow-match Euler, as diffusers' `FlowMatchEulerDiscreteScheduler`.
//!
//! The schedule is [`Schedule::flow_match`], or one that is given. Keeps nothing between steps.

use tch::Tensor;

use super::{Schedule, Stepped};

pub struct Euler {
    pub(super) schedule: Schedule,
}

impl Euler {
    pub fn new(num_steps: usize, shift: f64, num_train_timesteps: u32) -> Self {
        Self {
            schedule: Schedule::flow_match(num_steps, shift, num_train_timesteps),
        }
    }

    /// Along any schedule, such as [`Schedule::of_sigmas`] gives.
    pub fn along(schedule: Schedule) -> Self {
        Self { schedule }
    }

    pub fn step(&self, call: usize, velocity: &Tensor, latents: &Tensor) -> Stepped {
        let (curr, next) = (self.schedule.sigmas[call], self.schedule.sigmas[call + 1]);
        Stepped {
            latents: latents + velocity * f64::from(next - curr),
            x0: latents - velocity * f64::from(curr),
        }
    }
}
