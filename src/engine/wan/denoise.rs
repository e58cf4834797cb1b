//! Stage 3, the loop from noise to latents: guidance, the given first frame, checkpoints.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's.

use safelight_core::job::{GenerateRequest, Sampler};
use tch::{Kind, Tensor};

use super::config::{SchedulerConfig, WanConfig};
use super::prepare::{LatentShape, TokenTimesteps, first_frame_mask, with_first_frame};
use super::state::{DenoiseState, PromptEmbeds};
use super::transformer::{TextContext, WanTransformer};
use super::{Placement, keys, warn_unexpected};
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::sampling::{
    Algorithm, DpmPp2m, End, Euler, Heun, Lcm, Solver, UniPc, UniPcOptions, noise,
};

/// A checkpoint costs a copy of the latents and their history: rarely more than a few MB.
const STEPS_PER_CHECKPOINT: usize = 4;

/// What all steps of one job share.
struct Loop<'a> {
    transformer: WanTransformer,
    prompt: TextContext,
    negative: Option<TextContext>,
    rope: Rope,
    guidance_scale: f64,
    /// The latents of the given first frame, `(1, C, 1, h, w)`.
    first_frame: Option<Tensor>,
    shape: LatentShape,
    patch_size: [i64; 3],
    hooks: &'a dyn Hooks,
}

/// Stage 3. `first_frame`: what [`encode_image`](super::encode_image) gave; `resume`: the last checkpoint of a run
/// that died -> `(1, C, f, h, w)` in f32 on the CPU.
pub fn denoise(
    config: &WanConfig,
    request: &GenerateRequest,
    embeds: &PromptEmbeds,
    first_frame: Option<&Tensor>,
    resume: Option<DenoiseState>,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Tensor>, EngineError> {
    tch::no_grad(|| {
        let shape = LatentShape::new(config, request.width, request.height, request.num_frames)?;
        check_inputs(config, request, embeds, first_frame, shape)?;
        let mut solver = new_solver(&config.scheduler, request)?;
        let state = start(request, shape, resume, &mut solver, place, hooks)?;
        record_start(capture, embeds, first_frame, shape, request, &solver)?;

        // 1. load the transformer
        let weights = place
            .open(&config.files.transformer)?
            .translated(keys::diffusers_from_original);
        let transformer = WanTransformer::new(&config.transformer, &weights)?;
        warn_unexpected(&weights.finish(), "transformer", hooks);

        // 2. read the texts, place the tokens
        let negative = embeds.negative.as_ref().filter(|_| request.is_guided());
        let run = Loop {
            prompt: transformer.text_context(&embeds.prompt),
            negative: negative.map(|negative| transformer.text_context(negative)),
            rope: transformer.rope(shape.size()),
            transformer,
            guidance_scale: request.guidance_scale,
            first_frame: first_frame.map(|first| first.to_device(place.device)),
            shape,
            patch_size: config.transformer.patch_size,
            hooks,
        };

        // 3. walk the schedule
        let Some(latents) = run.walk(&state, &mut solver, place, capture)? else {
            return Ok(None);
        };
        capture.put("latents.final", &latents);
        let latents = run.with_given_frame(&latents);
        Ok(Some(latents.to_device(tch::Device::Cpu)))
    })
}

impl Loop<'_> {
    fn walk(
        &self,
        state: &DenoiseState,
        solver: &mut Solver,
        place: Placement,
        capture: &mut Capture,
    ) -> Result<Option<Tensor>, EngineError> {
        let num_steps = solver.sigmas().len() - 1;
        let mut latents = state.latents.to_device(place.device);
        for step in state.step..num_steps {
            if self.hooks.cancelled() {
                return Ok(None);
            }
            let Some(velocity) = self.velocity(&latents, step, solver, capture) else {
                return Ok(None);
            };
            let next = solver.step(step, &velocity, &latents);
            latents = next.latents;
            capture.put(format!("step.{step:02}.noise_pred"), &velocity);
            capture.put(format!("step.{step:02}.latents"), &latents);
            let done = step + 1;
            self.hooks.step(done, num_steps);
            self.hooks.preview(&self.with_given_frame(&next.x0));
            if done % STEPS_PER_CHECKPOINT == 0 && done < num_steps {
                // A run that goes on from here records only the steps behind it.
                capture.finish()?;
                self.hooks.checkpoint(DenoiseState {
                    step: done,
                    latents: latents.shallow_clone(),
                    history: solver.history(),
                });
            }
        }
        Ok(Some(latents))
    }

    /// The model's guided answer, `(1, C, f, h, w)` in f32.
    fn velocity(
        &self,
        latents: &Tensor,
        step: usize,
        solver: &Solver,
        capture: &mut Capture,
    ) -> Option<Tensor> {
        let timestep = solver.timestep(step);
        let (per_frame, frames) = self.shape.tokens(self.patch_size);
        let timesteps = if self.first_frame.is_some() {
            TokenTimesteps::with_clean_start(timestep, per_frame, per_frame * (frames - 1))
        } else {
            TokenTimesteps::uniform(timestep, per_frame * frames)
        };
        let input = self.with_given_frame(latents);
        let name = |part: &str| format!("step.{step:02}.{part}");
        if capture.is_on() {
            let all = solver.timesteps();
            capture.put(name("timestep"), &all.get(step as i64));
            capture.put(name("transformer.in.hidden_states"), &input);
            capture.put(name("transformer.in.timestep"), &timesteps.per_token());
        }
        let call = |text: &TextContext| {
            self.transformer
                .forward(&input, &timesteps, text, &self.rope, self.hooks)
        };
        let cond = call(&self.prompt)?;
        capture.put(name("transformer.cond"), &cond);
        let Some(negative) = &self.negative else {
            return Some(cond);
        };
        let uncond = call(negative)?;
        capture.put(name("transformer.uncond"), &uncond);
        Some(&uncond + (cond - &uncond) * self.guidance_scale)
    }

    fn with_given_frame(&self, latents: &Tensor) -> Tensor {
        match &self.first_frame {
            Some(first) => with_first_frame(latents, first),
            None => latents.shallow_clone(),
        }
    }
}

/// The sampler and schedule that the request asks for, with the model's own settings.
pub fn new_solver(
    scheduler: &SchedulerConfig,
    request: &GenerateRequest,
) -> Result<Solver, EngineError> {
    let num_steps = request.num_steps as usize;
    let shift = request.shift.unwrap_or_else(|| scheduler.shift());
    if num_steps == 0 || !shift.is_finite() || shift <= 0.0 {
        return Err(EngineError::Request {
            reason: format!("cannot make a schedule of {num_steps} steps with a shift of {shift}"),
        });
    }
    let train = scheduler.num_train_timesteps;
    let unipc = |is_bh1| {
        let options = UniPcOptions {
            num_train_timesteps: train,
            order: scheduler.solver_order,
            is_bh1,
            lower_order_final: scheduler.lower_order_final,
            end: match scheduler.final_sigmas_type.as_str() {
                "sigma_min" => End::SigmaMin,
                _ => End::Zero,
            },
            disable_corrector: scheduler.disable_corrector.clone(),
        };
        Algorithm::UniPc(UniPc::new(num_steps, shift, options))
    };
    let algorithm = match request.sampler {
        Sampler::UniPc => unipc(scheduler.solver_type == "bh1"),
        Sampler::UniPcBh1 => unipc(true),
        Sampler::Euler => Algorithm::Euler(Euler::new(num_steps, shift, train)),
        Sampler::Heun => Algorithm::Heun(Heun::new(num_steps, shift, train)),
        Sampler::DpmPp2m => Algorithm::DpmPp2m(DpmPp2m::new(num_steps, shift, train)),
        Sampler::Lcm => Algorithm::Lcm(Lcm::new(num_steps, shift, train, request.seed)),
    };
    let start = request.start_step as usize;
    let end = request.end_step.map_or(num_steps, |end| end as usize);
    Solver::new(algorithm, start..end).ok_or_else(|| EngineError::Request {
        reason: format!("cannot make the steps from {start} to {end} of {num_steps}"),
    })
}

/// Noise, or the checkpoint where it fits this job.
fn start(
    request: &GenerateRequest,
    shape: LatentShape,
    resume: Option<DenoiseState>,
    solver: &mut Solver,
    place: Placement,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    if let Some(state) = resume {
        let fits = |tensor: &Tensor| tensor.size() == shape.size() && tensor.kind() == Kind::Float;
        let is_ours = state.step <= request.num_steps as usize
            && fits(&state.latents)
            && state.history.iter().all(fits);
        let history = state
            .history
            .iter()
            .map(|tensor| tensor.to_device(place.device));
        if is_ours && solver.restore(state.step, history.collect()) {
            return Ok(state);
        }
        hooks.warn("the saved state is of another job; starting from the first step".to_owned());
    }
    Ok(DenoiseState {
        step: 0,
        latents: noise(&shape.size(), request.seed)?,
        history: Vec::new(),
    })
}

/// What comes from files of other stages is checked before anything is loaded.
fn check_inputs(
    config: &WanConfig,
    request: &GenerateRequest,
    embeds: &PromptEmbeds,
    first_frame: Option<&Tensor>,
    shape: LatentShape,
) -> Result<(), EngineError> {
    let text = |embeds: &Tensor| {
        embeds.dim() == 3
            && embeds.size()[0] == 1
            && embeds.size()[1] >= 1
            && embeds.size()[2] == config.transformer.text_dim
    };
    let is_guided = request.is_guided();
    let problem = if !text(&embeds.prompt) || !embeds.negative.as_ref().is_none_or(text) {
        "the embeddings are not of this model"
    } else if is_guided && embeds.negative.is_none() {
        "the negative prompt has not been read"
    } else if first_frame.is_some()
        && (!config.files.expand_timesteps || config.transformer.patch_size[0] != 1)
    {
        "this model cannot start from a picture"
    } else if first_frame
        .is_some_and(|first| first.size() != [1, shape.channels, 1, shape.height, shape.width])
    {
        "the picture's latents are not of this job"
    } else {
        return Ok(());
    };
    Err(EngineError::Internal {
        reason: problem.to_owned(),
    })
}

fn record_start(
    capture: &mut Capture,
    embeds: &PromptEmbeds,
    first_frame: Option<&Tensor>,
    shape: LatentShape,
    request: &GenerateRequest,
    solver: &Solver,
) -> Result<(), EngineError> {
    if !capture.is_on() {
        return Ok(());
    }
    let drawn = noise(&shape.size(), request.seed)?;
    capture.put("noise.0", &drawn);
    capture.put("latents.initial", &drawn);
    capture.put("timesteps", &solver.timesteps());
    capture.put("sigmas", &Tensor::from_slice(solver.sigmas()));
    let name = |branch| format!("transformer.in.{branch}.encoder_hidden_states");
    capture.put(name("cond"), &embeds.prompt);
    if let Some(negative) = &embeds.negative {
        capture.put(name("uncond"), negative);
    }
    if let Some(first) = first_frame {
        capture.put("condition", first);
        capture.put("first_frame_mask", &first_frame_mask(shape));
    }
    Ok(())
}
