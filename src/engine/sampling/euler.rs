//! Flow-match Euler, as diffusers' `FlowMatchEulerDiscreteScheduler`.
//!
//! Keeps nothing between steps.

use tch::Tensor;

use super::{At, Method, Stepped};

pub(super) struct Euler;

impl Method for Euler {
    fn step(&mut self, at: &At<'_>, velocity: &Tensor, latents: &Tensor) -> Stepped {
        let (curr, next) = at.sigmas();
        Stepped {
            latents: latents + velocity * f64::from(next - curr),
            x0: latents - velocity * f64::from(curr),
        }
    }
}
