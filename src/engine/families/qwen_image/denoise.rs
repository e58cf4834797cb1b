//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with is every picture's, the steps themselves are `sample.rs`'.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{NetworkConfig as _, QwenImageTransformerConfig, SchedulerConfig};
use tch::Tensor;

use super::sample::{Conditions, sample};
use super::transformer::{QwenImageTransformer, Reference};
use crate::capture::Capture;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{Beginning, Draws, GivenImages, LatentShape};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// `given`: what the stage of given pictures gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: PromptEmbeds,
    given: Option<&GivenImages>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let home = &request.files.transformer;
    let weights = super::with_loras(&place.open(home)?, &request.loras)?;
    let config = QwenImageTransformerConfig::read(home)?;
    let channels = config.latent_channels();
    let shape = LatentShape::new(channels, request.width, request.height)?;
    let job = Beginning {
        request,
        image: given.and_then(|given| given.image.as_ref()),
        shape,
    };
    let mut solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let pack = |xs: &Tensor| shape.pack(&xs.expand([-1, channels, -1, -1], false));
    let conditions = Conditions {
        prompt: embeds.prompt,
        negative: embeds.negative,
        guidance_scale: request.sampling.guidance_scale,
        kept: job.kept(&draws).map(|kept| kept.map(pack)),
        references: references(given, shape)?,
    };
    let pictures = i64::from(request.batch_size);
    let size = [pictures, shape.tokens(), config.in_channels];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => DenoiseState::first(&solver, pack(&job.latents(&draws, &solver))),
    };
    record(&draws, &conditions, work.capture);

    let new = |w: &_| QwenImageTransformer::new(&config, w);
    let unexpected = QwenImageTransformer::unexpected_keys;
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

/// The pictures that are seen, as tokens.
fn references(
    given: Option<&GivenImages>,
    shape: LatentShape,
) -> Result<Vec<Reference>, EngineError> {
    let latents = given.into_iter().flat_map(|given| &given.references);
    let references = latents.map(|latents| {
        let (_, _, height, width) = latents.size4()?;
        let own = LatentShape {
            height,
            width,
            ..shape
        };
        Ok(Reference {
            tokens: own.pack(latents),
            grid: own.grid(),
        })
    });
    references.collect()
}

/// The model's own flow-match Euler, whose shift goes with the size.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let config = match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_qwen_image(),
    };
    Ok(FlowSchedule::of(config))
}

fn record(draws: &Draws, conditions: &Conditions, capture: &mut Capture) {
    let number = usize::from(draws.posterior.is_some());
    // b c h w -> b 1 c h w
    capture.put(format!("noise.{number}"), &draws.noise.unsqueeze(1));
    if let Some(kept) = &conditions.kept {
        capture.put("mask", &kept.mask);
    }
}
