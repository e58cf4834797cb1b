//! The steps from noise to latents: the model's answers, guidance by a negative prompt, what a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use tch::{Device, Tensor};

use super::transformer::{Context, Modulations, ZImageTransformer};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::Guidance;
use crate::hooks::Hooks;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::stages::stills::Kept;
use crate::text::TextEmbeds;

/// What the model is given beside the noise.
pub struct Conditions {
    pub prompt: TextEmbeds,
    /// Only where the job has guidance.
    pub negative: Option<TextEmbeds>,
    /// How far answers to the prompt are pushed from those to the negative prompt; up to 1 not at all.
    pub guidance_scale: f64,
    /// What stays as it is, where a mask says so: `(B, C, h, w)`, the mask `(1, 1, h, w)`
    pub kept: Option<Kept>,
}

struct Loop<'a> {
    transformer: &'a ZImageTransformer,
    guidance: Guidance<Context>,
    told: Told<Modulations>,
    kept: Option<Kept>,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    hooks: &'a dyn Hooks,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the latents
/// `(B, C, h, w)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn sample(
    transformer: &ZImageTransformer,
    conditions: &Conditions,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        check(transformer, conditions, state)?;
        let place = Placement::new(transformer.device(), transformer.kind());
        begin(state, solver, place.device, capture)?;
        let run = Loop::new(transformer, conditions, solver, &state.latents, hooks)?;
        run.record(conditions, capture);
        let end = solver.all_calls().end;
        walk(&run, state, end, solver, place, capture, hooks).map(DenoiseState::last)
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &ZImageTransformer,
    conditions: &Conditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let latents = state.latents.size();
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let are_texts_fit = texts
        .into_iter()
        .flatten()
        .all(|text| fits(&text.prompt, &[1, -1, config.cap_feat_dim]));
    let reason = if !fits(&state.latents, &[-1, config.in_channels, -1, -1]) {
        format!("these are no latents of this model: {latents:?}")
    } else if !are_texts_fit {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if conditions.kept.as_ref().is_some_and(|kept| {
        !fits(&kept.image, &latents)
            || !fits(&kept.noise, &latents)
            || !fits(&kept.mask, &[1, 1, latents[2], latents[3]])
    }) {
        "the picture's latents are not of this job".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a ZImageTransformer,
        conditions: &Conditions,
        solver: &Solver,
        latents: &Tensor,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let size = latents.size();
        let read = |text: &TextEmbeds| {
            let context = transformer.context(&text.prompt, [size[2], size[3]], hooks);
            context.ok_or(EngineError::Cancelled)
        };
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        Ok(Self {
            guidance: Guidance::new(prompt, negative, conditions.guidance_scale, read)?,
            told: Told::default(),
            kept: conditions
                .kept
                .as_ref()
                .map(|kept| kept.to_device(transformer.device())),
            // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
            pictures_at_once: match transformer.device() {
                Device::Cpu => 1,
                _ => size[0],
            },
            timesteps: solver.all_timesteps(),
            transformer,
            hooks,
        })
    }

    fn ask(&self, context: &Context, latents: &Tensor, call: usize) -> Option<Tensor> {
        let make = |timesteps: &[f32]| self.transformer.modulations(timesteps);
        let told = self.told.at(call, &self.timesteps, make);
        let pictures = latents.split(self.pictures_at_once, 0).into_iter();
        let ask = |one: Tensor| self.transformer.forward(&one, &told, context, self.hooks);
        let answers = pictures.map(ask).collect::<Option<Vec<_>>>()?;
        Some(Tensor::cat(&answers, 0))
    }

    fn record(&self, conditions: &Conditions, capture: &mut Capture) {
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.guidance.is_guided());
        let texts = [("cond", Some(&conditions.prompt)), ("uncond", negative)];
        for (branch, text) in texts {
            if let Some(text) = text {
                capture.put(format!("transformer.in.{branch}.cap_feats"), &text.prompt);
            }
        }
    }
}

impl Denoiser for Loop<'_> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", latents);
        let time = (1000.0 - call.timestep) / 1000.0;
        put("in.timestep", &Tensor::from_slice(&[time]));
        // It points from noise to picture, and the sampler wants the other way.
        let ask = |context: &Context| self.ask(context, latents, call.index);
        self.guidance.velocity(call, capture, Tensor::neg, ask)
    }

    fn settled(&self, latents: Tensor, sigma: f32) -> Tensor {
        match &self.kept {
            Some(kept) => kept.settled(&latents, sigma),
            None => latents,
        }
    }

    fn first_recorded(&self, first: usize) -> usize {
        first
    }

    fn shown(&self, x0: &Tensor) -> Tensor {
        // b c h w -> 1 c b h w
        x0.transpose(0, 1).unsqueeze(0)
    }
}
