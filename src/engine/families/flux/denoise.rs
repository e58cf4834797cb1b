//! Stage 3, from noise to latents: what of the job's files the walk is given, and what becomes of a given picture.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::families::flux::lora::config_with;
use safelight_core::networks::FluxTransformerConfig;
use tch::{Device, Kind, Tensor};

use super::control::FluxControl;
use super::measured::measured;
use super::prepare::{image_ids, reference_ids, text_ids};
use super::transformer::{Context, FluxTransformer};
use crate::capture::Capture;
use crate::controls::ControlNetworks;
use crate::controls::acting::{Controls, ToldControls};
use crate::denoise::{Call, DenoiseState, Told, fits};
use crate::error::EngineError;
use crate::guidance::GuidanceScales;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImage, GivenImages, Kept, LatentShape, Role, StillModel,
    corner_mask, folded_mask, record_mask, record_places,
};
use crate::step_cache::{Measured, Shortcut};
use crate::streams::{MakeResiduals, Modulations};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// What is made anew of a picture that is filled where the request does not say.
const CANVAS_STRENGTH: f64 = 1.0;
/// What ControlNets are told beside a model that is told no guidance: dev's own, with which they were trained.
const CONTROL_GUIDANCE: f64 = 3.5;

/// The transformer with what it is given beside latents and texts.
pub struct FluxModel<'a> {
    pub transformer: &'a FluxTransformer,
    pub shape: LatentShape,
    /// As the user sets it; models that are told none leave it alone.
    pub distilled_guidance: f64,
    /// Picture and mask in models that fill, the control picture in those that follow one: `(B, tokens, condition_channels)`, where the model is.
    pub image: Option<Tensor>,
    /// A picture that is seen beside the one that is made.
    pub reference: Option<Reference>,
    pub controls: Controls<'a, FluxControl>,
}

pub struct Reference {
    /// `(1, R, 4 C)`, where the model is
    pub tokens: Tensor,
    pub shape: LatentShape,
}

/// A text with the turns of all tokens, and what the model is told beside it.
pub struct Asked {
    context: Context,
    rope: Rope,
    told: Told<(Modulations, ToldControls)>,
}

impl FluxModel<'_> {
    /// The places of a picture's tokens, with those of one that is only seen behind them.
    fn img_ids(&self) -> Tensor {
        let own = image_ids(self.shape);
        match &self.reference {
            Some(seen) => Tensor::cat(&[own, reference_ids(seen.shape)], 0),
            None => own,
        }
    }
}

impl StillModel for FluxModel<'_> {
    type Context = Asked;
    type Told = (Modulations, ToldControls);

    fn place(&self) -> (Device, Kind) {
        (self.transformer.device(), self.transformer.kind())
    }

    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn num_blocks(&self) -> usize {
        self.transformer.num_blocks()
    }

    fn reads(&self, text: &TextEmbeds) -> bool {
        let config = self.transformer.config();
        let pooled = text.pooled.as_ref();
        fits(&text.prompt, &[1, -1, config.joint_attention_dim])
            && pooled.is_some_and(|pooled| fits(pooled, &[1, config.pooled_projection_dim]))
    }

    fn fault(&self, pictures: i64) -> Option<String> {
        let config = self.transformer.config();
        let (image, channels) = (self.image.as_ref(), config.condition_channels());
        let size = [pictures, self.shape.tokens(), channels];
        if (channels > 0) != image.is_some() || image.is_some_and(|image| !fits(image, &size)) {
            return Some(format!(
                "this model reads {channels} numbers of a picture with each token"
            ));
        }
        let width = config.out_channels();
        let seen = self.reference.as_ref();
        let is_fit = seen.is_none_or(|it| fits(&it.tokens, &[1, it.shape.tokens(), width]));
        (!is_fit).then(|| "the picture's latents are not of this job".to_owned())
    }

    fn context(
        &self,
        text: &TextEmbeds,
        pictures: i64,
        _hooks: &dyn Hooks,
    ) -> Result<Asked, EngineError> {
        let (transformer, pooled) = (self.transformer, text.pooled()?);
        let txt_ids = text_ids(text.prompt.size()[1]);
        let guidance = if transformer.config().guidance_embeds {
            self.distilled_guidance
        } else {
            CONTROL_GUIDANCE
        };
        self.controls.read(|network, settings| {
            network.text(text, settings.kind, guidance, |count| {
                transformer.rope(&text_ids(count), &self.img_ids(), pictures)
            })
        })?;
        Ok(Asked {
            context: transformer.context(&text.prompt, pooled, self.distilled_guidance),
            rope: transformer.rope(&txt_ids, &self.img_ids(), pictures),
            told: Told::default(),
        })
    }

    fn told(&self, timesteps: &[f32], asked: &Asked) -> Vec<Self::Told> {
        let own = self.transformer.modulations(timesteps, &asked.context);
        own.into_iter().zip(self.controls.told(timesteps)).collect()
    }

    fn told_with<'a>(&self, asked: &'a Asked) -> Option<&'a Told<Self::Told>> {
        Some(&asked.told)
    }

    fn begins(&self, call: &Call, first: i64) {
        self.controls.begins(call, first);
    }

    fn input(&self, latents: &Tensor) -> Tensor {
        match (&self.image, &self.reference) {
            (Some(image), _) => Tensor::cat(&[latents, image], 2),
            (None, Some(seen)) => {
                let seen = seen.tokens.expand([latents.size()[0], -1, -1], false);
                Tensor::cat(&[latents, &seen], 1)
            }
            (None, None) => latents.shallow_clone(),
        }
    }

    fn answer(
        &self,
        input: &Tensor,
        (told, of_controls): &Self::Told,
        asked: &Asked,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let Asked { context, rope, .. } = asked;
        let make = || self.controls.residuals(input, of_controls, hooks);
        let make: MakeResiduals<'_> = if self.controls.act() {
            Some(&make)
        } else {
            None
        };
        let beside = (shortcut, make);
        self.transformer
            .forward_controlled(input, told, context, rope, beside, hooks)
    }

    fn velocity(&self, answer: &Tensor) -> Tensor {
        answer.narrow(1, 0, self.shape.tokens())
    }

    fn measured(&self, num_calls: usize) -> Measured {
        measured(num_calls)
    }

    fn record(&self, kept: Option<&Kept>, capture: &mut Capture) {
        record_mask(kept, capture);
        capture.put("latent_image_ids", &self.img_ids());
        if let Some(image) = &self.image {
            let split = 4 * self.shape.channels;
            let rest = image.size()[2] - split;
            // A control picture has no mask, and is recorded where it was encoded.
            if rest > 0 {
                capture.put("masked_image_latents", &image.narrow(2, 0, split));
                capture.put("mask", &image.narrow(2, split, rest));
            }
        }
    }

    fn record_text(&self, text: &TextEmbeds, branch: &str, capture: &mut Capture) {
        record_places(
            branch,
            &text_ids(text.prompt.size()[1]),
            &self.img_ids(),
            capture,
        );
        let name = |part: &str| format!("transformer.in.{branch}.{part}");
        capture.put(name("encoder_hidden_states"), &text.prompt);
        if let Some(pooled) = &text.pooled {
            capture.put(name("pooled_projections"), pooled);
        }
        if self.transformer.config().guidance_embeds {
            let told = Tensor::from_slice(&[self.distilled_guidance as f32]);
            capture.put(name("guidance"), &told);
        }
    }
}

/// `given`: what the stage of given pictures gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: &PromptEmbeds,
    given: Option<&GivenImages>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let (request, role) = (work.request, Role::of(work.request));
    let home = &request.files.transformer;
    let config = config_with(home, &request.loras)?;
    let networks = if follows(&config) {
        ControlNetworks::default()
    } else {
        work.control_networks(home, FluxControl::new, FluxControl::unexpected_keys)?
    };
    let weights = super::with_loras(&work.place.open(home)?, &request.loras)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let image = given.and_then(|given| given.image.as_ref());
    let controls = given.map_or(&[][..], |given| &given.controls[..]);
    check(image, controls, role, &config)?;
    let job = Beginning {
        request,
        image,
        shape,
        strength: match role {
            Role::Canvas => CANVAS_STRENGTH,
            Role::Base => BASE_STRENGTH,
        },
        drawn_controls: controls.len(),
    };
    let scheduler = request.files.scheduler.as_deref();
    let scheduler = FlowSchedule::read(scheduler, config.guidance_embeds)?;
    let mut solver = scheduler.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let kept = job.kept(&draws, corner_mask);
    let kept = kept.filter(|_| role == Role::Base);
    let new = |w: &_| FluxTransformer::new(&config, w);
    let unexpected = FluxTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let here = |xs: Tensor| xs.to_device(transformer.device()).to_kind(Kind::Float);
    let seen = given.and_then(|given| given.references.first());
    let seen = seen.map(|latents| {
        let shape = LatentShape::of(latents)?;
        let tokens = here(shape.pack(latents));
        Ok::<_, EngineError>(Reference { tokens, shape })
    });
    let model = FluxModel {
        transformer: &transformer,
        shape,
        distilled_guidance: GuidanceScales::of(request).distilled,
        image: match controls {
            [control, ..] if follows(&config) => Some(shape.pack(control)),
            _ => image.and_then(|image| canvas(image, shape)),
        }
        .map(here),
        reference: seen.transpose()?,
        controls: if follows(&config) {
            Controls::default()
        } else {
            Controls::new(
                &request.controls,
                &networks,
                controls,
                (config.dim(), shape),
            )?
        },
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}

/// Whether the model itself sees a control picture with the noise.
fn follows(config: &FluxTransformerConfig) -> bool {
    config.condition_channels() == config.out_channels()
}

/// What comes from files of other stages is checked before anything is loaded.
fn check(
    image: Option<&GivenImage>,
    controls: &[Tensor],
    role: Role,
    config: &FluxTransformerConfig,
) -> Result<(), EngineError> {
    let follows = follows(config);
    let fills = config.condition_channels() > 0 && !follows;
    let reason = match image {
        _ if follows && controls.len() != 1 => "this model follows one control picture",
        _ if fills && !controls.is_empty() => "this model takes no control picture",
        None if fills => "this model needs a picture and a mask",
        Some(_) if fills != (role == Role::Canvas) => {
            "this model does something else with a picture"
        }
        _ => return Ok(()),
    };
    Err(EngineError::request(reason))
}

/// What a mask leaves of a picture, and the mask, as models that fill read them with each token.
fn canvas(image: &GivenImage, shape: LatentShape) -> Option<Tensor> {
    let (mask, masked) = (image.mask.as_ref()?, image.masked.as_ref()?);
    let (masked, mask) = (shape.pack(masked), folded_mask(mask, shape));
    let mask = mask.expand([masked.size()[0], -1, -1], false);
    Some(Tensor::cat(&[masked, mask], 2))
}
