//! From noise to latents: the model's answers, real guidance by a negative prompt, checkpoints.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's. Opens no files.

use tch::{Device, Kind, Tensor};

use super::prepare::{LatentShape, image_ids, text_ids};
use super::transformer::{Context, FluxTransformer, Modulations};
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::sampling::Solver;
use crate::wan::DenoiseState;

/// A checkpoint costs a copy of the latents: rarely more than a MB.
const STEPS_PER_CHECKPOINT: usize = 4;

/// Calls whose modulations are made at once: 2 MB each for a published model in halves.
const CALLS_AT_ONCE: usize = 32;

/// What the text encoders made of one text.
pub struct TextEmbeds<'a> {
    /// `(1, T, joint_attention_dim)`, padding included
    pub prompt: &'a Tensor,
    /// `(1, pooled_projection_dim)`
    pub pooled: &'a Tensor,
}

/// What the model is given beside the noise.
pub struct Conditions<'a> {
    pub prompt: TextEmbeds<'a>,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds<'a>>,
    /// Picture and mask in models that fill, `(1, tokens, condition_channels)`.
    pub image: Option<&'a Tensor>,
}

/// Two controls that have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guidance {
    /// What the model is told, where it was trained to be.
    pub distilled: f64,
    /// How far answers to the prompt are pushed from those to the negative prompt. Up to 1 there is only one answer.
    pub scale: f64,
}

/// What all steps share.
struct Loop<'a> {
    transformer: &'a FluxTransformer,
    prompt: Context,
    negative: Option<(Context, f64)>,
    image: Option<Tensor>,
    /// Of both texts, which are equally long.
    rope: Rope,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// What the model is told in one call, in the form of each text.
struct Told {
    timestep: f32,
    prompt: Modulations,
    negative: Option<Modulations>,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(1, tokens, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU;
/// `None` when cancelled.
pub fn denoise(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: &Conditions<'_>,
    guidance: Guidance,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<DenoiseState>, EngineError> {
    tch::no_grad(|| {
        check(transformer, shape, conditions, state)?;
        let device = transformer.device();
        let calls = solver.all_calls();
        let latents = state.latents.to_device(device);
        let history = state.history.iter().map(|past| past.to_device(device));
        if !solver.restore(state.step, history.collect()) {
            return Err(EngineError::Internal {
                reason: "the state to go on from is not this sampler's".to_owned(),
            });
        }
        if state.step == calls.start {
            capture.put("latents.initial", &latents);
            capture.put("timesteps", &solver.timesteps());
            capture.put("sigmas", &Tensor::from_slice(solver.sigmas()));
        }
        let run = Loop::new(transformer, shape, conditions, guidance, capture, hooks);
        let Some(latents) = run.walk(latents, state.step, solver, capture)? else {
            return Ok(None);
        };
        capture.put("latents.final", &latents);
        Ok(Some(DenoiseState {
            step: calls.end,
            latents: latents.to_device(Device::Cpu),
            history: Vec::new(),
        }))
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: &Conditions<'_>,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let fits = |xs: &Tensor, size: &[i64]| {
        let found = xs.size();
        let same = |(found, wanted): (&i64, &i64)| *wanted < 0 || found == wanted;
        found.len() == size.len() && found.iter().zip(size).all(same) && xs.numel() > 0
    };
    let tokens = shape.tokens();
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let text_len = conditions.prompt.prompt.size().get(1).copied().unwrap_or(0);
    let are_texts_fit = texts.into_iter().flatten().all(|text| {
        fits(text.prompt, &[1, text_len, config.joint_attention_dim])
            && fits(text.pooled, &[1, config.pooled_projection_dim])
    });
    let image_channels = config.condition_channels();
    let reason = if !fits(&state.latents, &[1, tokens, config.out_channels()]) {
        format!(
            "these are no latents of this model: {:?}",
            state.latents.size()
        )
    } else if !are_texts_fit {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if (image_channels > 0) != conditions.image.is_some()
        || conditions
            .image
            .is_some_and(|image| !fits(image, &[1, tokens, image_channels]))
    {
        format!("this model reads {image_channels} numbers of a picture with each token")
    } else {
        return Ok(());
    };
    Err(EngineError::Internal { reason })
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a FluxTransformer,
        shape: LatentShape,
        conditions: &Conditions<'_>,
        guidance: Guidance,
        capture: &mut Capture,
        hooks: &'a dyn Hooks,
    ) -> Self {
        let read = |text: &TextEmbeds<'_>| {
            transformer.context(text.prompt, text.pooled, guidance.distilled)
        };
        let txt_ids = text_ids(conditions.prompt.prompt.size()[1]);
        let img_ids = image_ids(shape);
        capture.put("text_ids", &txt_ids);
        capture.put("latent_image_ids", &img_ids);
        let negative = conditions.negative.as_ref();
        Self {
            prompt: read(&conditions.prompt),
            negative: negative
                .filter(|_| guidance.scale > 1.0)
                .map(|text| (read(text), guidance.scale)),
            image: conditions
                .image
                .map(|image| image.to_device(transformer.device()).to_kind(Kind::Float)),
            rope: transformer.rope(&txt_ids, &img_ids),
            transformer,
            shape,
            hooks,
        }
    }

    /// From `first` to the solver's last call.
    fn walk(
        &self,
        mut latents: Tensor,
        first: usize,
        solver: &mut Solver,
        capture: &mut Capture,
    ) -> Result<Option<Tensor>, EngineError> {
        let wanted = solver.steps();
        let calls = solver.all_calls();
        let mut asked = Vec::new();
        for call in first..calls.end {
            if self.hooks.cancelled() {
                return Ok(None);
            }
            if asked.is_empty() || call % CALLS_AT_ONCE == 0 {
                asked = self.modulations(call / CALLS_AT_ONCE * CALLS_AT_ONCE, solver);
            }
            // As the reference counts them: from the first that is made.
            let number = call - calls.start;
            capture.put(
                format!("step.{number:02}.timestep"),
                &solver.timesteps().get(call as i64),
            );
            let told = &asked[call % CALLS_AT_ONCE];
            let Some(velocity) = self.velocity(&latents, told, number, capture) else {
                return Ok(None);
            };
            let next = solver.step(call, &velocity, &latents);
            latents = next.latents;
            capture.put(format!("step.{number:02}.noise_pred"), &velocity);
            capture.put(format!("step.{number:02}.latents"), &latents);
            if !solver.is_step_end(call) {
                continue;
            }
            self.check_numbers(&latents)?;
            let done = solver.step_of(call + 1) - wanted.start;
            self.hooks.step(done, wanted.len());
            self.hooks
                .preview(&self.shape.unpack(&next.x0).unsqueeze(2));
            if done.is_multiple_of(STEPS_PER_CHECKPOINT) && call + 1 < calls.end {
                self.checkpoint(call + 1, &latents, solver, capture);
            }
        }
        Ok(Some(latents))
    }

    /// What the model is told in the calls from `first` on. Counted in the whole schedule and not from where a run
    /// begins, so that one that goes on from a checkpoint gets the same numbers.
    fn modulations(&self, first: usize, solver: &Solver) -> Vec<Told> {
        let last = solver.timesteps().size()[0] as usize;
        let calls = first..last.min(first + CALLS_AT_ONCE);
        let timesteps: Vec<f32> = calls.map(|call| solver.timestep(call)).collect();
        let of = |context| self.transformer.modulations(&timesteps, context);
        let mut negative = self.negative.iter().flat_map(|(context, _)| of(context));
        let prompt = of(&self.prompt).into_iter().zip(&timesteps);
        prompt
            .map(|(prompt, &timestep)| Told {
                timestep,
                prompt,
                negative: negative.next(),
            })
            .collect()
    }

    /// Latents that are no numbers would become a black picture at the end of the job.
    fn check_numbers(&self, latents: &Tensor) -> Result<(), EngineError> {
        if latents.isfinite().all().int64_value(&[]) == 1 {
            return Ok(());
        }
        let (kind, device) = (self.transformer.kind(), self.transformer.device());
        Err(EngineError::Request {
            reason: format!(
                "the latents are no numbers any more, computed in {kind:?} on {device:?}: try another dtype"
            ),
        })
    }

    fn checkpoint(&self, call: usize, latents: &Tensor, solver: &Solver, capture: &Capture) {
        // A run that goes on from here records only the steps behind it.
        if let Err(err) = capture.finish() {
            self.hooks
                .warn(format!("the capture could not be written: {err}"));
        }
        self.hooks.checkpoint(DenoiseState {
            step: call,
            latents: latents.shallow_clone(),
            history: solver.history(),
        });
    }

    /// The model's guided answer, `(1, tokens, 4 C)` in f32.
    fn velocity(
        &self,
        latents: &Tensor,
        told: &Told,
        number: usize,
        capture: &mut Capture,
    ) -> Option<Tensor> {
        let input = match &self.image {
            Some(image) => Tensor::cat(&[latents, image], 2),
            None => latents.shallow_clone(),
        };
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(format!("step.{number:02}.transformer.{part}"), xs);
        };
        put("in.hidden_states", &input);
        put(
            "in.timestep",
            &Tensor::from_slice(&[told.timestep / 1000.0]),
        );
        let ask = |context, modulations| {
            self.transformer
                .forward(&input, modulations, context, &self.rope, self.hooks)
        };
        let cond = ask(&self.prompt, &told.prompt)?;
        put("cond", &cond);
        let (Some((negative, scale)), Some(modulations)) = (&self.negative, &told.negative) else {
            return Some(cond);
        };
        let uncond = ask(negative, modulations)?;
        put("uncond", &uncond);
        Some(&uncond + (cond - &uncond) * *scale)
    }
}
