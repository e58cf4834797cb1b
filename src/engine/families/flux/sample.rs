//! The steps from noise to latents: the model's answers, real guidance by a negative prompt, what a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use std::cell::RefCell;

use tch::{Device, Kind, Tensor};

use super::prepare::{LatentShape, image_ids, noised, reference_ids, text_ids};
use super::state::TextEmbeds;
use super::transformer::{Context, FluxTransformer, Modulations};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, walk};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::place::Placement;
use crate::sampling::Solver;

/// Calls whose modulations are made at once: 2 MB each for a published model in halves.
const CALLS_AT_ONCE: usize = 32;

/// What the model is given beside the noise.
pub struct Conditions {
    pub prompt: TextEmbeds,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
    /// Picture and mask in models that fill, `(B, tokens, condition_channels)`.
    pub image: Option<Tensor>,
    /// A picture that is seen beside the one that is made.
    pub reference: Option<Reference>,
    /// What stays as it is, in models that do not fill.
    pub kept: Option<Kept>,
}

pub struct Reference {
    /// `(1, R, 4 C)`
    pub tokens: Tensor,
    pub shape: LatentShape,
}

/// Each `(B, tokens, 4 C)`, or the mask `(1, …)`.
pub struct Kept {
    pub image: Tensor,
    pub noise: Tensor,
    /// 1 for what is made anew.
    pub mask: Tensor,
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
    reference: Option<Tensor>,
    kept: Option<Kept>,
    /// Of both texts, which are equally long.
    rope: Rope,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    told: RefCell<Told>,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// What the model is told in the calls from `first` on, in the form of each text.
#[derive(Default)]
struct Told {
    first: usize,
    prompt: Vec<Modulations>,
    negative: Vec<Modulations>,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(B, tokens, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU;
/// `None` when cancelled.
pub fn sample(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: &Conditions,
    guidance: Guidance,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<DenoiseState>, EngineError> {
    tch::no_grad(|| {
        check(transformer, shape, conditions, state)?;
        let calls = solver.all_calls();
        let place = Placement::new(transformer.device(), transformer.kind());
        let history = state
            .history
            .iter()
            .map(|past| past.to_device(place.device));
        if !solver.restore(state.step, history.collect()) {
            return Err(EngineError::Internal {
                reason: "the state to go on from is not this sampler's".to_owned(),
            });
        }
        if state.step == calls.start {
            capture.put("latents.initial", &state.latents);
            capture.put("timesteps", &solver.timesteps());
            capture.put("sigmas", &Tensor::from_slice(solver.sigmas()));
        }
        let pictures = state.latents.size()[0];
        let timesteps =
            (0..solver.timesteps().size()[0] as usize).map(|call| solver.timestep(call));
        let run = Loop {
            timesteps: timesteps.collect(),
            ..Loop::new(transformer, shape, conditions, guidance, pictures, hooks)
        };
        run.record(conditions, guidance, capture);
        let behind = walk(&run, state, calls.end, solver, place, capture, hooks)?;
        Ok(behind.map(|behind| DenoiseState {
            step: behind.step,
            latents: behind.latents.to_device(Device::Cpu),
            history: Vec::new(),
        }))
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: &Conditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let fits = |xs: &Tensor, size: &[i64]| {
        let found = xs.size();
        let same = |(found, wanted): (&i64, &i64)| *wanted < 0 || found == wanted;
        found.len() == size.len() && found.iter().zip(size).all(same) && xs.numel() > 0
    };
    let (tokens, channels) = (shape.tokens(), config.out_channels());
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let text_len = conditions.prompt.prompt.size().get(1).copied().unwrap_or(0);
    let are_texts_fit = texts.into_iter().flatten().all(|text| {
        fits(&text.prompt, &[1, text_len, config.joint_attention_dim])
            && fits(&text.pooled, &[1, config.pooled_projection_dim])
    });
    let pictures = state.latents.size().first().copied().unwrap_or(0);
    let image_channels = config.condition_channels();
    let image = conditions.image.as_ref();
    let reference = conditions.reference.as_ref();
    let is_kept_fit = conditions.kept.as_ref().is_none_or(|kept| {
        fits(&kept.image, &[pictures, tokens, channels])
            && fits(&kept.noise, &[pictures, tokens, channels])
            && fits(&kept.mask, &[-1, tokens, channels])
    });
    let reason = if !fits(&state.latents, &[pictures, tokens, channels]) {
        format!(
            "these are no latents of this model: {:?}",
            state.latents.size()
        )
    } else if !are_texts_fit {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if (image_channels > 0) != image.is_some()
        || image.is_some_and(|image| !fits(image, &[pictures, tokens, image_channels]))
    {
        format!("this model reads {image_channels} numbers of a picture with each token")
    } else if !is_kept_fit
        || reference.is_some_and(|seen| !fits(&seen.tokens, &[1, seen.shape.tokens(), channels]))
    {
        "the picture's latents are not of this job".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::Internal { reason })
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a FluxTransformer,
        shape: LatentShape,
        conditions: &Conditions,
        guidance: Guidance,
        pictures: i64,
        hooks: &'a dyn Hooks,
    ) -> Self {
        let read =
            |text: &TextEmbeds| transformer.context(&text.prompt, &text.pooled, guidance.distilled);
        let here = |xs: &Tensor| xs.to_device(transformer.device()).to_kind(Kind::Float);
        let negative = conditions.negative.as_ref();
        let reference = conditions.reference.as_ref();
        let (txt_ids, img_ids) = conditions.ids(shape);
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
        let pictures_at_once = match transformer.device() {
            Device::Cpu => 1,
            _ => pictures,
        };
        Self {
            prompt: read(&conditions.prompt),
            negative: negative
                .filter(|_| guidance.scale > 1.0)
                .map(|text| (read(text), guidance.scale)),
            image: conditions.image.as_ref().map(here),
            reference: reference.map(|seen| here(&seen.tokens).expand([pictures, -1, -1], false)),
            kept: conditions.kept.as_ref().map(|kept| Kept {
                image: here(&kept.image),
                noise: here(&kept.noise),
                mask: here(&kept.mask),
            }),
            rope: transformer.rope(&txt_ids, &img_ids, pictures_at_once),
            pictures_at_once,
            timesteps: Vec::new(),
            told: RefCell::default(),
            transformer,
            shape,
            hooks,
        }
    }

    /// Makes what the model is told in `call` and those behind it, where that is not at hand. Parts of the whole
    /// schedule and not from where a run begins, so that one that goes on from a checkpoint gets the same numbers.
    fn tell(&self, call: usize) {
        let mut told = self.told.borrow_mut();
        let first = call / CALLS_AT_ONCE * CALLS_AT_ONCE;
        if told.first == first && !told.prompt.is_empty() {
            return;
        }
        let last = self.timesteps.len().min(first + CALLS_AT_ONCE);
        let of = |context| {
            self.transformer
                .modulations(&self.timesteps[first..last], context)
        };
        *told = Told {
            first,
            prompt: of(&self.prompt),
            negative: self
                .negative
                .iter()
                .flat_map(|(context, _)| of(context))
                .collect(),
        };
    }

    /// What the model is told in every call.
    fn record(&self, conditions: &Conditions, guidance: Guidance, capture: &mut Capture) {
        if !capture.is_on() {
            return;
        }
        let (txt_ids, img_ids) = conditions.ids(self.shape);
        capture.put("latent_image_ids", &img_ids);
        let negative = conditions.negative.as_ref();
        let texts = [
            ("", "cond", Some(&conditions.prompt)),
            (
                "negative_",
                "uncond",
                negative.filter(|_| self.negative.is_some()),
            ),
        ];
        for (prefix, branch, text) in texts {
            let Some(text) = text else { continue };
            let name = |part: &str| format!("transformer.in.{branch}.{part}");
            capture.put(format!("{prefix}text_ids"), &txt_ids);
            capture.put(name("txt_ids"), &txt_ids);
            capture.put(name("img_ids"), &img_ids);
            capture.put(name("encoder_hidden_states"), &text.prompt);
            capture.put(name("pooled_projections"), &text.pooled);
            if self.transformer.config().guidance_embeds {
                let told = Tensor::from_slice(&[guidance.distilled as f32]);
                capture.put(name("guidance"), &told);
            }
        }
    }
}

impl Conditions {
    /// The places of a text's tokens and of a picture's, with one that is only seen behind it.
    fn ids(&self, shape: LatentShape) -> (Tensor, Tensor) {
        let own = image_ids(shape);
        let img_ids = match &self.reference {
            Some(seen) => Tensor::cat(&[own, reference_ids(seen.shape)], 0),
            None => own,
        };
        (text_ids(self.prompt.prompt.size()[1]), img_ids)
    }
}

impl Denoiser for Loop<'_> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let input = match (&self.image, &self.reference) {
            (Some(image), _) => Tensor::cat(&[latents, image], 2),
            (None, Some(seen)) => Tensor::cat(&[latents, seen], 1),
            (None, None) => latents.shallow_clone(),
        };
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", &input);
        put(
            "in.timestep",
            &Tensor::from_slice(&[call.timestep / 1000.0]),
        );
        self.tell(call.index);
        let told = self.told.borrow();
        let at = call.index - told.first;
        let ask = |context, modulations: &[Modulations]| {
            let answers: Option<Vec<Tensor>> = input
                .split(self.pictures_at_once, 0)
                .iter()
                .map(|input| {
                    self.transformer.forward(
                        input,
                        &modulations[at],
                        context,
                        &self.rope,
                        self.hooks,
                    )
                })
                .collect();
            Some(Tensor::cat(&answers?, 0))
        };
        let own = |answer: &Tensor| answer.narrow(1, 0, self.shape.tokens());
        let cond = ask(&self.prompt, &told.prompt)?;
        put("cond", &cond);
        let Some((negative, scale)) = &self.negative else {
            return Some(own(&cond));
        };
        let uncond = ask(negative, &told.negative)?;
        put("uncond", &uncond);
        let (cond, uncond) = (own(&cond), own(&uncond));
        Some(&uncond + (cond - &uncond) * *scale)
    }

    fn settled(&self, latents: Tensor, sigma: f32) -> Tensor {
        match &self.kept {
            Some(kept) => {
                let image = noised(&kept.image, &kept.noise, sigma);
                (1.0 - &kept.mask) * image + &kept.mask * latents
            }
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
