//! The denoising loop of every family, its checkpoints and its captures.
//!
//! Samplers compute steps; families predict with guidance.

use std::cell::{Ref, RefCell};
use std::path::Path;

use tch::{Device, Kind, Tensor};

use crate::capture::StageCapture;
use crate::error::EngineError;
use crate::fault::{self, FaultSite};
use crate::hooks::{DenoiseState, Hooks};
use crate::parallel::check_ranks;
use crate::placement::{ComputePlacement, dtype_name};
use crate::runtime::disable_fused_attention;
use crate::sampling::Solver;
use crate::tensor_files::{self, TensorFile};

/// A checkpoint costs a copy of the latents and their history: rarely more than a few MB.
const STEPS_PER_CHECKPOINT: usize = 4;

/// Calls whose modulation is computed together: 2 MB each for a published model in half precision.
const CALLS_AT_ONCE: usize = 32;

/// A model with its conditioning. Latents are `(1, C, f, h, w)` or in any form of the family.
pub trait Denoiser {
    /// Guided velocity, as large as the latents and in f32; `None` when cancelled.
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor>;

    /// Changes the latents between two steps; `sigma`: their noise level.
    fn after_step(&self, latents: Tensor, _sigma: f32) -> Tensor {
        latents
    }

    /// Offset of call numbers in captures; `first`: index of the first call.
    fn first_captured_call(&self, _first: usize) -> usize {
        0
    }

    /// Latents for [`Hooks::preview`]: `(1, C, f, h, w)`
    fn preview_latents(&self, x0: &Tensor) -> Tensor;
}

pub struct ModelCall {
    /// Counted from 0 in the whole schedule.
    pub index: usize,
    /// Number in captures.
    pub number: usize,
    /// Step of those to run, counted from 0; a step may have several calls.
    pub step: usize,
    pub num_steps: usize,
    pub timestep: f32,
    /// Noise level.
    pub sigma: f32,
    /// Timestep with diffusers' dtype: `()`
    pub timestep_tensor: Tensor,
}

impl ModelCall {
    pub fn name(&self, part: &str) -> String {
        format!("step.{:02}.{part}", self.number)
    }
}

/// Modulation for a range of calls, computed together.
pub struct ModulationCache<M>(RefCell<(usize, Vec<M>)>);

impl<M> Default for ModulationCache<M> {
    fn default() -> Self {
        Self(RefCell::new((0, Vec::new())))
    }
}

impl<M> ModulationCache<M> {
    /// Modulation for the timestep of `call`; `timesteps`: of every call of the whole schedule. `make` gets fixed parts of
    /// the schedule, not the calls from the run's first one, so that a resumed run computes equal values.
    pub fn at(
        &self,
        call: usize,
        timesteps: &[f32],
        make: impl FnOnce(&[f32]) -> Vec<M>,
    ) -> Ref<'_, M> {
        let first = call / CALLS_AT_ONCE * CALLS_AT_ONCE;
        let is_at_hand = {
            let told = self.0.borrow();
            told.0 == first && !told.1.is_empty()
        };
        if !is_at_hand {
            let last = timesteps.len().min(first + CALLS_AT_ONCE);
            self.0.replace((first, make(&timesteps[first..last])));
        }
        Ref::map(self.0.borrow(), |(first, told)| &told[call - first])
    }
}

impl DenoiseState {
    pub fn first(solver: &Solver, latents: Tensor) -> Self {
        Self {
            step: solver.all_calls().start,
            latents,
            history: Vec::new(),
        }
    }

    /// State of an earlier run if it belongs to this loop, else the first one with `latents`, in f32.
    pub fn new(
        resume: Option<Self>,
        latents: Tensor,
        solver: &mut Solver,
        device: Device,
        hooks: &dyn Hooks,
    ) -> Self {
        let size = latents.size();
        let resumed = resume.and_then(|state| state.resumed(&size, solver, device, hooks));
        resumed.unwrap_or_else(|| Self::first(solver, latents))
    }

    /// State after the last call: on the CPU, without history.
    pub fn last(self) -> Self {
        Self {
            step: self.step,
            latents: self.latents.to_device(Device::Cpu),
            history: Vec::new(),
        }
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![
            ("step".to_owned(), Tensor::from(self.step as i64)),
            ("latents".to_owned(), self.latents.shallow_clone()),
        ];
        for (i, tensor) in self.history.iter().enumerate() {
            tensors.push((format!("history.{i:02}"), tensor.shallow_clone()));
        }
        tensor_files::write(path, tensors.iter().map(|(name, tensor)| (name, tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = TensorFile::read(path)?;
        let step = stored.take("step")?;
        let is_number = step.kind() == Kind::Int64 && step.numel() == 1;
        let number = is_number.then(|| usize::try_from(step.int64_value(&[])).ok());
        let Some(step) = number.flatten() else {
            return Err(stored.incomplete("its step is no number"));
        };
        let latents = stored.take("latents")?;
        // Sorted by name, so the history comes in its order.
        let history = stored
            .rest()
            .filter(|(name, _)| name.starts_with("history."));
        Ok(Self {
            step,
            latents,
            history: history.map(|(_, tensor)| tensor).collect(),
        })
    }

    /// This state with the solver restored to it, if its latents have `size`; else `None` with a warning.
    fn resumed(
        self,
        size: &[i64],
        solver: &mut Solver,
        device: Device,
        hooks: &dyn Hooks,
    ) -> Option<Self> {
        let fits = |tensor: &Tensor| tensor.size() == size && tensor.kind() == Kind::Float;
        let is_ours = fits(&self.latents) && self.history.iter().all(fits);
        let history = self.history.iter().map(|past| past.to_device(device));
        if is_ours && solver.restore(self.step, history.collect()) {
            return Some(self);
        }
        hooks.warn("the saved state is from another job; starting from the first step".to_owned());
        None
    }
}

pub fn record_start(latents: &Tensor, solver: &Solver, capture: &mut StageCapture) {
    capture.put("latents.initial", latents);
    capture.put("timesteps", &solver.timesteps());
    capture.put("sigmas", &Tensor::from_slice(solver.sigmas()));
}

/// Restores the solver to `state`, and records it if it is the first.
pub fn begin(
    state: &DenoiseState,
    solver: &mut Solver,
    device: Device,
    capture: &mut StageCapture,
) -> Result<(), EngineError> {
    let history = state.history.iter().map(|past| past.to_device(device));
    if !solver.restore(state.step, history.collect()) {
        return Err(EngineError::internal(
            "the state to go on from is not this sampler's",
        ));
    }
    if state.step == solver.all_calls().start {
        record_start(&state.latents, solver, capture);
    }
    Ok(())
}

/// Returns whether `xs` has this size, where a negative number is any number, and is not empty.
pub fn fits(xs: &Tensor, size: &[i64]) -> bool {
    let found = xs.size();
    let same = |(found, wanted): (&i64, &i64)| *wanted < 0 || found == wanted;
    found.len() == size.len() && found.iter().zip(size).all(same) && xs.numel() > 0
}

/// Refuses a result of an earlier stage that is not of this job; `size`: see [`fits`], `None` where the job has no such
/// result.
pub fn check_result(
    what: &str,
    found: Option<&Tensor>,
    size: Option<&[i64]>,
) -> Result<(), EngineError> {
    match (found, size) {
        (None, None) => Ok(()),
        (Some(found), Some(size)) if fits(found, size) => Ok(()),
        (None, Some(_)) => Err(EngineError::internal(format!("{what} are missing"))),
        _ => Err(EngineError::internal(format!("{what} are not of this job"))),
    }
}

/// Runs the solver's calls from `state` to `end` -> the state after them, on the device.
pub fn walk(
    model: &dyn Denoiser,
    state: &DenoiseState,
    end: usize,
    solver: &mut Solver,
    place: ComputePlacement,
    capture: &mut StageCapture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    let (wanted, calls) = (solver.steps(), solver.all_calls());
    let mut latents = state.latents.to_device(place.device);
    // After the last whole step, if not on the disk: it may have taken minutes.
    let mut unsaved: Option<DenoiseState> = None;
    let stopped = |unsaved: Option<DenoiseState>, capture: &StageCapture| {
        if let Some(state) = unsaved {
            keep(state, capture, hooks);
        }
        EngineError::Cancelled
    };
    for index in state.step..end {
        if hooks.cancelled() {
            return Err(stopped(unsaved, capture));
        }
        let call = ModelCall {
            index,
            number: index - model.first_captured_call(calls.start),
            step: solver.step_of(index).saturating_sub(wanted.start),
            num_steps: wanted.len(),
            timestep: solver.timestep(index),
            sigma: solver.sigmas()[index],
            timestep_tensor: solver.timesteps().get(index as i64),
        };
        capture.put(call.name("timestep"), &call.timestep_tensor);
        let Some(mut velocity) = model.velocity(&latents, &call, capture) else {
            return Err(stopped(unsaved, capture));
        };
        // Some kernels of attention are wrong on some GPUs, from the first call on.
        if index == state.step && !is_finite(&velocity) && disable_fused_attention() {
            hooks.warn(
                "the first step gave invalid numbers (NaN): it runs again with sliced attention, as do all others"
                    .to_owned(),
            );
            let Some(again) = model.velocity(&latents, &call, capture) else {
                return Err(stopped(unsaved, capture));
            };
            velocity = again;
        }
        fault::at(FaultSite::Sampler);
        let next = solver.step(index, &velocity, &latents);
        latents = next.latents;
        capture.put(call.name("noise_pred"), &velocity);
        capture.put(call.name("latents"), &latents);
        if index + 1 == calls.end {
            capture.put("latents.final", &latents);
        }
        if !solver.is_step_end(index) {
            continue;
        }
        latents = model.after_step(latents, solver.sigmas()[index + 1]);
        check_numbers(&latents, place)?;
        check_ranks()?;
        let done = solver.step_of(index + 1) - wanted.start;
        hooks.step(done, wanted.len());
        hooks.preview(&model.preview_latents(&next.x0));
        if index + 1 < end {
            unsaved = Some(DenoiseState {
                step: index + 1,
                latents: latents.shallow_clone(),
                history: solver.history(),
            });
        }
        if done.is_multiple_of(STEPS_PER_CHECKPOINT)
            && let Some(state) = unsaved.take()
        {
            keep(state, capture, hooks);
        }
    }
    Ok(DenoiseState {
        step: end,
        latents,
        history: solver.history(),
    })
}

/// Writes a checkpoint. A run that resumes here records only later steps.
fn keep(state: DenoiseState, capture: &StageCapture, hooks: &dyn Hooks) {
    if let Err(err) = capture.finish() {
        hooks.warn(format!("the capture could not be written: {err}"));
    }
    hooks.checkpoint(state);
}

fn is_finite(xs: &Tensor) -> bool {
    xs.isfinite().all().int64_value(&[]) == 1
}

/// Latents of NaN would become a black image at the end of the job.
fn check_numbers(latents: &Tensor, place: ComputePlacement) -> Result<(), EngineError> {
    if is_finite(latents) {
        return Ok(());
    }
    let numbers = dtype_name(place.kind);
    Err(EngineError::request(format!(
        "the result became invalid (NaN) in {numbers}: try another dtype, the model's own shift, or no LoRA"
    )))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use safelight_core::compute::conv_backends::ConvBackend;
    use safelight_core::compute::{AttentionChoice, ComputeOptions};
    use safelight_core::job::SamplerKind;

    use super::*;
    use crate::runtime::{attention_choice, use_compute_options};
    use crate::sampling::{NoiseSchedule, SamplerAlgorithm, UniPcOptions};

    /// A model whose fused attention gives no numbers.
    struct Broken {
        /// Nor does the sliced one.
        is_hopeless: bool,
        calls: Cell<usize>,
    }

    impl Denoiser for Broken {
        fn velocity(
            &self,
            latents: &Tensor,
            _: &ModelCall,
            _: &mut StageCapture,
        ) -> Option<Tensor> {
            self.calls.set(self.calls.get() + 1);
            let is_well = attention_choice() == AttentionChoice::Sliced && !self.is_hopeless;
            Some(latents * if is_well { 0.5 } else { f64::NAN })
        }

        fn preview_latents(&self, x0: &Tensor) -> Tensor {
            x0.shallow_clone()
        }
    }

    #[derive(Default)]
    struct Warnings(RefCell<Vec<String>>);

    impl Hooks for Warnings {
        fn warn(&self, message: String) {
            self.0.borrow_mut().push(message);
        }
    }

    /// How three steps end, the calls of the model that they made, and the warnings.
    fn run(
        is_hopeless: bool,
        attention: AttentionChoice,
    ) -> (Result<Tensor, EngineError>, usize, Vec<String>) {
        let place = ComputePlacement::new(Device::Cpu, Kind::Float);
        let options = ComputeOptions {
            attention,
            ..ComputeOptions::default()
        };
        let _guard = use_compute_options(place.device, ConvBackend::Direct, options);
        let model = Broken {
            is_hopeless,
            calls: Cell::default(),
        };
        let schedule = NoiseSchedule::of_sigmas(vec![1.0, 0.9, 0.6], 1000);
        let options = UniPcOptions::default();
        let euler = SamplerAlgorithm::new(SamplerKind::Euler, schedule, options, 1);
        let mut solver = Solver::new(euler, 0..3).unwrap();
        let state = DenoiseState {
            step: 0,
            latents: Tensor::ones([1, 2, 1, 3, 3], (Kind::Float, Device::Cpu)),
            history: Vec::new(),
        };
        let (mut capture, hooks) = (StageCapture::off(), Warnings::default());
        let end = walk(&model, &state, 3, &mut solver, place, &mut capture, &hooks);
        let end = end.map(|state| state.latents);
        (end, model.calls.get(), hooks.0.into_inner())
    }

    #[test]
    fn a_first_step_without_numbers_is_computed_again_with_sliced_attention() {
        let (end, calls, warnings) = run(false, AttentionChoice::Auto);
        assert!(is_finite(&end.unwrap()));
        assert_eq!(calls, 4, "three steps and the first one again");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("sliced attention"), "{warnings:?}");
        // The next stage begins with what its user chose.
        assert_eq!(attention_choice(), AttentionChoice::Auto);
    }

    #[test]
    fn nan_latents_end_the_job_after_a_retry_with_sliced_attention() {
        for (attention, expected) in [(AttentionChoice::Auto, 2), (AttentionChoice::Sliced, 1)] {
            let (end, calls, _) = run(true, attention);
            let text = end.unwrap_err().to_string();
            assert!(text.contains("invalid (NaN)"), "{text}");
            assert_eq!(calls, expected);
        }
    }
}
