//! A section from noise to latents: its schedule, its noise, what it is shown, and where an earlier run got to.
//!
//! The steps themselves are `sample.rs`'.

use safelight_core::job::{GenerateRequest, SamplerKind};
use safelight_core::networks::{FramePackTransformerConfig, NetworkConfig as _};
use tch::{Kind, Tensor};

use super::condition::GivenImages;
use super::prepare::{FramePackNoise, FramePackShape, history, layout, sections};
use super::sample::{FramePackConditioning, sample};
use super::transformer::FramePackTransformer;
use crate::error::EngineError;
use crate::guidance::GuidanceScales;
use crate::hooks::DenoiseState;
use crate::sampling::{
    FlowSchedule, NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions, wanted_steps,
};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::StageWork;

/// `exp(mu)` is never larger: the schedule of no section is shifted more.
const LARGEST_SHIFT: f64 = 7.0;

pub struct SectionInputs<'a> {
    pub embeds: &'a PromptEmbeds,
    pub images: &'a GivenImages,
    /// `(1, I, image_proj_dim)`
    pub image_embeds: &'a Tensor,
    /// The latents of the sections made before, in their order, each `(1, C, f, h, w)`.
    pub earlier: &'a [Tensor],
}

/// The section after those of `given.earlier`. `resume`: where an earlier run of it got to -> its latents,
/// `(1, C, f, h, w)` in f32 on the CPU.
pub fn denoise(
    given: &SectionInputs<'_>,
    resume: Option<DenoiseState>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let (sections, section) = (sections(request)?, given.earlier.len() as u32);
    work.capture.set_section(section);
    let home = &request.files.transformer;
    let weights = super::with_loras(&place.open(home)?, &request.loras)?;
    let config = FramePackTransformerConfig::read(home)?;
    let shape = FramePackShape::new(config.in_channels, request)?;
    check(given, shape)?;
    let mut solver = solver(request, shape.tokens())?;
    let noise = noise(request, given, shape)?;
    let name = format!("noise.{}", num_pictures(given) + section);
    work.capture.put(name, &noise);
    let conditions = conditions(request, given, section, shape)?;
    let first = solver.initial(noise);
    let state = DenoiseState::new(resume, first, &mut solver, place.device, hooks);

    let new = |w: &_| FramePackTransformer::new(&config, w);
    let unexpected = FramePackTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    tracing::debug!("section {} of {}", section + 1, sections.count);
    let behind = sample(
        &transformer,
        &conditions,
        GuidanceScales::from_request(request),
        &mut solver,
        &state,
        work.capture,
        hooks,
    )?;
    Ok(behind.latents)
}

/// Results of earlier stages are checked before anything is loaded.
fn check(given: &SectionInputs<'_>, shape: FramePackShape) -> Result<(), EngineError> {
    let pictures = [Some(&given.images.start), given.images.end.as_ref()];
    let are_ours = pictures
        .into_iter()
        .flatten()
        .all(|latents| latents.size() == shape.picture())
        && given
            .earlier
            .iter()
            .all(|latents| latents.size() == shape.size())
        && given.images.clip.iter().all(|clip| {
            let frames = clip.size().get(2).copied().unwrap_or(0);
            frames > 0 && clip.size() == FramePackShape { frames, ..shape }.size()
        });
    if are_ours {
        return Ok(());
    }
    Err(EngineError::internal(
        "the latents of pictures and earlier sections are not of this job",
    ))
}

fn num_pictures(given: &SectionInputs<'_>) -> u32 {
    1 + u32::from(given.images.end.is_some())
}

/// Noise of the section, after all earlier draws.
fn noise(
    request: &GenerateRequest,
    given: &SectionInputs<'_>,
    shape: FramePackShape,
) -> Result<Tensor, EngineError> {
    let mut draws = FramePackNoise::new(request.seed, shape);
    for _ in 0..num_pictures(given) {
        drop(draws.picture()?);
    }
    for _ in given.earlier {
        drop(draws.section()?);
    }
    draws.section()
}

fn conditions(
    request: &GenerateRequest,
    given: &SectionInputs<'_>,
    section: u32,
    shape: FramePackShape,
) -> Result<FramePackConditioning, EngineError> {
    let sections = sections(request)?;
    let prompts = request.section_prompts().map_err(EngineError::request)?;
    let shares = prompts
        .as_ref()
        .and_then(|it| it.shares.get(section as usize));
    let shares = shares
        .ok_or_else(|| EngineError::internal(format!("the clip has no section {section}")))?;
    let negative = given.embeds.negative.as_ref();
    Ok(FramePackConditioning {
        prompt: given.embeds.of_section(shares)?,
        negative: negative.map(TextEmbeds::shallow_clone),
        image_embeds: given.image_embeds.to_kind(Kind::Float),
        history: history(sections.order, given.images, given.earlier, shape),
        layout: layout(&sections, section),
        step_cache: request
            .options
            .step_cache
            .map(|choice| (choice, sections.order)),
    })
}

/// Sampler of a request, for a section of `tokens` tokens. A shift in the request is used unchanged.
///
/// UniPC is the variant of FramePack: of third order, in the logarithm of sigma, along Euler's sigmas, with a shift that
/// depends on the number of tokens. The other samplers are diffusers', with the fixed shift of HunyuanVideo's
/// scheduler, and otherwise as UniPC.
pub fn solver(request: &GenerateRequest, tokens: i64) -> Result<Solver, EngineError> {
    let is_own = matches!(
        request.sampling.sampler,
        SamplerKind::UniPc | SamplerKind::UniPcBh1
    );
    let folder = request.files.scheduler.as_deref();
    let mut scheduler = FlowSchedule::read(folder.filter(|_| !is_own), true)?;
    scheduler.largest_mu = Some(LARGEST_SHIFT.ln());
    let num_steps = request.sampling.num_steps as usize;
    let steps = wanted_steps(request);
    if !is_own || num_steps == 0 {
        return scheduler.solver(request, tokens, steps);
    }
    let sigmas = scheduler.of_request(request).spaced(request, tokens);
    let sigmas = sigmas.into_iter().map(|sigma| sigma as f32).collect();
    let options = UniPcOptions {
        order: num_steps.saturating_sub(1).clamp(1, 3),
        is_of_sigma: true,
        lower_order_final: false,
        ..UniPcOptions::default()
    };
    let schedule = NoiseSchedule::of_sigmas(sigmas, scheduler.num_train_timesteps());
    let algorithm =
        SamplerAlgorithm::new(request.sampling.sampler, schedule, options, request.seed);
    Solver::of_steps(algorithm, steps, num_steps)
}
