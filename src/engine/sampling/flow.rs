//! Sigmas of models with a flow-match Euler scheduler, whose shift may depend on the number of tokens, and their
//! samplers.
//!
//! The catalogue checks a scheduler's config; `sampling` has the arithmetic of a step.

use std::ops::Range;
use std::path::Path;

use safelight_core::job::{GenerateRequest, SamplerKind};
use safelight_core::networks::SchedulerConfig;
use tch::{Device, Kind, Tensor};

use super::{
    NoiseSchedule, SamplerAlgorithm, SigmaSpacing, Solver, UniPcOptions, check_schedule,
    comfy_sigmas, linspace, spaced,
};
use crate::error::EngineError;

/// A model's flow-match Euler.
#[derive(Clone, Debug)]
pub struct FlowSchedule {
    pub config: SchedulerConfig,
    /// Upper limit of mu, in families that have one.
    pub largest_mu: Option<f64>,
    /// Mu as a function of tokens and steps, in families whose pipelines have a separate formula.
    pub mu_by_steps: Option<fn(i64, usize) -> f64>,
    /// True if the even steps are computed in f32, as in some pipelines of diffusers: a model that receives the removed
    /// share of noise, which is small at first, depends on every bit.
    pub is_in_single: bool,
    /// True if a requested shift is the factor of an exponential, size-dependent shift.
    pub is_exponential: bool,
    /// Sigmas in place of even steps, in models that were distilled to these.
    pub sample_sigmas: Option<Vec<f32>>,
}

impl From<SchedulerConfig> for FlowSchedule {
    fn from(config: SchedulerConfig) -> Self {
        Self {
            config,
            largest_mu: None,
            mu_by_steps: None,
            is_in_single: false,
            is_exponential: false,
            sample_sigmas: None,
        }
    }
}

impl FlowSchedule {
    /// With the config of a scheduler's folder, if there is one.
    pub fn read(mut self, folder: Option<&Path>) -> Result<Self, EngineError> {
        if let Some(folder) = folder {
            self.config = SchedulerConfig::read_flow_match_euler(folder)?;
        }
        Ok(self)
    }

    pub fn num_train_timesteps(&self) -> u32 {
        self.config.num_train_timesteps
    }

    /// Mu for an image of `tokens` tokens: the larger, the later the noise is removed.
    pub fn mu(&self, tokens: i64) -> f64 {
        let config = &self.config;
        let range = (config.max_image_seq_len - config.base_image_seq_len) as f64;
        let slope = (config.max_shift - config.base_shift) / range;
        let offset = config.base_shift - slope * config.base_image_seq_len as f64;
        let mu = tokens as f64 * slope + offset;
        self.largest_mu.map_or(mu, |largest| mu.min(largest))
    }

    fn mu_of(&self, tokens: i64, num_steps: usize) -> f64 {
        self.mu_by_steps
            .map_or_else(|| self.mu(tokens), |of| of(tokens, num_steps))
    }

    /// Schedule for an image of `tokens` tokens, with the rounding of diffusers: even steps from 1 to `1 / num_steps`,
    /// shifted, and 0.
    pub fn schedule(&self, num_steps: usize, tokens: i64) -> NoiseSchedule {
        let (end, count) = (1.0 / num_steps as f64, num_steps as i64);
        let even: Vec<f32> = if let Some(sigmas) = &self.sample_sigmas {
            resampled(sigmas, num_steps)
        } else if self.is_in_single {
            let even = Tensor::linspace(1.0, end, count, (Kind::Float, Device::Cpu));
            even.try_into().unwrap_or_default()
        } else {
            let even = linspace(1.0, end, num_steps).into_iter();
            even.map(|sigma| sigma as f32).collect()
        };
        let (shift, mu) = (self.fixed_shift(), self.mu_of(tokens, num_steps));
        let is_linear = self.config.time_shift_type == "linear";
        let is_dynamic = self.config.use_dynamic_shifting;
        let factor = if !is_dynamic {
            shift as f32
        } else if is_linear {
            mu as f32
        } else {
            mu.exp() as f32
        };
        let sigmas = even.into_iter().map(|sigma| {
            if is_dynamic || self.is_exponential {
                factor / (factor + (1.0 / sigma - 1.0))
            } else {
                shift as f32 * sigma / (1.0 + (shift - 1.0) as f32 * sigma)
            }
        });
        let sigmas = self.stretched(sigmas.collect());
        NoiseSchedule::of_sigmas(sigmas, self.config.num_train_timesteps)
    }

    /// Sigmas stretched to the config's end, before the final 0. A single one, which is 1, stays.
    fn stretched(&self, mut sigmas: Vec<f32>) -> Vec<f32> {
        let last = sigmas.last().map_or(0.0, |last| 1.0 - last);
        if let Some(terminal) = self.config.terminal().filter(|_| last > 0.0) {
            let factor = last / (1.0 - terminal) as f32;
            for sigma in &mut sigmas {
                *sigma = 1.0 - (1.0 - *sigma) / factor;
            }
        }
        sigmas
    }

    /// Sampler of a request for an image of `tokens` tokens and some of the steps, with the sigmas that diffusers'
    /// `FluxPipeline` uses. The request's shift is a fixed one.
    ///
    /// Along the model's own sigmas, diffusers' UniPC and DPM++ compute theirs, with the same shift and hardly different,
    /// if nothing is stretched; all others (some of which diffusers does not offer with Flux) use
    /// [`FlowSchedule::schedule`].
    pub fn solver(
        &self,
        request: &GenerateRequest,
        tokens: i64,
        steps: Range<usize>,
    ) -> Result<Solver, EngineError> {
        let own = self.of_request(request);
        let num_steps = request.sampling.num_steps as usize;
        let shift = own.shift_factor(tokens, num_steps);
        check_schedule(num_steps, shift)?;
        Solver::of_steps(own.algorithm(request, tokens), steps, num_steps)
    }

    /// Schedule with the request's shift, if any: a fixed one, or one by the number of tokens.
    pub fn of_request(&self, request: &GenerateRequest) -> Self {
        let mut own = self.clone();
        let config = &mut own.config;
        config.shift = request.sampling.shift.or(config.shift);
        // The schedule is as the request has it: what was distilled to few steps is not stretched either.
        config.shift_terminal = config
            .shift_terminal
            .filter(|_| request.sampling.shift.is_none());
        config.use_dynamic_shifting = request.sampling.shift.is_none()
            && (config.use_dynamic_shifting || request.sampling.dynamic_shift);
        own
    }

    /// Sigmas for an image of `tokens` tokens with the requested spacing, without the final 0.
    pub fn spaced(&self, request: &GenerateRequest, tokens: i64) -> Vec<f64> {
        let spacing = self.spacing(request, tokens);
        // ComfyUI's table is as fine for models whose shift depends on the size.
        let is_dynamic = self.config.use_dynamic_shifting || self.is_exponential;
        let entries = spacing
            .num_train_timesteps
            .saturating_mul(if is_dynamic { 10 } else { 1 });
        if let Some(sigmas) = comfy_sigmas(&spacing, entries) {
            return sigmas;
        }
        let mut simple = self
            .schedule(request.sampling.num_steps as usize, tokens)
            .sigmas;
        simple.pop();
        let simple = simple.into_iter().map(f64::from).collect();
        spaced(spacing.schedule, simple)
    }

    fn algorithm(&self, request: &GenerateRequest, tokens: i64) -> SamplerAlgorithm {
        let spacing = self.spacing(request, tokens);
        let (sampler, unipc) = (request.sampling.sampler, UniPcOptions::default());
        let has_own_sigmas = matches!(
            sampler,
            SamplerKind::UniPc | SamplerKind::UniPcBh1 | SamplerKind::DpmPp2mDiffusers
        );
        let is_plain = self.config.terminal().is_none() && self.sample_sigmas.is_none();
        if has_own_sigmas && spacing.schedule.is_diffusers() && is_plain {
            return SamplerAlgorithm::spaced(sampler, &spacing, unipc, request.seed);
        }
        let sigmas = self.spaced(request, tokens);
        SamplerAlgorithm::along(sampler, sigmas, &spacing, unipc, request.seed)
    }

    fn spacing(&self, request: &GenerateRequest, tokens: i64) -> SigmaSpacing {
        let num_steps = request.sampling.num_steps as usize;
        SigmaSpacing {
            schedule: request.sampling.sigma_schedule,
            num_steps,
            shift: self.shift_factor(tokens, num_steps),
            num_train_timesteps: self.config.num_train_timesteps,
        }
    }

    fn fixed_shift(&self) -> f64 {
        self.config.shift.unwrap_or(1.0)
    }

    /// The shift as other schedulers have it: fixed, or what the dynamic one comes to.
    fn shift_factor(&self, tokens: i64, num_steps: usize) -> f64 {
        let config = &self.config;
        match (config.use_dynamic_shifting, config.time_shift_type.as_str()) {
            (false, _) => self.fixed_shift(),
            (true, "linear") => self.mu_of(tokens, num_steps),
            (true, _) => self.mu_of(tokens, num_steps).exp(),
        }
    }
}

/// A schedule that ends at 0 with another number of steps: the sigmas between its own lie on straight lines.
fn resampled(sigmas: &[f32], num_steps: usize) -> Vec<f32> {
    let at = |index: usize| sigmas.get(index).copied().unwrap_or(0.0);
    let sigmas = (0..num_steps).map(|step| {
        let place = (step * sigmas.len()) as f32 / num_steps as f32;
        let (before, part) = (place as usize, place.fract());
        at(before) + (at(before + 1) - at(before)) * part
    });
    sigmas.collect()
}
