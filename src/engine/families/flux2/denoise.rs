//! Stage 3, from noise to latents: what the walk begins with, which steps it makes, and what becomes of given pictures.
//!
//! The steps themselves are `sample.rs`'.

use std::ops::Range;

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{Flux2TransformerConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::prepare::mu;
use super::sample::{Conditions, Seen, sample};
use super::transformer::Flux2Transformer;
use crate::capture::Capture;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::sampling::{FlowSchedule, Solver, steps_from_picture, wanted_steps};
use crate::stages::stills::{Draws, GivenImage, GivenImages, Kept, LatentShape, noised, seeds};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// What is made anew of a given picture where the request does not say: as in diffusers' pipeline.
const STRENGTH: f64 = 0.8;

/// `images`: what the stage of given pictures gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: PromptEmbeds,
    images: Option<&GivenImages>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let home = &request.files.transformer;
    let weights = super::with_loras(&place.open(home)?, &request.loras)?;
    let config = Flux2TransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = Job {
        request,
        image: images.and_then(|images| images.image.as_ref()),
        references: images.map_or(&[][..], |images| &images.references[..]),
        shape,
    };
    let mut solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    let noise = job.noise(work.capture)?;
    let conditions = job.conditions(embeds, &noise);
    let size = [
        i64::from(request.batch_size),
        shape.tokens(),
        config.in_channels,
    ];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => job.start(&noise, &solver),
    };

    let new = |w: &_| Flux2Transformer::new(&config, w);
    let unexpected = Flux2Transformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let behind = sample(
        &transformer,
        shape,
        &conditions,
        &mut solver,
        &state,
        work.capture,
        hooks,
    )?;
    Ok(shape.unpack(&behind.latents))
}

/// The model's own flow-match Euler, whose shift goes with tokens and steps.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let mut schedule = FlowSchedule::read(request.files.scheduler.as_deref(), true)?;
    schedule.mu_by_steps = Some(mu);
    Ok(schedule)
}

/// What a request and its pictures make of noise.
struct Job<'a> {
    request: &'a GenerateRequest,
    image: Option<&'a GivenImage>,
    references: &'a [Tensor],
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

    /// `(B, C, h, w)`, drawn as tokens lie: two by two latents below each other.
    fn noise(&self, capture: &mut Capture) -> Result<Tensor, EngineError> {
        let drawn = Draws::new(self.shape.folded(), 1, seeds(self.request))?.noise;
        capture.put("noise.0", &drawn);
        Ok(self.shape.unfolded(&drawn))
    }

    fn start(&self, noise: &Tensor, solver: &Solver) -> DenoiseState {
        let first = solver.all_calls().start;
        let latents = match self.image {
            Some(image) => {
                let image = image.latents.to_device(Device::Cpu);
                noised(&image, noise, solver.sigmas()[first])
            }
            None => solver.initial(noise.shallow_clone()),
        };
        DenoiseState::first(solver, self.shape.pack(&latents))
    }

    /// The picture that the walk begins from is seen, too.
    fn conditions(&self, embeds: PromptEmbeds, noise: &Tensor) -> Conditions {
        let image = self.image.map(|image| &image.latents);
        let seen = image.into_iter().chain(self.references).map(|latents| {
            let size = latents.size();
            let shape = LatentShape {
                channels: size[1],
                height: size[2],
                width: size[3],
            };
            Seen {
                tokens: shape.pack(&latents.to_kind(Kind::Float)),
                shape,
            }
        });
        let kept = self.image.and_then(|image| {
            let noise = self.shape.pack(noise);
            let image_tokens = self.shape.pack(&image.latents.to_kind(Kind::Float));
            Some(Kept {
                image: image_tokens.expand_as(&noise),
                mask: self
                    .token_mask(image.mask.as_ref()?)
                    .expand([-1, -1, noise.size()[2]], false),
                noise,
            })
        });
        Conditions {
            prompt: embeds.prompt,
            negative: embeds.negative,
            guidance_scale: self.request.sampling.guidance_scale,
            seen: seen.collect(),
            kept,
        }
    }

    /// A mask, `(1, 1, H, W)`, at the tokens' places: the mean of the four pixels around each one's middle, `(1, n, 1)`
    fn token_mask(&self, mask: &Tensor) -> Tensor {
        let grid = self.shape.grid();
        let mask = mask.upsample_bilinear2d(grid, false, None, None);
        mask.view([1, -1, 1])
    }
}
