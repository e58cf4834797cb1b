//! Sigmas of models that were trained on discrete noise levels, and their samplers, in variance-exploding latents.
//!
//! The schedules are those of diffusers' schedulers (`EulerDiscreteScheduler` and relatives) and of ComfyUI.

use std::ops::Range;

use safelight_core::job::{GenerateRequest, SamplerKind, SigmaSchedule};
use safelight_core::networks::{DiscreteScheduleConfig, TimestepSpacing};
use tch::{Device, Kind, Tensor};

use super::comfy::{SigmaTable, table_sigmas};
use super::schedule::{ModelTimesteps, NoiseSchedule, linspace, spaced};
use super::space::deviation;
use super::steps::call_sigmas;
use super::{NoiseSpace, SamplerAlgorithm, Solver, UniPcOptions, check_schedule};
use crate::error::EngineError;

/// Share of the image in the noisiest level of models with zero terminal SNR, in diffusers.
const SMALLEST_SHARE: f32 = 1.0 / (1 << 24) as f32;

pub struct DiscreteSchedule {
    config: DiscreteScheduleConfig,
    /// Sigma of each timestep of training, the smallest first.
    table: Vec<f64>,
}

impl DiscreteSchedule {
    pub fn new(config: DiscreteScheduleConfig) -> Self {
        let [start, end] = [config.beta_start, config.beta_end].map(f64::sqrt);
        let count = i64::from(config.num_train_timesteps);
        // In f32, as in diffusers.
        let betas = Tensor::linspace(start, end, count, (Kind::Float, Device::Cpu)).square();
        let kept: Tensor = 1.0 - betas;
        let shares = kept.cumprod(0, Kind::Float);
        let mut shares: Vec<f32> = shares.try_into().unwrap_or_default();
        if config.rescale_betas_zero_snr {
            end_at_pure_noise(&mut shares);
        }
        let sigma = |share: f32| f64::from(((1.0 - share) / share).sqrt());
        Self {
            table: shares.into_iter().map(sigma).collect(),
            config,
        }
    }

    /// Sampler of a request, for some of the steps.
    pub fn solver(
        &self,
        request: &GenerateRequest,
        steps: Range<usize>,
    ) -> Result<Solver, EngineError> {
        let sampling = &request.sampling;
        let num_steps = sampling.num_steps as usize;
        check_schedule(num_steps, 1.0)?;
        if sampling.shift.is_some() || sampling.dynamic_shift {
            let reason = "the noise levels of this model have no shift: leave it out";
            return Err(EngineError::request(reason));
        }
        if sampling.sigma_schedule == SigmaSchedule::BongTangent {
            let label = sampling.sigma_schedule.label();
            return Err(EngineError::request(format!(
                "the schedule {label} is for flow models: choose another one, such as Karras"
            )));
        }
        let schedule = self.schedule(sampling.sampler, sampling.sigma_schedule, num_steps);
        let unipc = UniPcOptions {
            is_of_sigma: true,
            ..UniPcOptions::default()
        };
        let algorithm = SamplerAlgorithm::new(sampling.sampler, schedule, unipc, request.seed);
        Solver::of_steps(algorithm, steps, num_steps)
    }

    pub(super) fn schedule(
        &self,
        sampler: SamplerKind,
        spacing: SigmaSchedule,
        num_steps: usize,
    ) -> NoiseSchedule {
        let spacing = match spacing {
            SigmaSchedule::Model if self.config.use_karras_sigmas => SigmaSchedule::KarrasDiffusers,
            spacing => spacing,
        };
        let is_dpm = sampler == SamplerKind::DpmPp2mDiffusers;
        let last = self.table.len() - 1;
        let sigmas = if !spacing.is_diffusers() {
            let table = SigmaTable {
                entries: self.table.len(),
                sigma: &|place| self.sigma(place),
                end: 0.0,
            };
            table_sigmas(spacing, num_steps, &table)
        } else if is_dpm && spacing != SigmaSchedule::Model {
            // Between the ends of the whole table.
            spaced(
                spacing,
                linspace(self.table[last], self.table[0], num_steps),
            )
        } else {
            let own = self.timesteps(num_steps, is_dpm).into_iter();
            spaced(spacing, own.map(|timestep| self.sigma(timestep)).collect())
        };
        let space = NoiseSpace::Exploding(self.config.prediction_type);
        let mut sigmas = call_sigmas(sampler, sigmas, space, 1.0);
        let is_whole = is_dpm || !spacing.is_diffusers();
        let timesteps = sigmas.iter().map(|sigma| {
            let timestep = self.timestep(f64::from(*sigma));
            let timestep = if is_whole { timestep.round() } else { timestep };
            timestep as f32
        });
        let timesteps = ModelTimesteps::Exact(timesteps.collect());
        let is_of_sigma = spacing.is_diffusers()
            && !is_dpm
            && self.config.timestep_spacing != TimestepSpacing::Leading;
        let first = sigmas.first().copied().unwrap_or(0.0);
        let initial_scale = if is_of_sigma {
            f64::from(first)
        } else {
            deviation(first)
        };
        sigmas.push(0.0);
        NoiseSchedule {
            sigmas,
            timesteps,
            space,
            initial_scale,
        }
    }

    /// Timesteps of the model's own schedule, the noisiest first. `is_dpm`: of `DPMSolverMultistepScheduler`, which divides
    /// the way into one part more.
    fn timesteps(&self, num_steps: usize, is_dpm: bool) -> Vec<f64> {
        let train = f64::from(self.config.num_train_timesteps);
        let parts = (num_steps + usize::from(is_dpm)) as f64;
        let steps = 0..num_steps;
        match self.config.timestep_spacing {
            TimestepSpacing::Leading => {
                let (stride, first) = ((train / parts).floor(), usize::from(is_dpm));
                let offset = f64::from(self.config.steps_offset);
                let steps = steps.rev().map(|i| (i + first) as f64);
                steps.map(|step| step * stride + offset).collect()
            }
            TimestepSpacing::Trailing => {
                let stride = train / num_steps as f64;
                let timestep = |i: usize| (train - i as f64 * stride).round_ties_even() - 1.0;
                steps.map(timestep).collect()
            }
            TimestepSpacing::Linspace if is_dpm => {
                let all = linspace(train - 1.0, 0.0, num_steps + 1).into_iter();
                all.take(num_steps).map(f64::round_ties_even).collect()
            }
            TimestepSpacing::Linspace => linspace(train - 1.0, 0.0, num_steps),
        }
    }

    /// Sigma at a timestep, on straight lines between the logarithms of those of training.
    fn sigma(&self, timestep: f64) -> f64 {
        let last = self.table.len() - 1;
        let place = timestep.clamp(0.0, last as f64);
        let [below, above] = [place.floor(), place.ceil()].map(|place| self.table[place as usize]);
        below * (above / below).powf(place.fract())
    }

    /// Timestep of a sigma: the inverse of [`Self::sigma`].
    fn timestep(&self, sigma: f64) -> f64 {
        let after = self.table.partition_point(|entry| *entry <= sigma);
        let below = after.saturating_sub(1).min(self.table.len() - 2);
        let [first, second] = [self.table[below], self.table[below + 1]].map(f64::ln);
        let part = (sigma.ln() - first) / (second - first);
        below as f64 + part.clamp(0.0, 1.0)
    }
}

/// Moves and stretches the roots of the image's shares so that the last one is next to nothing and the first one stays.
/// After <https://arxiv.org/abs/2305.08891>.
fn end_at_pure_noise(shares: &mut [f32]) {
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else {
        return;
    };
    let (first, last) = (first.sqrt(), last.sqrt());
    for share in &mut *shares {
        *share = ((share.sqrt() - last) * (first / (first - last))).powi(2);
    }
    if let Some(share) = shares.last_mut() {
        *share = SMALLEST_SHARE;
    }
}
