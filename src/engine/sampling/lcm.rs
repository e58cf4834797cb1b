//! LCM for flow models, as diffusers' `FlowMatchLCMScheduler`: every step goes all the way to x0 and back with
//! new noise. For models that are distilled to a few steps.
//!
//! The new noise is what one `torch.Generator` gives that drew the initial latents before, so nothing has to be
//! kept between steps: the draws before are made again. Without that scheduler's growing sizes.

use tch::Tensor;

use super::noise::Generator;
use super::{Schedule, Stepped};

pub struct Lcm {
    pub(super) schedule: Schedule,
    seed: u64,
    /// What draws, and how often it has.
    generator: Option<(Generator, usize)>,
}

impl Lcm {
    /// `seed`: the one that the initial latents were drawn with.
    pub fn along(schedule: Schedule, seed: u64) -> Self {
        Self {
            schedule,
            seed,
            generator: None,
        }
    }

    /// `done`: how many calls were made since the initial latents.
    pub fn step(
        &mut self,
        call: usize,
        done: usize,
        velocity: &Tensor,
        latents: &Tensor,
    ) -> Stepped {
        let (curr, next) = (self.schedule.sigmas[call], self.schedule.sigmas[call + 1]);
        let x0 = latents - velocity * f64::from(curr);
        if next == 0.0 {
            let latents = x0.shallow_clone();
            return Stepped { latents, x0 };
        }
        let noise = self
            .noise(done, &latents.size())
            .to_device(latents.device());
        Stepped {
            latents: &x0 * f64::from(1.0 - next) + noise * f64::from(next),
            x0,
        }
    }

    /// The draw after the initial latents and `done` others.
    fn noise(&mut self, done: usize, size: &[i64]) -> Tensor {
        let (mut generator, drawn) = match self.generator.take() {
            Some((generator, drawn)) if drawn <= done + 1 => (generator, drawn),
            _ => (Generator::new(self.seed), 0),
        };
        let mut draw = || {
            generator
                .normal(size)
                .expect("the latents have a sound size")
        };
        for _ in drawn..=done {
            drop(draw());
        }
        let noise = draw();
        self.generator = Some((generator, done + 2));
        noise
    }
}
