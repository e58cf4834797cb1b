//! Stage 3, from noise to latents: what the walk begins with, and which steps it makes.
//!
//! The steps themselves are `sample.rs`', what becomes of a given picture is FLUX.1's.

use safelight_core::networks::{ChromaTransformerConfig, NetworkConfig as _, SchedulerConfig};
use tch::Tensor;

use super::sample::{Conditions, sample};
use super::transformer::ChromaTransformer;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::families::flux::PictureJob;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{Draws, GivenImage, LatentShape, Role, seeds};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// The shift of files that come without a scheduler: none.
const SHIFT: f64 = 1.0;

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
    let config = ChromaTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = PictureJob {
        request,
        role: Role::Base,
        image,
        shape,
    };
    let schedule = FlowSchedule::of(match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_shift(SHIFT),
    });
    let mut solver = schedule.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = Draws::new(shape, job.draws_per_seed(), seeds(request))?;
    let conditions = Conditions {
        prompt: embeds.prompt,
        negative: embeds.negative,
        guidance_scale: request.sampling.guidance_scale,
        kept: job.kept(&draws),
    };
    let size = [
        i64::from(request.batch_size),
        shape.tokens(),
        config.in_channels,
    ];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => job.start(&draws, &solver),
    };
    draws.record(conditions.kept.as_ref(), work.capture);

    let new = |w: &_| ChromaTransformer::new(&config, w);
    let unexpected = ChromaTransformer::unexpected_keys;
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
