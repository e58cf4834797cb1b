//! DPM-Solver++ (2M), <https://arxiv.org/abs/2211.01095>: second order, multistep, midpoint.
//!
//! In the arithmetic of diffusers' `DPMSolverMultistepScheduler` with `flow_prediction` and flow sigmas: first
//! order where there is no step before, and to a sigma of 0. Knows no other order and no other solver type.

use tch::Tensor;

use super::schedule::lambda;
use super::{CallIndex, SamplerStep, StepOutput};

/// Behind a sigma of 1, which is endlessly far in the time of this solver and which [`Schedule::dpm`] does not have, the
/// second step is first order too.
///
/// [`Schedule::dpm`]: super::Schedule::dpm
#[derive(Default)]
pub(super) struct DpmPp2m {
    /// Predicted x0 of the previous step.
    last_prediction: Option<Tensor>,
}

impl SamplerStep for DpmPp2m {
    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (curr, next) = at.sigmas();
        let x0 = latents - velocity * f64::from(curr);
        let h = lambda(next) - lambda(curr);
        let weight = (1.0 - next) * ((-h).exp() - 1.0);
        let mut stepped = latents * f64::from(next / curr) - &x0 * f64::from(weight);
        if let Some(last) = &self.last_prediction
            && next > 0.0
        {
            let ratio = (lambda(curr) - lambda(at.schedule.sigmas[at.call - 1])) / h;
            let change = (&x0 - last) * f64::from(1.0 / ratio);
            stepped -= change * f64::from(0.5 * weight);
        }
        self.last_prediction = Some(x0.shallow_clone());
        StepOutput {
            latents: stepped,
            x0,
        }
    }

    fn history(&self) -> Vec<Tensor> {
        let last = self.last_prediction.iter();
        last.map(Tensor::shallow_clone).collect()
    }

    fn restore(&mut self, at: &CallIndex<'_>, mut history: Vec<Tensor>) -> bool {
        let is_sound = history.len() == at.done.min(1);
        self.last_prediction = history.pop();
        is_sound
    }
}
