//! Flow-match Heun, as diffusers' `FlowMatchHeunDiscreteScheduler`: Euler to the next sigma, then the whole step
//! again with the mean of the slopes at both ends. The last step, to a sigma of 0, is an Euler step.
//!
//! Without that scheduler's churn, which Wan's pipelines never set.

use tch::Tensor;

use super::{CallIndex, SamplerStep, StepOutput};

/// Along a schedule that has every sigma [twice](super::Schedule::twice).
#[derive(Default)]
pub(super) struct HeunSampler {
    /// After the first call of a step: the latents that it began with and their slope.
    begun: Option<(Tensor, Tensor)>,
}

impl SamplerStep for HeunSampler {
    fn calls_per_step(&self) -> usize {
        2
    }

    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (sigmas, call) = (&at.schedule.sigmas, at.call);
        // The sigma of this call, and its slope by way of x0: that rounds as the reference does.
        let sigma = f64::from(sigmas[call]);
        let x0 = latents - velocity * sigma;
        let slope = (latents - &x0) / sigma;
        let next = if let Some((start, first_slope)) = self.begun.take() {
            let slope = (first_slope + slope) * 0.5;
            start + slope * f64::from(sigmas[call] - sigmas[call - 1])
        } else {
            let next = latents + &slope * f64::from(sigmas[call + 1] - sigmas[call]);
            if call + 1 < at.schedule.timesteps.count() {
                self.begun = Some((latents.shallow_clone(), slope));
            }
            next
        };
        StepOutput { latents: next, x0 }
    }

    fn history(&self) -> Vec<Tensor> {
        self.begun
            .as_ref()
            .map_or_else(Vec::new, |(latents, slope)| {
                vec![latents.shallow_clone(), slope.shallow_clone()]
            })
    }

    fn restore(&mut self, at: &CallIndex<'_>, history: Vec<Tensor>) -> bool {
        let is_second = at.call % 2 == 1 && at.call < at.schedule.timesteps.count();
        let is_sound = history.len() == if is_second { 2 } else { 0 };
        let mut history = history.into_iter();
        self.begun = history.next().zip(history.next());
        is_sound
    }
}
