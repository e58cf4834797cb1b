//! Sigma schedules of flow models, with the model's timesteps, in the rounding of diffusers.
//!
//! One table per scheduler of diffusers, because each rounds and ends differently.

use safelight_core::job::SigmaSchedule;
use tch::Tensor;

use super::spacing::{karras_of_ddpm, spaced};

/// Inputs of a scheduler's sigmas.
#[derive(Clone, Copy, Debug)]
pub struct SigmaSpacing {
    pub schedule: SigmaSchedule,
    pub num_steps: usize,
    /// More than 0. For a dynamic shift by mu, `exp(mu)`.
    pub shift: f64,
    pub num_train_timesteps: u32,
}

/// Sigmas of the denoising loop with the model's timesteps.
pub struct NoiseSchedule {
    /// One more than there are calls of the model; the last is 0, or what noise stays.
    pub sigmas: Vec<f32>,
    pub timesteps: ModelTimesteps,
}

/// One value a call of the model, of the type that diffusers gives it.
pub enum ModelTimesteps {
    Whole(Vec<i64>),
    Exact(Vec<f32>),
}

impl ModelTimesteps {
    pub fn count(&self) -> usize {
        match self {
            Self::Whole(values) => values.len(),
            Self::Exact(values) => values.len(),
        }
    }

    pub fn get(&self, call: usize) -> f32 {
        match self {
            Self::Whole(values) => values[call] as f32,
            Self::Exact(values) => values[call],
        }
    }

    pub fn to_tensor(&self) -> Tensor {
        match self {
            Self::Whole(values) => Tensor::from_slice(values),
            Self::Exact(values) => Tensor::from_slice(values),
        }
    }
}

impl NoiseSchedule {
    /// `FlowMatchEulerDiscreteScheduler`'s, and `FlowMatchLCMScheduler`'s.
    ///
    /// The shift meets the smallest sigma twice, once for the range of the schedule and once for each of its
    /// values. That is diffusers' doing and kept, because a seed should give the same picture here.
    pub fn flow_match(spacing: &SigmaSpacing) -> Self {
        let (shift, train) = (spacing.shift, f64::from(spacing.num_train_timesteps));
        // The ends of the training schedule, in f32 as there.
        let end = |timestep: f32| {
            let sigma = timestep / spacing.num_train_timesteps as f32;
            let shift32 = shift as f32;
            f64::from(shift32 * sigma / (1.0 + (shift - 1.0) as f32 * sigma))
        };
        let largest = end(spacing.num_train_timesteps as f32);
        let simple = linspace(largest * train, end(1.0) * train, spacing.num_steps)
            .into_iter()
            .map(|timestep| shifted(timestep / train, shift))
            .collect();
        let sigmas = spaced(spacing.schedule, simple).into_iter();
        Self::of_sigmas(
            sigmas.map(|sigma| sigma as f32).collect(),
            spacing.num_train_timesteps,
        )
    }

    /// Schedule of given sigmas, shifted already and without the final 0.
    pub fn of_sigmas(mut sigmas: Vec<f32>, num_train_timesteps: u32) -> Self {
        let timestep = |sigma: &f32| sigma * num_train_timesteps as f32;
        let timesteps = sigmas.iter().map(timestep).collect();
        sigmas.push(0.0);
        Self {
            sigmas,
            timesteps: ModelTimesteps::Exact(timesteps),
        }
    }

    /// Two calls per step but the last, as in `FlowMatchHeunDiscreteScheduler`: every sigma but the ends appears twice.
    /// It has no Karras or other schedules; those use Euler's sigmas.
    #[must_use]
    pub fn twice(self) -> Self {
        let calls = 0..(2 * self.timesteps.count()).saturating_sub(1);
        let place = |call: usize| call.div_ceil(2);
        let sigmas = calls.clone().map(|call| self.sigmas[place(call)]);
        let timesteps = calls.map(|call| self.timesteps.get(place(call)));
        Self {
            sigmas: sigmas.chain([0.0]).collect(),
            timesteps: ModelTimesteps::Exact(timesteps.collect()),
        }
    }

    /// `UniPCMultistepScheduler`'s with flow sigmas. Its exponential and beta schedules leave the sigmas of a flow
    /// (they reach 157); here they are laid between its own ends.
    pub fn unipc(spacing: &SigmaSpacing, end: ScheduleEnd) -> Self {
        let train = f64::from(spacing.num_train_timesteps);
        if spacing.schedule == SigmaSchedule::Karras {
            let exact = karras_of_ddpm(spacing.num_steps, spacing.num_train_timesteps);
            return Self::ending_at(exact, end, train);
        }
        let mut simple = linspace(1.0, 1.0 / train, spacing.num_steps + 1);
        simple.pop();
        for sigma in &mut simple {
            *sigma = shifted(*sigma, spacing.shift);
        }
        below_one(&mut simple);
        Self::ending_at(spaced(spacing.schedule, simple), end, train)
    }

    /// UniPC schedule of given sigmas, shifted already and without the end.
    pub fn unipc_of_sigmas(
        mut sigmas: Vec<f64>,
        num_train_timesteps: u32,
        end: ScheduleEnd,
    ) -> Self {
        below_one(&mut sigmas);
        Self::ending_at(sigmas, end, f64::from(num_train_timesteps))
    }

    /// `DPMSolverMultistepScheduler`'s with flow sigmas: begins below 1, where [`NoiseSchedule::unipc`] begins at it. Its
    /// other schedules leave the sigmas of a flow; here they are laid between its own ends.
    pub fn dpm(spacing: &SigmaSpacing) -> Self {
        let train = f64::from(spacing.num_train_timesteps);
        let mut simple: Vec<f64> = linspace(1.0, 1.0 / train, spacing.num_steps + 1)
            .into_iter()
            .map(|alpha| shifted(1.0 - alpha, spacing.shift))
            .skip(1)
            .collect();
        simple.reverse();
        Self::with_whole_timesteps(spaced(spacing.schedule, simple), 0.0, train)
    }

    fn ending_at(exact: Vec<f64>, end: ScheduleEnd, train: f64) -> Self {
        let end = match (exact.last(), end) {
            (Some(&last), ScheduleEnd::SigmaMin) => last,
            _ => 0.0,
        };
        Self::with_whole_timesteps(exact, end, train)
    }

    /// Timesteps are cut, while the update uses the exact sigmas.
    fn with_whole_timesteps(exact: Vec<f64>, end: f64, train: f64) -> Self {
        let timesteps = exact.iter().map(|sigma| (sigma * train) as i64).collect();
        let sigmas = exact.into_iter().chain([end]);
        Self {
            sigmas: sigmas.map(|sigma| sigma as f32).collect(),
            timesteps: ModelTimesteps::Whole(timesteps),
        }
    }
}

/// End of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleEnd {
    #[default]
    Zero,
    /// At its last sigma again.
    SigmaMin,
}

/// UniPC needs the logarithm of 1 - sigma.
fn below_one(sigmas: &mut [f64]) {
    const TINY: f64 = 1e-6;
    if let Some(first) = sigmas.first_mut()
        && (*first - 1.0).abs() < TINY
    {
        *first -= TINY;
    }
}

fn shifted(sigma: f64, shift: f64) -> f64 {
    shift * sigma / (1.0 + (shift - 1.0) * sigma)
}

/// `ln(alpha / sigma)`, the time in which exponential integrators step; endless at a sigma of 0.
pub fn lambda(sigma: f32) -> f32 {
    (1.0 - sigma).ln() - sigma.ln()
}

/// `numpy.linspace` in its own rounding.
pub fn linspace(start: f64, stop: f64, count: usize) -> Vec<f64> {
    if count < 2 {
        return vec![start; count];
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
