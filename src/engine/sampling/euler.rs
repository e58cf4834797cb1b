//! Flow-match Euler, as diffusers' `FlowMatchEulerDiscreteScheduler`.
//!
//! Keeps nothing between steps.

use tch::Tensor;

use super::{Schedule, Stepped};

pub struct Euler {
    pub(super) schedule: Schedule,
}

impl Euler {
    /// Along any schedule, such as [`Schedule::flow_match`] and [`Schedule::of_sigmas`] give.
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
