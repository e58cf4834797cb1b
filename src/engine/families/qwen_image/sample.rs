//! The steps from noise to latents: the model's answers, guidance by a negative prompt, what a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use tch::Tensor;

use super::transformer::{Context, Modulations, QwenImageTransformer, Reference};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::Guidance;
use crate::hooks::Hooks;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::stages::stills::{Kept, LatentShape};
use crate::text::TextEmbeds;

/// What the model is given beside the noise.
pub struct Conditions {
    pub prompt: TextEmbeds,
    /// Only where the job has guidance.
    pub negative: Option<TextEmbeds>,
    /// How far answers to the prompt are pushed from those to the negative prompt; up to 1 not at all.
    pub guidance_scale: f64,
    /// What stays as it is, where a mask says so: `(B, tokens, 4 C)`, or the mask `(1, …)`
    pub kept: Option<Kept>,
    /// Pictures that are seen beside the one that is made.
    pub references: Vec<Reference>,
}

struct Loop<'a> {
    transformer: &'a QwenImageTransformer,
    guidance: Guidance<Context>,
    told: Told<Modulations>,
    kept: Option<Kept>,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(B, tokens, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn sample(
    transformer: &QwenImageTransformer,
    shape: LatentShape,
    conditions: &Conditions,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        check(transformer, shape, conditions, state)?;
        let place = Placement::new(transformer.device(), transformer.kind());
        begin(state, solver, place.device, capture)?;
        let pictures =
            transformer.at_once(state.latents.size()[0], !conditions.references.is_empty());
        let timesteps = solver.all_timesteps();
        let run = Loop::new(transformer, shape, conditions, pictures, timesteps, hooks)?;
        run.record(conditions, capture);
        let end = solver.all_calls().end;
        walk(&run, state, end, solver, place, capture, hooks).map(DenoiseState::last)
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &QwenImageTransformer,
    shape: LatentShape,
    conditions: &Conditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let latents = state.latents.size();
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let are_texts_fit = texts
        .into_iter()
        .flatten()
        .all(|text| fits(&text.prompt, &[1, -1, config.joint_attention_dim]));
    let one = [-1, shape.tokens(), config.in_channels];
    let reason = if !fits(&state.latents, &one) {
        format!("these are no latents of this model: {latents:?}")
    } else if !are_texts_fit {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if conditions
        .kept
        .as_ref()
        .is_some_and(|kept| !kept.fits(&latents))
    {
        "the picture's latents are not of this job".to_owned()
    } else if conditions.references.iter().any(|seen| {
        let tokens = seen.grid.iter().product();
        !fits(&seen.tokens, &[1, tokens, config.in_channels])
    }) {
        "the latents of the reference pictures are not this model's".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a QwenImageTransformer,
        shape: LatentShape,
        conditions: &Conditions,
        pictures_at_once: i64,
        timesteps: Vec<f32>,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let read = |text: &TextEmbeds| {
            let (text, seen) = (&text.prompt, &conditions.references);
            Ok(transformer.context(text, shape.grid(), seen, pictures_at_once))
        };
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        let guidance = Guidance::new(prompt, negative, conditions.guidance_scale, read)?;
        Ok(Self {
            guidance: guidance.keeping_length(),
            told: Told::default(),
            kept: conditions
                .kept
                .as_ref()
                .map(|kept| kept.to_device(transformer.device())),
            pictures_at_once,
            timesteps,
            transformer,
            shape,
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
        if !conditions.references.is_empty() {
            let seen = conditions.references.iter();
            let seen: Vec<&Tensor> = seen.map(|seen| &seen.tokens).collect();
            capture.put("image_latents", &Tensor::cat(&seen, 1));
        }
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.guidance.is_guided());
        let texts = [("cond", Some(&conditions.prompt)), ("uncond", negative)];
        for (branch, text) in texts {
            if let Some(text) = text {
                let name = format!("transformer.in.{branch}.encoder_hidden_states");
                capture.put(name, &text.prompt);
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
        put(
            "in.timestep",
            &Tensor::from_slice(&[call.timestep / 1000.0]),
        );
        let ask = |context: &Context| self.ask(context, latents, call.index);
        self.guidance
            .velocity(call, capture, Tensor::shallow_clone, ask)
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
        self.shape.unpack(x0).transpose(0, 1).unsqueeze(0)
    }
}
