//! Stage 3, from noise to latents: what the walk begins with, which steps it makes, and what becomes of a given picture.
//!
//! The steps themselves are `sample.rs`'.

use std::ops::Range;

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _};
use tch::{Device, Tensor};

use super::sample::{Conditions, Kept, Reference, sample};
use super::transformer::FluxTransformer;
use crate::capture::Capture;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::guidance::GuidanceScales;
use crate::sampling::{FlowSchedule, Solver, steps_from_picture, wanted_steps};
use crate::stages::stills::{
    Draws, GivenImage, LatentShape, Role, folded_mask, latent_mask, noised, seeds,
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
    let job = Job {
        request,
        role: Role::of(request),
        image,
        shape,
    };
    job.check(&config)?;
    let scheduler = request.files.scheduler.as_deref();
    let scheduler = FlowSchedule::read(scheduler, config.guidance_embeds)?;
    let mut solver = scheduler.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = Draws::new(shape, job.draws_per_seed(), seeds(request))?;
    let conditions = job.conditions(embeds, &draws);
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
    job.record(&draws, &conditions, work.capture);

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

/// What a request and its picture make of noise.
struct Job<'a> {
    request: &'a GenerateRequest,
    role: Role,
    image: Option<&'a GivenImage>,
    shape: LatentShape,
}

impl Job<'_> {
    /// What comes from files of other stages is checked before anything is loaded.
    fn check(&self, config: &FluxTransformerConfig) -> Result<(), EngineError> {
        let fills = config.condition_channels() > 0;
        let reason = match self.image {
            None if fills => "this model needs a picture and a mask",
            Some(_) if fills != (self.role == Role::Canvas) => {
                "this model does something else with a picture"
            }
            _ if self.request.batch_size == 0 => "no picture was asked for",
            _ => return Ok(()),
        };
        Err(EngineError::request(reason))
    }

    /// Whether the walk begins on the way to the picture.
    fn starts_from_image(&self) -> bool {
        self.image.is_some() && self.role != Role::Reference
    }

    /// The steps that the request wants, of those that its strength leaves.
    fn steps(&self) -> Result<Range<usize>, EngineError> {
        if !self.starts_from_image() {
            return Ok(wanted_steps(self.request));
        }
        let strength = self.request.sampling.strength.unwrap_or(match self.role {
            Role::Canvas => CANVAS_STRENGTH,
            Role::Base | Role::Reference => BASE_STRENGTH,
        });
        steps_from_picture(self.request, strength)
    }

    fn draws_per_seed(&self) -> usize {
        let image = self.image.filter(|_| self.starts_from_image());
        1 + image.map_or(0, |image| 1 + usize::from(image.mask.is_some()))
    }

    fn start(&self, draws: &Draws, solver: &Solver) -> DenoiseState {
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

    fn conditions(&self, embeds: PromptEmbeds, draws: &Draws) -> Conditions {
        let pack = |latents: &Tensor| self.shape.pack(latents);
        let mut conditions = Conditions {
            prompt: embeds.prompt,
            negative: embeds.negative,
            image: None,
            reference: None,
            kept: None,
        };
        let Some(image) = self.image else {
            return conditions;
        };
        match (self.role, &image.mask, &image.masked) {
            (Role::Reference, ..) => {
                let size = image.latents.size();
                let shape = LatentShape {
                    height: size[2],
                    width: size[3],
                    ..self.shape
                };
                conditions.reference = Some(Reference {
                    tokens: shape.pack(&image.latents),
                    shape,
                });
            }
            (Role::Canvas, Some(mask), Some(masked)) => {
                let (masked, mask) = (pack(masked), folded_mask(mask, self.shape));
                let mask = mask.expand([masked.size()[0], -1, -1], false);
                conditions.image = Some(Tensor::cat(&[masked, mask], 2));
            }
            (Role::Base, Some(mask), _) => {
                conditions.kept = Some(Kept {
                    image: pack(&image.latents),
                    noise: pack(&draws.noise),
                    mask: latent_mask(mask, self.shape),
                });
            }
            _ => {}
        }
        conditions
    }

    fn record(&self, draws: &Draws, conditions: &Conditions, capture: &mut Capture) {
        let number = usize::from(draws.posterior.is_some());
        capture.put(format!("noise.{number}"), &draws.noise);
        if let Some(kept) = &conditions.kept {
            capture.put("mask", &kept.mask);
        }
        if let Some(image) = &conditions.image {
            let split = 4 * self.shape.channels;
            let rest = image.size()[2] - split;
            capture.put("masked_image_latents", &image.narrow(2, 0, split));
            capture.put("mask", &image.narrow(2, split, rest));
        }
    }
}
