//! LCM for flow models, as diffusers' `FlowMatchLCMScheduler`: every step goes to x0 and back with new noise. For
//! models that are distilled to a few steps.
//!
//! The new noise continues the `torch.Generator` that drew the initial latents, so nothing has to be kept between
//! steps:
//! earlier draws are repeated. Each image of a batch has a separate generator, with consecutive seeds. Without that
//! scheduler's growing sizes.

use tch::Tensor;

use super::noise::CpuGenerator;
use super::{CallIndex, SamplerStep, StepOutput};

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

    /// The draw after those before the first call and `done` others: `size`, whose first axis is that of pictures.
    fn noise(&mut self, done: usize, size: &[i64]) -> Tensor {
        let pictures = size[0];
        let mut one = size.to_vec();
        one[0] = 1;
        let number = self.draws_before + done;
        let (generators, drawn) = &mut self.generators;
        if generators.is_empty() || *drawn > number {
            let seeds = (0..pictures as u64).map(|i| self.seed.wrapping_add(i));
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
