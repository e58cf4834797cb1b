//! Stage 3, from noise to latents: what of the job's files the walk is given, and what becomes of given pictures.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{Flux2TransformerConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::prepare::{image_ids, mu, seen_ids, text_ids};
use super::transformer::{Context, Flux2Transformer};
use crate::capture::Capture;
use crate::denoise::{DenoiseState, fits};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    Beginning, Draws, GivenImages, Kept, LatentShape, StillModel, record_places, seeds,
};
use crate::step_cache::Shortcut;
use crate::streams::Modulations;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// What is made anew of a given picture where the request does not say: as in diffusers' pipeline.
const STRENGTH: f64 = 0.8;

pub(super) struct Asked<'a> {
    pub(super) transformer: &'a Flux2Transformer,
    pub(super) shape: LatentShape,
    /// Pictures that are seen beside the one that is made, in their order.
    pub(super) seen: Vec<Seen>,
    /// The tokens of all of them where the model is, `(1, R, 4 C)`
    pub(super) seen_tokens: Option<Tensor>,
}

pub(super) struct Seen {
    /// `(1, R, 4 C)`
    tokens: Tensor,
    shape: LatentShape,
}

impl Asked<'_> {
    /// The places of a text's tokens, and of a picture's with those that are seen behind it.
    fn ids(&self, text: &TextEmbeds) -> [Tensor; 2] {
        let shapes: Vec<LatentShape> = self.seen.iter().map(|seen| seen.shape).collect();
        let mut img_ids = image_ids(self.shape);
        if !shapes.is_empty() {
            img_ids = Tensor::cat(&[img_ids, seen_ids(&shapes)], 0);
        }
        [text_ids(text.prompt.size()[1]), img_ids]
    }
}

impl StillModel for Asked<'_> {
    /// With the turns of all tokens.
    type Context = (Context, Rope);
    type Told = Modulations;

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
        let width = self.transformer.config().joint_attention_dim;
        fits(&text.prompt, &[1, -1, width])
    }

    fn fault(&self, _pictures: i64) -> Option<String> {
        let width = self.transformer.config().in_channels;
        let mut seen = self.seen.iter();
        let are_fit = seen.all(|seen| fits(&seen.tokens, &[1, seen.shape.tokens(), width]));
        (!are_fit).then(|| "the picture's latents are not of this job".to_owned())
    }

    fn context(
        &self,
        text: &TextEmbeds,
        pictures: i64,
        _hooks: &dyn Hooks,
    ) -> Result<(Context, Rope), EngineError> {
        let [txt_ids, img_ids] = self.ids(text);
        Ok((
            self.transformer.context(&text.prompt),
            self.transformer.rope(&txt_ids, &img_ids, pictures),
        ))
    }

    fn told(&self, timesteps: &[f32], _context: &(Context, Rope)) -> Vec<Modulations> {
        self.transformer.modulations(timesteps)
    }

    fn input(&self, latents: &Tensor) -> Tensor {
        let Some(seen) = &self.seen_tokens else {
            return latents.shallow_clone();
        };
        let seen = seen.expand([latents.size()[0], -1, -1], false);
        Tensor::cat(&[latents, &seen], 1)
    }

    fn answer(
        &self,
        input: &Tensor,
        told: &Modulations,
        (context, rope): &(Context, Rope),
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.transformer
            .forward_cached(input, told, context, rope, shortcut, hooks)
    }

    fn velocity(&self, answer: &Tensor) -> Tensor {
        answer.narrow(1, 0, self.shape.tokens())
    }

    /// Two by two latents lie below each other.
    fn drawn(&self, noise: &Tensor) -> Tensor {
        LatentShape::fold(noise)
    }

    fn record(&self, kept: Option<&Kept>, capture: &mut Capture) {
        capture.put("latent_image_ids", &image_ids(self.shape).unsqueeze(0));
        if let Some(latents) = &self.seen_tokens {
            let shapes: Vec<LatentShape> = self.seen.iter().map(|seen| seen.shape).collect();
            capture.put("image_latents", latents);
            capture.put("image_latent_ids", &seen_ids(&shapes).unsqueeze(0));
        }
        if let Some(kept) = kept {
            // It is one for all numbers of a token.
            capture.put("mask", &kept.mask.narrow(2, 0, 1));
        }
    }

    fn record_text(&self, text: &TextEmbeds, branch: &str, capture: &mut Capture) {
        let [txt_ids, img_ids] = self.ids(text).map(|ids| ids.unsqueeze(0));
        record_places(branch, &txt_ids, &img_ids, capture);
        let name = format!("transformer.in.{branch}.encoder_hidden_states");
        capture.put(name, &text.prompt);
    }
}

/// `images`: what the stage of given pictures gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: &PromptEmbeds,
    images: Option<&GivenImages>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let home = &request.files.transformer;
    let weights = super::with_loras(&work.place.open(home)?, &request.loras)?;
    let config = Flux2TransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = Beginning {
        request,
        image: images.and_then(|images| images.image.as_ref()),
        shape,
        strength: STRENGTH,
        drawn_controls: 0,
    };
    let solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    // Drawn as tokens lie, and nothing is drawn for the given picture.
    let drawn = Draws::new(shape.folded(), 1, seeds(request))?;
    let draws = Draws {
        noise: shape.unfolded(&drawn.noise),
        ..drawn
    };
    let kept = job.kept(&draws, |mask| token_mask(mask, shape));
    let seen = seen(&job, images)?;
    let new = |w: &_| Flux2Transformer::new(&config, w);
    let unexpected = Flux2Transformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let tokens: Vec<&Tensor> = seen.iter().map(|seen| &seen.tokens).collect();
    let here = |xs: Tensor| xs.to_device(transformer.device()).to_kind(Kind::Float);
    let model = Asked {
        transformer: &transformer,
        shape,
        seen_tokens: (!tokens.is_empty()).then(|| here(Tensor::cat(&tokens, 1))),
        seen,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}

/// The picture that the walk begins from is seen, too.
fn seen(job: &Beginning<'_>, images: Option<&GivenImages>) -> Result<Vec<Seen>, EngineError> {
    let image = job.image.map(|image| &image.latents);
    let references = images.map_or(&[][..], |images| &images.references[..]);
    let seen = image.into_iter().chain(references).map(|latents| {
        let shape = LatentShape::of(latents)?;
        Ok(Seen {
            tokens: shape.pack(&latents.to_kind(Kind::Float)),
            shape,
        })
    });
    seen.collect()
}

/// A mask, `(1, 1, H, W)`, at the latents' places: for all of a token the mean of the four pixels around its middle,
/// `(1, 1, h, w)`
fn token_mask(mask: &Tensor, shape: LatentShape) -> Tensor {
    let mask = mask.upsample_bilinear2d(shape.grid(), false, None, None);
    mask.upsample_nearest2d([shape.height, shape.width], None, None)
}

/// The model's own flow-match Euler, whose shift goes with tokens and steps.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let mut schedule = FlowSchedule::read(request.files.scheduler.as_deref(), true)?;
    schedule.mu_by_steps = Some(mu);
    Ok(schedule)
}
