//! Flow-match Euler, as diffusers' `FlowMatchEulerDiscreteScheduler`.
//!
//! Keeps nothing between steps.

use tch::Tensor;

use super::{CallIndex, SamplerStep, StepOutput};

pub(super) struct EulerSampler;

impl SamplerStep for EulerSampler {
    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (curr, next) = at.sigmas();
        StepOutput {
            latents: latents + velocity * f64::from(next - curr),
            x0: latents - velocity * f64::from(curr),
        }
    }
}
