//! Samplers and their sigma schedules, one file per algorithm: pure arithmetic on latents.
//!
//! Models, guidance and what noise is for are the family's business.

mod euler;
mod noise;
mod unipc;

use tch::Tensor;

pub use euler::Euler;
pub use noise::noise;
pub use unipc::{UniPc, UniPcOptions};

/// What one step gives.
pub struct Stepped {
    /// The latents at the next sigma.
    pub latents: Tensor,
    /// Where the velocity points: the latents without any noise.
    pub x0: Tensor,
}

/// A sampler in the middle of its schedule.
pub enum Solver {
    UniPc(UniPc),
    Euler(Euler),
}

impl Solver {
    /// `num_steps + 1` values from noise to nothing.
    pub fn sigmas(&self) -> &[f32] {
        match self {
            Self::UniPc(solver) => solver.sigmas(),
            Self::Euler(solver) => solver.sigmas(),
        }
    }

    /// One value a step, of the type that diffusers gives them: `(num_steps)`.
    pub fn timesteps(&self) -> Tensor {
        match self {
            Self::UniPc(solver) => Tensor::from_slice(solver.timesteps()),
            Self::Euler(solver) => Tensor::from_slice(solver.timesteps()),
        }
    }

    /// What the model is told in `step`, counted from 0.
    pub fn timestep(&self, step: usize) -> f32 {
        match self {
            Self::UniPc(solver) => solver.timesteps()[step] as f32,
            Self::Euler(solver) => solver.timesteps()[step],
        }
    }

    /// Does `step`, counted from 0, which must follow the one before.
    pub fn step(&mut self, step: usize, velocity: &Tensor, latents: &Tensor) -> Stepped {
        match self {
            Self::UniPc(solver) => solver.step(step, velocity, latents),
            Self::Euler(solver) => solver.step(step, velocity, latents),
        }
    }

    /// What has to survive between two steps, oldest first.
    pub fn history(&self) -> Vec<Tensor> {
        match self {
            Self::UniPc(solver) => solver.history(),
            Self::Euler(_) => Vec::new(),
        }
    }

    /// Takes back what [`Solver::history`] gave after `step` steps; `false` when it cannot be that.
    #[must_use]
    pub fn restore(&mut self, step: usize, history: Vec<Tensor>) -> bool {
        match self {
            Self::UniPc(solver) => solver.restore(step, history),
            Self::Euler(_) => history.is_empty(),
        }
    }
}

/// `numpy.linspace` in its own rounding.
fn linspace(start: f64, stop: f64, count: usize) -> Vec<f64> {
    if count == 1 {
        return vec![start];
    }
    let last = count - 1;
    let step = (stop - start) / last as f64;
    (0..count)
        .map(|i| {
            if i == last {
                stop
            } else {
                i as f64 * step + start
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
