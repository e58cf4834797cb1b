//! Stage 3, from noise to latents: what the walk begins with, which steps it makes, and what becomes of a given picture.
//!
//! The steps themselves are `sample.rs`'.

use std::ops::Range;

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _};
use tch::{Device, Tensor};

use super::sample::{Conditions, Reference, sample};
use super::transformer::FluxTransformer;
use crate::capture::Capture;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::guidance::GuidanceScales;
use crate::sampling::{FlowSchedule, Solver, steps_from_picture, wanted_steps};
use crate::stages::stills::{
    Draws, GivenImage, Kept, LatentShape, Role, folded_mask, latent_mask, noised, seeds,
};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// What is made anew of a given picture where the request does not say: as in the pipelines of diffusers.
const BASE_STRENGTH: f64 = 0.6;
const CANVAS_STRENGTH: f64 = 1.0;

/// `image`: what the stage of a given picture gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: PromptEmbeds,
    image: Option<&GivenImage>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let home = &request.files.transformer;
    let weights = super::with_loras(&place.open(home)?, &request.loras)?;
    let config = FluxTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = PictureJob {
        request,
        role: Role::of(request),
        image,
        shape,
    };
    check(&job, &config)?;
    let scheduler = request.files.scheduler.as_deref();
    let scheduler = FlowSchedule::read(scheduler, config.guidance_embeds)?;
    let mut solver = scheduler.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = Draws::new(shape, job.draws_per_seed(), seeds(request))?;
    let conditions = conditions(&job, embeds, &draws);
    let size = [
        i64::from(request.batch_size),
        shape.tokens(),
        config.out_channels(),
    ];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => job.start(&draws, &solver),
    };
    record(&job, &draws, &conditions, work.capture);

    let new = |w: &_| FluxTransformer::new(&config, w);
    let unexpected = FluxTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let behind = sample(
        &transformer,
        shape,
        &conditions,
        GuidanceScales::of(request),
        &mut solver,
        &state,
        work.capture,
        hooks,
    )?;
    Ok(shape.unpack(&behind.latents))
}

/// What a request and its picture make of noise that is packed two by two.
pub(in crate::families) struct PictureJob<'a> {
    pub request: &'a GenerateRequest,
    pub role: Role,
    pub image: Option<&'a GivenImage>,
    pub shape: LatentShape,
}

impl PictureJob<'_> {
    /// Whether the walk begins on the way to the picture.
    fn starts_from_image(&self) -> bool {
        self.image.is_some() && self.role != Role::Reference
    }

    /// The steps that the request wants, of those that its strength leaves.
    pub fn steps(&self) -> Result<Range<usize>, EngineError> {
        if !self.starts_from_image() {
            return Ok(wanted_steps(self.request));
        }
        let strength = self.request.sampling.strength.unwrap_or(match self.role {
            Role::Canvas => CANVAS_STRENGTH,
            Role::Base | Role::Reference => BASE_STRENGTH,
        });
        steps_from_picture(self.request, strength)
    }

    pub fn draws_per_seed(&self) -> usize {
        let image = self.image.filter(|_| self.starts_from_image());
        1 + image.map_or(0, |image| 1 + usize::from(image.mask.is_some()))
    }

    pub fn start(&self, draws: &Draws, solver: &Solver) -> DenoiseState {
        let first = solver.all_calls().start;
        let noise = draws.noise.shallow_clone();
        let latents = match self.image.filter(|_| self.starts_from_image()) {
            Some(image) => {
                let image = image.latents.to_device(Device::Cpu);
                noised(&image, &noise, solver.sigmas()[first])
            }
            None => solver.initial(noise),
        };
        DenoiseState::first(solver, self.shape.pack(&latents))
    }

    /// What a mask keeps of the picture that the walk begins at.
    pub fn kept(&self, draws: &Draws) -> Option<Kept> {
        let image = self.image.filter(|_| self.role == Role::Base)?;
        let mask = image.mask.as_ref()?;
        Some(Kept {
            image: self.shape.pack(&image.latents),
            noise: self.shape.pack(&draws.noise),
            mask: latent_mask(mask, self.shape),
        })
    }
}

/// What comes from files of other stages is checked before anything is loaded.
fn check(job: &PictureJob<'_>, config: &FluxTransformerConfig) -> Result<(), EngineError> {
    let fills = config.condition_channels() > 0;
    let reason = match job.image {
        None if fills => "this model needs a picture and a mask",
        Some(_) if fills != (job.role == Role::Canvas) => {
            "this model does something else with a picture"
        }
        _ if job.request.batch_size == 0 => "no picture was asked for",
        _ => return Ok(()),
    };
    Err(EngineError::request(reason))
}

fn conditions(job: &PictureJob<'_>, embeds: PromptEmbeds, draws: &Draws) -> Conditions {
    let pack = |latents: &Tensor| job.shape.pack(latents);
    let mut conditions = Conditions {
        prompt: embeds.prompt,
        negative: embeds.negative,
        image: None,
        reference: None,
        kept: job.kept(draws),
    };
    let Some(image) = job.image else {
        return conditions;
    };
    match (job.role, &image.mask, &image.masked) {
        (Role::Reference, ..) => {
            let size = image.latents.size();
            let shape = LatentShape {
                height: size[2],
                width: size[3],
                ..job.shape
            };
            conditions.reference = Some(Reference {
                tokens: shape.pack(&image.latents),
                shape,
            });
        }
        (Role::Canvas, Some(mask), Some(masked)) => {
            let (masked, mask) = (pack(masked), folded_mask(mask, job.shape));
            let mask = mask.expand([masked.size()[0], -1, -1], false);
            conditions.image = Some(Tensor::cat(&[masked, mask], 2));
        }
        _ => {}
    }
    conditions
}

fn record(job: &PictureJob<'_>, draws: &Draws, conditions: &Conditions, capture: &mut Capture) {
    draws.record(conditions.kept.as_ref(), capture);
    if let Some(image) = &conditions.image {
        let split = 4 * job.shape.channels;
        let rest = image.size()[2] - split;
        capture.put("masked_image_latents", &image.narrow(2, 0, split));
        capture.put("mask", &image.narrow(2, split, rest));
    }
}
