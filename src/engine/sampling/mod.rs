//! Samplers and their sigma schedules: pure arithmetic on latents.
//!
//! Families handle models, guidance and the use of noise.
//!
//! A *call* is one evaluation of the model, a *step* what the user counts. Indices here are calls, as in diffusers'
//! timesteps; the steps of some samplers have two, see [`Solver::calls`] and [`Solver::is_step_end`].

mod comfy;
mod discrete;
mod flow;
mod noise;
mod schedule;
mod space;
mod steps;
mod unipc;

use std::ops::Range;

use comfy::comfy_sigmas;
use safelight_core::job::{GenerateRequest, SamplerKind};
use schedule::flow_match_sigmas;
use steps::{WeightedSampler, call_sigmas};
use tch::Tensor;
use unipc::UniPc;

use crate::error::EngineError;

pub use discrete::DiscreteSchedule;
pub use flow::FlowSchedule;
pub use noise::{CpuGenerator, noise};
pub use schedule::{ModelTimesteps, NoiseSchedule, ScheduleEnd, SigmaSpacing, linspace, spaced};
pub use space::NoiseSpace;
pub use unipc::UniPcOptions;

pub struct StepOutput {
    pub latents: Tensor,
    /// Predicted latents without noise.
    pub x0: Tensor,
}

/// A call, of those along a schedule.
struct CallIndex<'a> {
    schedule: &'a NoiseSchedule,
    call: usize,
    /// Number of calls since the initial latents.
    done: usize,
}

impl CallIndex<'_> {
    fn sigmas(&self) -> (f32, f32) {
        let sigmas = &self.schedule.sigmas;
        (sigmas[self.call], sigmas[self.call + 1])
    }
}

/// The arithmetic of calls, and what it keeps between two of them.
trait SamplerStep {
    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput;

    /// State to save between two calls.
    fn history(&self) -> Vec<Tensor> {
        Vec::new()
    }

    /// Takes back what [`Self::history`] gave before a call; `false` when it cannot be that.
    fn restore(&mut self, _at: &CallIndex<'_>, history: Vec<Tensor>) -> bool {
        history.is_empty()
    }

    fn calls_per_step(&self) -> usize {
        1
    }

    fn set_draws_before(&mut self, _draws: usize) {}
}

/// The arithmetic of a sampler, with its schedule.
pub struct SamplerAlgorithm {
    schedule: NoiseSchedule,
    method: Box<dyn SamplerStep>,
}

impl SamplerAlgorithm {
    /// Along the schedule of its calls; UniPC's needs sigmas below 1. `seed`: what the initial latents were drawn with.
    pub fn new(
        sampler: SamplerKind,
        schedule: NoiseSchedule,
        unipc: UniPcOptions,
        seed: u64,
    ) -> Self {
        let method: Box<dyn SamplerStep> = match sampler {
            SamplerKind::UniPc | SamplerKind::UniPcBh1 => {
                Box::new(UniPc::new(unipc.for_sampler(sampler)))
            }
            _ => Box::new(WeightedSampler::new(sampler, seed)),
        };
        Self { schedule, method }
    }

    /// Along ComfyUI's sigmas, or those that diffusers' scheduler of the sampler makes, which are not quite the same for
    /// each of them.
    pub fn spaced(
        sampler: SamplerKind,
        spacing: &SigmaSpacing,
        unipc: UniPcOptions,
        seed: u64,
    ) -> Self {
        let sigmas = comfy_sigmas(spacing, spacing.num_train_timesteps);
        let schedule = match (sampler, sigmas) {
            (SamplerKind::UniPc | SamplerKind::UniPcBh1, None) => {
                NoiseSchedule::unipc(spacing, unipc.end)
            }
            (SamplerKind::DpmPp2mDiffusers, None) => NoiseSchedule::dpm(spacing),
            (_, sigmas) => {
                let sigmas = sigmas.unwrap_or_else(|| flow_match_sigmas(spacing));
                return Self::along(sampler, sigmas, spacing, unipc, seed);
            }
        };
        Self::new(sampler, schedule, unipc, seed)
    }

    /// Along sigmas that are given, shifted already and without the 0 at the end: the same for every sampler. Of
    /// `spacing`, shift and timesteps are used.
    ///
    /// Diffusers' Euler, LCM and UniPC take such too and make the same of them. Its Heun and DPM++ do not; here they
    /// are what they are along their own, with timesteps as exact as Euler's.
    pub fn along(
        sampler: SamplerKind,
        sigmas: Vec<f64>,
        spacing: &SigmaSpacing,
        unipc: UniPcOptions,
        seed: u64,
    ) -> Self {
        let num_train_timesteps = spacing.num_train_timesteps;
        let schedule = match sampler {
            SamplerKind::UniPc | SamplerKind::UniPcBh1 => {
                NoiseSchedule::unipc_of_sigmas(sigmas, num_train_timesteps, unipc.end)
            }
            _ => {
                let sigmas = call_sigmas(sampler, sigmas, NoiseSpace::Flow, spacing.shift);
                NoiseSchedule::of_sigmas(sigmas, num_train_timesteps)
            }
        };
        Self::new(sampler, schedule, unipc, seed)
    }
}

pub fn wanted_steps(request: &GenerateRequest) -> Range<usize> {
    let end = request
        .sampling
        .end_step
        .unwrap_or(request.sampling.num_steps);
    request.sampling.start_step as usize..end as usize
}

/// Sampler of the steps that `strength` leaves for a start image or video.
pub fn steps_from_image(
    request: &GenerateRequest,
    strength: f64,
) -> Result<Range<usize>, EngineError> {
    let num_steps = request.sampling.num_steps;
    let first = request.family.first_step(num_steps, strength);
    if first >= num_steps {
        return Err(EngineError::request(format!(
            "a strength of {strength} leaves none of {num_steps} steps to make"
        )));
    }
    let wanted = wanted_steps(request);
    Ok(wanted.start.max(first as usize)..wanted.end)
}

pub fn check_schedule(num_steps: usize, shift: f64) -> Result<(), EngineError> {
    if num_steps > 0 && shift.is_finite() && shift > 0.0 {
        return Ok(());
    }
    Err(EngineError::request(format!(
        "cannot make a schedule of {num_steps} steps with a shift of {shift}"
    )))
}

pub struct Solver {
    algorithm: SamplerAlgorithm,
    steps: Range<usize>,
}

impl Solver {
    /// Makes only `steps` of the whole schedule, counted from 0. `None` when there are none such.
    pub fn new(algorithm: SamplerAlgorithm, steps: Range<usize>) -> Option<Self> {
        let solver = Self { algorithm, steps };
        let is_sound = !solver.steps.is_empty() && solver.steps.end <= solver.num_steps();
        is_sound.then_some(solver)
    }

    /// Like `check_schedule`, with an error that blames the request.
    pub fn of_steps(
        algorithm: SamplerAlgorithm,
        steps: Range<usize>,
        num_steps: usize,
    ) -> Result<Self, EngineError> {
        let Range { start, end } = steps;
        Self::new(algorithm, steps).ok_or_else(|| {
            EngineError::request(format!(
                "cannot make the steps from {start} to {end} of {num_steps}"
            ))
        })
    }

    /// Sets the number of draws of each image's generator before the first call; 1, the noise, by default. Only
    /// samplers that draw noise use it.
    pub fn set_draws_before(&mut self, draws: usize) {
        self.algorithm.method.set_draws_before(draws);
    }

    pub fn num_steps(&self) -> usize {
        self.schedule()
            .timesteps
            .count()
            .div_ceil(self.algorithm.method.calls_per_step())
    }

    /// The steps to make, of those of the whole schedule.
    pub fn steps(&self) -> Range<usize> {
        self.steps.clone()
    }

    pub fn all_calls(&self) -> Range<usize> {
        self.calls(self.steps.start).start..self.calls(self.steps.end - 1).end
    }

    /// The calls of `step`: one or, except for the last step, two.
    pub fn calls(&self, step: usize) -> Range<usize> {
        let each = self.algorithm.method.calls_per_step();
        let all = self.schedule().timesteps.count();
        step * each..((step + 1) * each).min(all)
    }

    /// Step of `call`; the number of steps for the call after the last.
    pub fn step_of(&self, call: usize) -> usize {
        if call >= self.schedule().timesteps.count() {
            return self.num_steps();
        }
        call / self.algorithm.method.calls_per_step()
    }

    pub fn is_step_end(&self, call: usize) -> bool {
        self.step_of(call + 1) > self.step_of(call)
    }

    /// One value more than there are calls in the whole schedule, as diffusers gives them.
    pub fn sigmas(&self) -> &[f32] {
        &self.schedule().sigmas
    }

    /// One value a call of the whole schedule, of the type that diffusers gives them.
    pub fn timesteps(&self) -> Tensor {
        self.schedule().timesteps.to_tensor()
    }

    /// Timestep of `call`, counted from 0 in the whole schedule.
    pub fn timestep(&self, call: usize) -> f32 {
        self.schedule().timesteps.get(call)
    }

    pub fn all_timesteps(&self) -> Vec<f32> {
        let count = self.schedule().timesteps.count();
        (0..count).map(|call| self.timestep(call)).collect()
    }

    /// Mixture of image and noise that latents are.
    pub fn space(&self) -> NoiseSpace {
        self.schedule().space
    }

    /// Initial latents of the first call. In flows they are the noise at sigma 1; a later start is an empty image with that
    /// sigma's noise, as diffusers' `scale_noise` of zeros.
    pub fn initial(&self, noise: Tensor) -> Tensor {
        match self.all_calls().start {
            0 => noise * self.schedule().initial_scale,
            call => noise * f64::from(self.sigmas()[call]),
        }
    }

    /// Does `call`, which must follow the one before.
    pub fn step(&mut self, call: usize, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (at, method) = self.call_and_method(call);
        method.step(&at, velocity, latents)
    }

    /// State to save between two calls. Samplers with two calls a step need none between two steps.
    pub fn history(&self) -> Vec<Tensor> {
        self.algorithm.method.history()
    }

    /// Takes back what [`Solver::history`] gave before `call`; `false` when it cannot be that.
    #[must_use]
    pub fn restore(&mut self, call: usize, history: Vec<Tensor>) -> bool {
        let calls = self.all_calls();
        if call < calls.start || call > calls.end {
            return false;
        }
        let (at, method) = self.call_and_method(call);
        method.restore(&at, history)
    }

    fn call_and_method(&mut self, call: usize) -> (CallIndex<'_>, &mut dyn SamplerStep) {
        let done = call - self.all_calls().start;
        let SamplerAlgorithm { schedule, method } = &mut self.algorithm;
        let at = CallIndex {
            schedule,
            call,
            done,
        };
        (at, method.as_mut())
    }

    fn schedule(&self) -> &NoiseSchedule {
        &self.algorithm.schedule
    }
}

#[cfg(test)]
mod tests;
