//! Stage 3, from noise to latents: what the walk begins with, which steps it makes, and what becomes of a given picture.
//!
//! The steps themselves are `sample.rs`'.

use std::ops::Range;

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{NetworkConfig as _, SchedulerConfig, ZImageTransformerConfig};
use tch::{Device, Kind, Tensor};

use super::sample::{Conditions, Kept, sample};
use super::transformer::ZImageTransformer;
use crate::capture::Capture;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::sampling::{FlowSchedule, Solver, steps_from_picture, wanted_steps};
use crate::stages::stills::{Draws, GivenImage, LatentShape, corner_mask, noised, seeds};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// What is made anew of a given picture where the request does not say: as in diffusers' pipeline.
const STRENGTH: f64 = 0.6;
/// The published shift of Turbo, for files that come without a scheduler and requests that say none.
const SHIFT: f64 = 3.0;

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
    let config = ZImageTransformerConfig::read(home)?;
    let job = Job {
        request,
        image,
        shape: LatentShape::new(config.in_channels, request.width, request.height)?,
    };
    let mut solver = schedule(request)?.solver(request, job.shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = Draws::new(job.shape, job.draws_per_seed(), seeds(request))?;
    let conditions = job.conditions(embeds, &draws);
    let [_, channels, height, width] = job.shape.size();
    let size = [i64::from(request.batch_size), channels, height, width];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => job.start(&draws, &solver),
    };
    record(&draws, &conditions, work.capture);

    let new = |w: &_| ZImageTransformer::new(&config, w);
    let unexpected = ZImageTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let behind = sample(
        &transformer,
        &conditions,
        &mut solver,
        &state,
        work.capture,
        hooks,
    )?;
    Ok(behind.latents)
}

/// The model's own flow-match Euler.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let config = match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_shift(SHIFT),
    };
    let mut schedule = FlowSchedule::of(config);
    schedule.is_in_single = true;
    Ok(schedule)
}

/// What a request and its picture make of noise.
struct Job<'a> {
    request: &'a GenerateRequest,
    image: Option<&'a GivenImage>,
    shape: LatentShape,
}

impl Job<'_> {
    /// The steps that the request wants, of those that its strength leaves.
    fn steps(&self) -> Result<Range<usize>, EngineError> {
        match self.image {
            Some(_) => {
                let strength = self.request.sampling.strength.unwrap_or(STRENGTH);
                steps_from_picture(self.request, strength)
            }
            None => Ok(wanted_steps(self.request)),
        }
    }

    fn draws_per_seed(&self) -> usize {
        let image = self.image.as_ref();
        1 + image.map_or(0, |image| 1 + usize::from(image.mask.is_some()))
    }

    fn start(&self, draws: &Draws, solver: &Solver) -> DenoiseState {
        let first = solver.all_calls().start;
        let noise = draws.noise.shallow_clone();
        let latents = match self.image {
            Some(image) => {
                let image = image.latents.to_device(Device::Cpu);
                noised(&image, &noise, solver.sigmas()[first])
            }
            None => solver.initial(noise),
        };
        DenoiseState::first(solver, latents)
    }

    fn conditions(&self, embeds: PromptEmbeds, draws: &Draws) -> Conditions {
        let kept = self.image.and_then(|image| {
            Some(Kept {
                image: image.latents.to_kind(Kind::Float),
                noise: draws.noise.shallow_clone(),
                mask: corner_mask(image.mask.as_ref()?),
            })
        });
        Conditions {
            prompt: embeds.prompt,
            negative: embeds.negative,
            guidance_scale: self.request.sampling.guidance_scale,
            kept,
        }
    }
}

fn record(draws: &Draws, conditions: &Conditions, capture: &mut Capture) {
    let number = usize::from(draws.posterior.is_some());
    capture.put(format!("noise.{number}"), &draws.noise);
    if let Some(kept) = &conditions.kept {
        capture.put("mask", &kept.mask);
    }
}
