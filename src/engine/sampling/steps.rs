//! Samplers with a short history: Euler, Heun, DPM-Solver++ and LCM, each in the arithmetic of its scheduler in diffusers.

use tch::Tensor;

use super::noise::CpuGenerator;
use super::schedule::lambda;
use super::{CallIndex, SamplerStep, StepOutput};

/// As `FlowMatchEulerDiscreteScheduler`.
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

/// As `FlowMatchHeunDiscreteScheduler` without its churn, along a schedule that has every sigma
/// [twice](super::NoiseSchedule::twice): Euler to the next sigma, then the whole step again with the mean of the slopes at
/// both ends. The last step, to a sigma of 0, is an Euler step.
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

/// DPM-Solver++ (2M), <https://arxiv.org/abs/2211.01095>, as `DPMSolverMultistepScheduler` with `flow_prediction` and flow
/// sigmas: second order, multistep, midpoint; first order where there is no step before, and to a sigma of 0.
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

/// As `FlowMatchLCMScheduler` without its growing sizes: every step goes to x0 and back with new noise, for models that are
/// distilled to a few steps. The noise continues the `torch.Generator` that drew the initial latents, one for each image
/// with consecutive seeds; earlier draws are repeated, so nothing has to be kept between steps.
pub(super) struct LcmSampler {
    seed: u64,
    /// Number of draws before the first call.
    draws_before: usize,
    /// Generators, one per image, and their number of draws.
    generators: (Vec<CpuGenerator>, usize),
}

impl LcmSampler {
    /// `seed`: the one that the initial latents were drawn with.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            draws_before: 1,
            generators: (Vec::new(), 0),
        }
    }

    /// The draw after those before the first call and `done` others: `size`, whose first axis is that of images.
    fn noise(&mut self, done: usize, size: &[i64]) -> Tensor {
        let images = size[0];
        let mut one = size.to_vec();
        one[0] = 1;
        let number = self.draws_before + done;
        let (generators, drawn) = &mut self.generators;
        if generators.is_empty() || *drawn > number {
            let seeds = (0..images as u64).map(|i| self.seed.wrapping_add(i));
            (*generators, *drawn) = (seeds.map(CpuGenerator::new).collect(), 0);
        }
        let mut draw = || {
            let draws = generators.iter_mut().map(|generator| {
                generator
                    .normal(&one)
                    .expect("the latents have a sound size")
            });
            Tensor::cat(&draws.collect::<Vec<_>>(), 0)
        };
        for _ in *drawn..number {
            drop(draw());
        }
        let noise = draw();
        *drawn = number + 1;
        noise
    }
}

impl SamplerStep for LcmSampler {
    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (curr, next) = at.sigmas();
        let x0 = latents - velocity * f64::from(curr);
        if next == 0.0 {
            let latents = x0.shallow_clone();
            return StepOutput { latents, x0 };
        }
        let noise = self.noise(at.done, &latents.size());
        let noise = noise.to_device(latents.device());
        StepOutput {
            latents: &x0 * f64::from(1.0 - next) + noise * f64::from(next),
            x0,
        }
    }

    fn set_draws_before(&mut self, draws: usize) {
        self.draws_before = draws;
    }
}
