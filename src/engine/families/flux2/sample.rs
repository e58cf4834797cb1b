//! The steps from noise to latents: the model's answers beside pictures that it sees, guidance by a negative prompt, what
//! a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use tch::{Device, Kind, Tensor};

use super::prepare::{image_ids, seen_ids, text_ids};
use super::transformer::{Context, Flux2Transformer};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::Guidance;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::stages::stills::{Kept, LatentShape};
use crate::streams::Modulations;
use crate::text::TextEmbeds;

/// What the model is given beside the noise.
pub struct Conditions {
    pub prompt: TextEmbeds,
    /// Only where the job has guidance.
    pub negative: Option<TextEmbeds>,
    /// How far answers to the prompt are pushed from those to the negative prompt; up to 1 not at all.
    pub guidance_scale: f64,
    /// Pictures that are seen beside the one that is made, in their order.
    pub seen: Vec<Seen>,
    /// What stays as it is, where a mask says so.
    pub kept: Option<Kept>,
}

pub struct Seen {
    /// `(1, R, 4 C)`
    pub tokens: Tensor,
    pub shape: LatentShape,
}

struct Loop<'a> {
    transformer: &'a Flux2Transformer,
    guidance: Guidance<Context>,
    told: Told<Modulations>,
    /// The tokens of all pictures that are seen, `(B, R, 4 C)`
    seen: Option<Tensor>,
    kept: Option<Kept>,
    /// Of both texts, which are equally long.
    rope: Rope,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(B, n, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn sample(
    transformer: &Flux2Transformer,
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
        let pictures = state.latents.size()[0];
        let timesteps = solver.all_timesteps();
        let run = Loop::new(transformer, shape, conditions, pictures, timesteps, hooks)?;
        run.record(conditions, capture);
        let end = solver.all_calls().end;
        walk(&run, state, end, solver, place, capture, hooks).map(DenoiseState::last)
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &Flux2Transformer,
    shape: LatentShape,
    conditions: &Conditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let (tokens, channels) = (shape.tokens(), config.in_channels);
    let latents = state.latents.size();
    let length = conditions.prompt.prompt.size().get(1).copied().unwrap_or(0);
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let mut texts = texts.into_iter().flatten();
    let mut seen = conditions.seen.iter();
    let reason = if !fits(&state.latents, &[-1, tokens, channels]) {
        format!("these are no latents of this model: {latents:?}")
    } else if !texts.all(|text| fits(&text.prompt, &[1, length, config.joint_attention_dim])) {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if !seen.all(|seen| fits(&seen.tokens, &[1, seen.shape.tokens(), channels]))
        || conditions
            .kept
            .as_ref()
            .is_some_and(|kept| !kept.fits(&latents))
    {
        "the picture's latents are not of this job".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a Flux2Transformer,
        shape: LatentShape,
        conditions: &Conditions,
        pictures: i64,
        timesteps: Vec<f32>,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let read = |text: &TextEmbeds| Ok(transformer.context(&text.prompt));
        let here = |xs: &Tensor| xs.to_device(transformer.device()).to_kind(Kind::Float);
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        let [txt_ids, img_ids] = conditions.ids(shape);
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
        let pictures_at_once = match transformer.device() {
            Device::Cpu => 1,
            _ => pictures,
        };
        let seen = conditions.seen_tokens();
        Ok(Self {
            guidance: Guidance::new(prompt, negative, conditions.guidance_scale, read)?,
            told: Told::default(),
            seen: seen.map(|seen| here(&seen).expand([pictures, -1, -1], false)),
            kept: conditions
                .kept
                .as_ref()
                .map(|kept| kept.to_device(transformer.device())),
            rope: transformer.rope(&txt_ids, &img_ids, pictures_at_once),
            pictures_at_once,
            timesteps,
            transformer,
            shape,
            hooks,
        })
    }

    fn ask(&self, context: &Context, input: &Tensor, call: usize) -> Option<Tensor> {
        let make = |timesteps: &[f32]| self.transformer.modulations(timesteps);
        let told = self.told.at(call, &self.timesteps, make);
        let pictures = input.split(self.pictures_at_once, 0).into_iter();
        let answers = pictures.map(|input| {
            self.transformer
                .forward(&input, &told, context, &self.rope, self.hooks)
        });
        Some(Tensor::cat(&answers.collect::<Option<Vec<_>>>()?, 0))
    }

    fn record(&self, conditions: &Conditions, capture: &mut Capture) {
        if !capture.is_on() {
            return;
        }
        let [txt_ids, img_ids] = conditions.ids(self.shape).map(|ids| ids.unsqueeze(0));
        let tokens = self.shape.tokens();
        let seen = img_ids.size()[1] - tokens;
        capture.put("latent_image_ids", &img_ids.narrow(1, 0, tokens));
        if let Some(latents) = conditions.seen_tokens() {
            capture.put("image_latents", &latents);
            capture.put("image_latent_ids", &img_ids.narrow(1, tokens, seen));
        }
        if let Some(kept) = &conditions.kept {
            // It is one for all numbers of a token.
            capture.put("mask", &kept.mask.narrow(2, 0, 1));
        }
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.guidance.is_guided());
        let prompt = Some(&conditions.prompt);
        for (prefix, branch, text) in [("", "cond", prompt), ("negative_", "uncond", negative)] {
            let Some(text) = text else { continue };
            let name = |part: &str| format!("transformer.in.{branch}.{part}");
            capture.put(format!("{prefix}text_ids"), &txt_ids);
            capture.put(name("txt_ids"), &txt_ids);
            capture.put(name("img_ids"), &img_ids);
            capture.put(name("encoder_hidden_states"), &text.prompt);
        }
    }
}

impl Conditions {
    /// The places of a text's tokens, and of a picture's with those that are seen behind it.
    fn ids(&self, shape: LatentShape) -> [Tensor; 2] {
        let shapes: Vec<LatentShape> = self.seen.iter().map(|seen| seen.shape).collect();
        let mut img_ids = image_ids(shape);
        if !shapes.is_empty() {
            img_ids = Tensor::cat(&[img_ids, seen_ids(&shapes)], 0);
        }
        [text_ids(self.prompt.prompt.size()[1]), img_ids]
    }

    /// `(1, R, 4 C)`
    fn seen_tokens(&self) -> Option<Tensor> {
        let tokens: Vec<&Tensor> = self.seen.iter().map(|seen| &seen.tokens).collect();
        (!tokens.is_empty()).then(|| Tensor::cat(&tokens, 1))
    }
}

impl Denoiser for Loop<'_> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let input = match &self.seen {
            Some(seen) => Tensor::cat(&[latents, seen], 1),
            None => latents.shallow_clone(),
        };
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", &input);
        put(
            "in.timestep",
            &Tensor::from_slice(&[call.timestep / 1000.0]),
        );
        let own = |answer: &Tensor| answer.narrow(1, 0, self.shape.tokens());
        let ask = |context: &Context| self.ask(context, &input, call.index);
        self.guidance.velocity(call, capture, own, ask)
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
