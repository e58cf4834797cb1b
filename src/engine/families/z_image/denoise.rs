//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with is every picture's, the steps themselves are `sample.rs`'.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{NetworkConfig as _, SchedulerConfig, ZImageTransformerConfig};
use tch::Tensor;

use super::sample::{Conditions, sample};
use super::transformer::ZImageTransformer;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{Beginning, GivenImage, LatentShape};
use crate::text::PromptEmbeds;
use crate::work::Work;

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
    let job = Beginning {
        request,
        image,
        shape: LatentShape::new(config.in_channels, request.width, request.height)?,
    };
    let mut solver = schedule(request)?.solver(request, job.shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let conditions = Conditions {
        prompt: embeds.prompt,
        negative: embeds.negative,
        guidance_scale: request.sampling.guidance_scale,
        kept: job.kept(&draws),
    };
    let [_, channels, height, width] = job.shape.size();
    let size = [i64::from(request.batch_size), channels, height, width];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => DenoiseState::first(&solver, job.latents(&draws, &solver)),
    };
    draws.record(conditions.kept.as_ref(), work.capture);

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
