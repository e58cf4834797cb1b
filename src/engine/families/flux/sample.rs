//! The steps from noise to latents: the model's answers, real guidance by a negative prompt, what a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use tch::{Device, Kind, Tensor};

use super::prepare::{image_ids, reference_ids, text_ids};
use super::transformer::{Context, FluxTransformer};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::{Guidance, GuidanceScales};
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
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
    /// Picture and mask in models that fill, `(B, tokens, condition_channels)`.
    pub image: Option<Tensor>,
    /// A picture that is seen beside the one that is made.
    pub reference: Option<Reference>,
    /// What stays as it is, in models that do not fill: `(B, tokens, 4 C)`, or the mask `(1, …)`
    pub kept: Option<Kept>,
}

pub struct Reference {
    /// `(1, R, 4 C)`
    pub tokens: Tensor,
    pub shape: LatentShape,
}

struct Loop<'a> {
    transformer: &'a FluxTransformer,
    guidance: Guidance<Asked>,
    image: Option<Tensor>,
    reference: Option<Tensor>,
    kept: Option<Kept>,
    /// Of both texts, which are equally long.
    rope: Rope,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// A text, and what the model is told beside it.
struct Asked {
    context: Context,
    told: Told<Modulations>,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(B, tokens, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn sample(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: &Conditions,
    scales: GuidanceScales,
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
        let run = Loop::new(
            transformer,
            shape,
            conditions,
            scales,
            pictures,
            timesteps,
            hooks,
        )?;
        run.record(conditions, scales, capture);
        let end = solver.all_calls().end;
        walk(&run, state, end, solver, place, capture, hooks).map(DenoiseState::last)
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
    let (tokens, channels) = (shape.tokens(), config.out_channels());
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let text_len = conditions.prompt.prompt.size().get(1).copied().unwrap_or(0);
    let are_texts_fit = texts.into_iter().flatten().all(|text| {
        fits(&text.prompt, &[1, text_len, config.joint_attention_dim])
            && text
                .pooled
                .as_ref()
                .is_some_and(|pooled| fits(pooled, &[1, config.pooled_projection_dim]))
    });
    let pictures = state.latents.size().first().copied().unwrap_or(0);
    let image_channels = config.condition_channels();
    let image = conditions.image.as_ref();
    let reference = conditions.reference.as_ref();
    let kept = conditions.kept.as_ref();
    let is_kept_fit = kept.is_none_or(|kept| kept.fits(&[pictures, tokens, channels]));
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
    Err(EngineError::internal(reason))
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a FluxTransformer,
        shape: LatentShape,
        conditions: &Conditions,
        scales: GuidanceScales,
        pictures: i64,
        timesteps: Vec<f32>,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let read = |text: &TextEmbeds| {
            let pooled = text.pooled()?;
            Ok(Asked {
                context: transformer.context(&text.prompt, pooled, scales.distilled),
                told: Told::default(),
            })
        };
        let here = |xs: &Tensor| xs.to_device(transformer.device()).to_kind(Kind::Float);
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        let reference = conditions.reference.as_ref();
        let (txt_ids, img_ids) = conditions.ids(shape);
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
        let pictures_at_once = match transformer.device() {
            Device::Cpu => 1,
            _ => pictures,
        };
        Ok(Self {
            guidance: Guidance::new(prompt, negative, scales.scale, read)?,
            image: conditions.image.as_ref().map(here),
            reference: reference.map(|seen| here(&seen.tokens).expand([pictures, -1, -1], false)),
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

    fn ask(&self, asked: &Asked, input: &Tensor, call: usize) -> Option<Tensor> {
        let make = |timesteps: &[f32]| self.transformer.modulations(timesteps, &asked.context);
        let told = asked.told.at(call, &self.timesteps, make);
        let pictures = input.split(self.pictures_at_once, 0).into_iter();
        let answers = pictures.map(|input| {
            let Asked { context, .. } = asked;
            self.transformer
                .forward(&input, &told, context, &self.rope, self.hooks)
        });
        Some(Tensor::cat(&answers.collect::<Option<Vec<_>>>()?, 0))
    }

    fn record(&self, conditions: &Conditions, scales: GuidanceScales, capture: &mut Capture) {
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
                negative.filter(|_| self.guidance.is_guided()),
            ),
        ];
        for (prefix, branch, text) in texts {
            let Some(text) = text else { continue };
            let name = |part: &str| format!("transformer.in.{branch}.{part}");
            capture.put(format!("{prefix}text_ids"), &txt_ids);
            capture.put(name("txt_ids"), &txt_ids);
            capture.put(name("img_ids"), &img_ids);
            capture.put(name("encoder_hidden_states"), &text.prompt);
            if let Some(pooled) = &text.pooled {
                capture.put(name("pooled_projections"), pooled);
            }
            if self.transformer.config().guidance_embeds {
                let told = Tensor::from_slice(&[scales.distilled as f32]);
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
        let own = |answer: &Tensor| answer.narrow(1, 0, self.shape.tokens());
        let ask = |asked: &Asked| self.ask(asked, &input, call.index);
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
