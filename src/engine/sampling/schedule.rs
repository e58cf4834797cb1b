//! Sigma schedules of flow models, with the timesteps that the model is told, in the rounding of diffusers.
//!
//! One table a scheduler of diffusers, because each rounds and ends in its own way. Knows no sampler's arithmetic.

use tch::Tensor;

/// What a walk from noise to picture passes, and what the model is told on the way.
pub struct Schedule {
    /// One more than there are calls of the model; the last is 0, or what noise stays.
    pub sigmas: Vec<f32>,
    pub timesteps: Timesteps,
}

/// One value a call of the model, of the type that diffusers gives it.
pub enum Timesteps {
    Whole(Vec<i64>),
    Exact(Vec<f32>),
}

impl Timesteps {
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

impl Schedule {
    /// `FlowMatchEulerDiscreteScheduler`'s, and `FlowMatchLCMScheduler`'s.
    ///
    /// The shift meets the smallest sigma twice, once for the range of the schedule and once for each of its
    /// values. That is diffusers' doing and kept, because a seed should give the same picture here.
    pub fn flow_match(num_steps: usize, shift: f64, num_train_timesteps: u32) -> Self {
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
            .map(|timestep| shifted(timestep / train, shift) as f32)
            .collect();
        let timesteps = sigmas
            .iter()
            .map(|sigma| sigma * num_train_timesteps as f32)
            .collect();
        sigmas.push(0.0);
        Self {
            sigmas,
            timesteps: Timesteps::Exact(timesteps),
        }
    }

    /// The same with sigmas that are given, shifted already and without the 0 at the end.
    pub fn of_sigmas(mut sigmas: Vec<f32>, num_train_timesteps: u32) -> Self {
        let timestep = |sigma: &f32| sigma * num_train_timesteps as f32;
        let timesteps = sigmas.iter().map(timestep).collect();
        sigmas.push(0.0);
        Self {
            sigmas,
            timesteps: Timesteps::Exact(timesteps),
        }
    }

    /// The same for two calls a step but the last: every sigma but the ends stands twice.
    pub fn flow_match_twice(num_steps: usize, shift: f64, num_train_timesteps: u32) -> Self {
        let once = Self::flow_match(num_steps, shift, num_train_timesteps);
        let calls = 0..2 * num_steps - 1;
        let place = |call: usize| call.div_ceil(2);
        let mut sigmas: Vec<f32> = calls.clone().map(|call| once.sigmas[place(call)]).collect();
        sigmas.push(0.0);
        Self {
            sigmas,
            timesteps: Timesteps::Exact(
                calls.map(|call| once.timesteps.get(place(call))).collect(),
            ),
        }
    }

    /// `UniPCMultistepScheduler`'s with flow sigmas.
    pub fn unipc(num_steps: usize, shift: f64, num_train_timesteps: u32, end: End) -> Self {
        let train = f64::from(num_train_timesteps);
        let mut exact = linspace(1.0, 1.0 / train, num_steps + 1);
        exact.pop();
        for sigma in &mut exact {
            *sigma = shifted(*sigma, shift);
        }
        // The logarithm of 1 - sigma is needed.
        const TINY: f64 = 1e-6;
        if let Some(first) = exact.first_mut()
            && (*first - 1.0).abs() < TINY
        {
            *first -= TINY;
        }
        let end = match (exact.last(), end) {
            (Some(&last), End::SigmaMin) => last,
            _ => 0.0,
        };
        Self::with_whole_timesteps(exact, end, train)
    }

    /// `DPMSolverMultistepScheduler`'s with flow sigmas: begins below 1, where [`Schedule::unipc`] begins at it.
    pub fn dpm(num_steps: usize, shift: f64, num_train_timesteps: u32) -> Self {
        let train = f64::from(num_train_timesteps);
        let mut exact: Vec<f64> = linspace(1.0, 1.0 / train, num_steps + 1)
            .into_iter()
            .map(|alpha| shifted(1.0 - alpha, shift))
            .skip(1)
            .collect();
        exact.reverse();
        Self::with_whole_timesteps(exact, 0.0, train)
    }

    /// Timesteps are cut, while the update uses the exact sigmas.
    fn with_whole_timesteps(exact: Vec<f64>, end: f64, train: f64) -> Self {
        let timesteps = exact.iter().map(|sigma| (sigma * train) as i64).collect();
        let sigmas = exact.into_iter().chain([end]);
        Self {
            sigmas: sigmas.map(|sigma| sigma as f32).collect(),
            timesteps: Timesteps::Whole(timesteps),
        }
    }
}

/// Where a schedule ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    #[default]
    Zero,
    /// At its last sigma again.
    SigmaMin,
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
