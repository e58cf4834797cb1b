//! Flow-match Euler, with the schedule of diffusers' `FlowMatchEulerDiscreteScheduler` as Wan uses it.
//!
//! The shift meets the smallest sigma twice, once for the range of the schedule and once for each of its values.
//! That is diffusers' doing and kept, because a seed should give the same picture here.

use tch::Tensor;

use super::{Stepped, linspace};

pub struct Euler {
    sigmas: Vec<f32>,
    timesteps: Vec<f32>,
}

impl Euler {
    pub fn new(num_steps: usize, shift: f64, num_train_timesteps: u32) -> Self {
        let train = f64::from(num_train_timesteps);
        // The ends of the training schedule, in f32 as there.
        let end = |timestep: f32| {
            let sigma = timestep / num_train_timesteps as f32;
            let shift32 = shift as f32;
            f64::from(shift32 * sigma / (1.0 + (shift - 1.0) as f32 * sigma))
        };
        let (largest, smallest) = (end(num_train_timesteps as f32), end(1.0));
        let mut sigmas: Vec<f32> = linspace(largest * train, smallest * train, num_steps)
            .into_iter()
            .map(|timestep| {
                let sigma = timestep / train;
                (shift * sigma / (1.0 + (shift - 1.0) * sigma)) as f32
            })
            .collect();
        let timesteps = sigmas
            .iter()
            .map(|sigma| sigma * num_train_timesteps as f32)
            .collect();
        sigmas.push(0.0);
        Self { sigmas, timesteps }
    }

    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    pub fn timesteps(&self) -> &[f32] {
        &self.timesteps
    }

    pub fn step(&self, step: usize, velocity: &Tensor, latents: &Tensor) -> Stepped {
        let (curr, next) = (self.sigmas[step], self.sigmas[step + 1]);
        Stepped {
            latents: latents + velocity * f64::from(next - curr),
            x0: latents - velocity * f64::from(curr),
        }
    }
}
