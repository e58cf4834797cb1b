//! Sigma schedules of flow models, with the model's timesteps, in the rounding of diffusers.
//!
//! One table per scheduler of diffusers, because each rounds and ends differently.
//!
//! The spacings that users may choose are in the arithmetic of diffusers' flow-match schedulers, which take the ends from
//! the model's shifted sigmas.

use safelight_core::job::SigmaSchedule;
use tch::Tensor;

use super::NoiseSpace;

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
    pub space: NoiseSpace,
    /// Factor of the noise that initial latents are, before the first call.
    pub initial_scale: f64,
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
    /// Schedule of given sigmas, shifted already and without the final 0.
    pub fn of_sigmas(mut sigmas: Vec<f32>, num_train_timesteps: u32) -> Self {
        let timestep = |sigma: &f32| sigma * num_train_timesteps as f32;
        let timesteps = sigmas.iter().map(timestep).collect();
        sigmas.push(0.0);
        Self::of_flow(sigmas, ModelTimesteps::Exact(timesteps))
    }

    /// `UniPCMultistepScheduler`'s with flow sigmas. Its exponential and beta schedules leave the sigmas of a flow
    /// (they reach 157); here they are laid between its own ends.
    pub fn unipc(spacing: &SigmaSpacing, end: ScheduleEnd) -> Self {
        let train = f64::from(spacing.num_train_timesteps);
        if spacing.schedule == SigmaSchedule::KarrasDiffusers {
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
        let sigmas = sigmas.map(|sigma| sigma as f32).collect();
        Self::of_flow(sigmas, ModelTimesteps::Whole(timesteps))
    }

    fn of_flow(sigmas: Vec<f32>, timesteps: ModelTimesteps) -> Self {
        Self {
            sigmas,
            timesteps,
            space: NoiseSpace::Flow,
            initial_scale: 1.0,
        }
    }
}

/// `FlowMatchEulerDiscreteScheduler`'s sigmas, and `FlowMatchLCMScheduler`'s, without the final 0.
///
/// The shift meets the smallest sigma twice, once for the range of the schedule and once for each of its values. That is
/// diffusers' doing and kept, because a seed should give the same image here.
pub fn flow_match_sigmas(spacing: &SigmaSpacing) -> Vec<f64> {
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
    spaced(spacing.schedule, simple)
}

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

pub fn shifted(sigma: f64, shift: f64) -> f64 {
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

/// Of <https://arxiv.org/abs/2206.00364>.
const RHO: f64 = 7.0;

/// As many sigmas as `simple` has, with its ends, spaced by one of diffusers' schedules; `simple` itself for others.
/// `simple`: the model's own, from the largest on and without the 0 at the end.
pub fn spaced(schedule: SigmaSchedule, simple: Vec<f64>) -> Vec<f64> {
    let (Some(&max), Some(&min)) = (simple.first(), simple.last()) else {
        return simple;
    };
    let num_steps = simple.len();
    match schedule {
        SigmaSchedule::KarrasDiffusers => karras(max, min, num_steps),
        SigmaSchedule::ExponentialDiffusers => linspace(max.ln(), min.ln(), num_steps)
            .into_iter()
            .map(f64::exp)
            .collect(),
        SigmaSchedule::BetaDiffusers => linspace(0.0, 1.0, num_steps)
            .into_iter()
            .map(|passed| min + beta_quantile(1.0 - passed, 0.6, 0.6) * (max - min))
            .collect(),
        _ => simple,
    }
}

pub fn karras(max: f64, min: f64, num_steps: usize) -> Vec<f64> {
    let (max, min) = (max.powf(1.0 / RHO), min.powf(1.0 / RHO));
    linspace(0.0, 1.0, num_steps)
        .into_iter()
        .map(|passed| (max + passed * (min - max)).powf(RHO))
        .collect()
}

/// Karras sigmas as `UniPCMultistepScheduler` uses them for flow models: spaced between the noise-to-image ratios of
/// DDPM's training (linear betas from 0.0001 to 0.02), whatever the model's shift, and then used as flow sigmas.
pub fn karras_of_ddpm(num_steps: usize, num_train_timesteps: u32) -> Vec<f64> {
    let (first, last) = (1e-4, 0.02);
    let step = (last - first) / f64::from(num_train_timesteps.max(2) - 1);
    // In f32 where the reference is.
    let kept = |i: u32| f64::from(1.0 - (first + step * f64::from(i)) as f32);
    let ratio = |kept: f64| {
        let kept = (kept as f32).max(f32::MIN_POSITIVE);
        f64::from(((1.0 - kept) / kept).sqrt())
    };
    let max = ratio((0..num_train_timesteps).map(kept).product());
    karras(max, ratio(kept(0)), num_steps)
        .into_iter()
        .map(|ratio| ratio / (ratio + 1.0))
        .collect()
}

/// Quantile of a beta distribution at probability `p`.
pub fn beta_quantile(p: f64, alpha: f64, beta: f64) -> f64 {
    let (below, above) = (beta_mass(0.5, alpha, beta), beta_mass(0.5, beta, alpha));
    let is_upper = p * (below + above) > below;
    let (p, alpha, beta) = if is_upper {
        (1.0 - p, beta, alpha)
    } else {
        (p, alpha, beta)
    };
    let wanted = p * (below + above);
    let (mut low, mut high) = (0.0, 0.5);
    if !is_upper && wanted >= below {
        return high;
    }
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return if is_upper { 1.0 - middle } else { middle };
        }
        if beta_mass(middle, alpha, beta) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The incomplete beta function up to `x`, at most a half, as its power series.
fn beta_mass(x: f64, alpha: f64, beta: f64) -> f64 {
    // Every term is less than half the one before.
    const NUM_TERMS: u32 = 56;
    let (mut sum, mut term) = (0.0, 1.0);
    for n in 0..NUM_TERMS {
        let n = f64::from(n);
        sum += term / (alpha + n);
        term *= x * (1.0 - beta + n) / (n + 1.0);
    }
    sum * x.powf(alpha)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SigmaSchedule; 4] = [
        SigmaSchedule::Model,
        SigmaSchedule::BetaDiffusers,
        SigmaSchedule::KarrasDiffusers,
        SigmaSchedule::ExponentialDiffusers,
    ];

    #[test]
    fn every_spacing_falls_from_end_to_end() {
        for schedule in ALL {
            for num_steps in [1, 2, 3, 50, 1000] {
                let simple = linspace(0.97, 0.02, num_steps);
                let found = spaced(schedule, simple.clone());
                assert_eq!(found.len(), num_steps, "{schedule:?}");
                assert!(found.is_sorted_by(|a, b| a > b), "{schedule:?}");
                let ends = |sigmas: &[f64]| (sigmas[0], sigmas[num_steps - 1]);
                let ((max, min), expected) = (ends(&found), ends(&simple));
                assert!((max - expected.0).abs() < 1e-12, "{schedule:?}");
                assert!((min - expected.1).abs() < 1e-12, "{schedule:?}");
            }
        }
    }

    #[test]
    fn no_steps_give_no_sigmas() {
        for schedule in ALL {
            assert!(spaced(schedule, Vec::new()).is_empty());
        }
    }

    #[test]
    fn ddpm_of_any_length_gives_sigmas_of_a_flow() {
        for num_train_timesteps in [1, 2, 1000, 5_000_000] {
            let found = karras_of_ddpm(9, num_train_timesteps);
            let is_flow = |sigma: &f64| (0.0..=1.0).contains(sigma);
            assert!(found.iter().all(is_flow), "{num_train_timesteps}");
        }
    }

    #[test]
    fn the_quantile_is_the_inverse_of_the_distribution() {
        for (alpha, beta) in [(0.6, 0.6), (0.5, 0.7), (0.7, 0.5)] {
            let quantile = |p| beta_quantile(p, alpha, beta);
            assert_eq!((quantile(0.0), quantile(1.0)), (0.0, 1.0));
            let whole = beta_mass(0.5, alpha, beta) + beta_mass(0.5, beta, alpha);
            for p in linspace(1e-9, 1.0 - 1e-9, 101) {
                let x = quantile(p);
                if x <= 0.5 {
                    let back = beta_mass(x, alpha, beta) / whole;
                    assert!((back / p - 1.0).abs() < 1e-12, "{p}");
                } else {
                    let back = beta_mass(1.0 - x, beta, alpha) / whole;
                    assert!((back + p - 1.0).abs() < 1e-9, "{p}");
                }
            }
        }
    }
}
