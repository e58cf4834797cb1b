//! A section from noise to latents: its schedule, noise and history, the model's predictions, and true CFG.

use safelight_core::job::{BlockSet, GenerateRequest, SamplerKind};
use safelight_core::networks::{
    DenoiserConfig as _, FramePackTransformerConfig, NetworkConfig as _, SchedulerConfig,
};
use tch::{Kind, Tensor};

use super::layout::{SectionHistory, SectionLayout, history, layout, section_shape, sections};
use super::measured::measured;
use super::stages::GivenImages;
use super::transformer::{
    FramePackContext, FramePackModulations, FramePackTransformer, SectionTokens, TOKEN,
};
use crate::denoise::{Denoiser, ModelCall, ModulationCache, begin, check_result, walk};
use crate::guidance::{GuidanceScales, GuidedPasses};
use crate::hooks::DenoiseState;
use crate::sampling::{
    CpuGenerator, FlowSchedule, NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions, wanted_steps,
};
use crate::stages::video_latents::VideoLatentShape;
use crate::step_cache::{ContextCaches, SkipOptions};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, Hooks, StageCapture, StageWork};

/// `exp(mu)` is never larger: the schedule of no section is shifted more.
const LARGEST_SHIFT: f64 = 7.0;

pub struct SectionInputs<'a> {
    pub embeds: &'a PromptEmbeds,
    pub images: &'a GivenImages,
    /// `(1, I, image_proj_dim)`
    pub image_embeds: &'a Tensor,
    /// Latents of the sections made before, in their order, each `(1, C, f, h, w)`.
    pub earlier: &'a [Tensor],
}

/// Runs the denoising loop of the section after those of `given.earlier`, or the rest of it from where an earlier run
/// stopped -> latents, `(1, C, f, h, w)` in f32 on the CPU
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
    let shape = section_shape(config.in_channels, request)?;
    check(given, &config, shape)?;
    let (prompt, negative) = (prompt(given, request)?, given.embeds.negative.as_ref());
    let image = given.image_embeds.to_kind(Kind::Float);
    let history = history(sections.order, given.images, given.earlier, shape);
    let layout = layout(&sections, section);
    let scales = GuidanceScales::from_request(request);
    scales.real.check_blocks(config.shape().layers as usize)?;
    let (per_frame, frames) = shape.tokens(TOKEN);
    // The sampler's own noise is another one in every section.
    let seed = request.seed.wrapping_add(section as u64);
    let seeded = GenerateRequest {
        seed,
        ..request.clone()
    };
    let mut solver = solver(&seeded, per_frame * frames)?;
    let noise = noise(request, given, shape)?;
    let name = format!("noise.{}", num_images(given) + section);
    work.capture.put(name, &noise);
    let first = solver.initial(noise);
    let state = DenoiseState::new(resume, first, &mut solver, place.device, hooks);

    let new = |w: &_| FramePackTransformer::new(&config, w);
    let unexpected = FramePackTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    tracing::debug!("section {} of {}", section + 1, sections.count);
    let capture = &mut *work.capture;
    tch::no_grad(|| {
        begin(&state, &mut solver, place.device, capture)?;
        let timesteps = solver.all_timesteps();
        let num_calls = timesteps.len();
        let tokens = transformer.section(&history, &layout, [shape.height, shape.width]);
        let side = u32::midpoint(request.width, request.height);
        let calibration = measured(sections.order, side, num_calls);
        let read = |text: &TextEmbeds| {
            let (prompt, pooled, guidance) = (&text.prompt, text.pooled()?, scales.distilled);
            let choice = request.options.step_cache;
            Ok(SectionContext {
                context: transformer.context(prompt, text.len(), pooled, &image, guidance, &tokens),
                caches: ContextCaches::new(choice, num_calls, || calibration.clone()),
                modulations: ModulationCache::default(),
            })
        };
        let run = SectionDenoiser {
            guidance: GuidedPasses::new(&prompt, negative, scales.real, read)?,
            transformer: &transformer,
            section: tokens,
            timesteps,
            hooks,
        };
        if capture.is_on() {
            let guidance = config.guidance_embeds.then_some(scales.distilled);
            let negative = negative.filter(|_| run.guidance.is_guided());
            for (branch, text) in [("cond", Some(&prompt)), ("uncond", negative)] {
                let Some(text) = text else { continue };
                record(branch, (text, &image, guidance), &history, &layout, capture);
            }
        }
        let end = solver.all_calls().end;
        let last = walk(&run, &state, end, &mut solver, place, capture, hooks)?;
        if let Some(num_skipped) = run.guidance.first().caches.num_skipped() {
            tracing::info!("{num_skipped} of {num_calls} steps were skipped");
            hooks.report_skipped_calls(num_skipped, num_calls);
        }
        Ok(last.last().latents)
    })
}

/// Checks results of earlier stages before anything is loaded.
fn check(
    given: &SectionInputs<'_>,
    config: &FramePackTransformerConfig,
    shape: VideoLatentShape,
) -> Result<(), EngineError> {
    let GivenImages { start, end, video } = given.images;
    let [_, channels, _, height, width] = shape.size();
    let latents = |frames| [1, channels, frames, height, width];
    let images = std::iter::once(start).chain(end);
    let images = images.map(|image| ("the images' latents", image, 1));
    let earlier = given.earlier.iter();
    let earlier = earlier.map(|it| ("the earlier sections' latents", it, shape.frames));
    let video = video.iter().map(|video| ("the video's latents", video, -1));
    for (what, found, frames) in images.chain(earlier).chain(video) {
        check_result(what, Some(found), Some(&latents(frames)))?;
    }
    let (states, pooled) = (config.text_embed_dim, Some(config.pooled_projection_dim));
    let is_text = |text: &TextEmbeds| {
        text.has_widths(states, pooled) && (1..=text.prompt.size()[1]).contains(&text.len())
    };
    if !given.embeds.all().all(is_text) {
        let reason = "the embeddings of the texts are not what this model reads";
        return Err(EngineError::internal(reason));
    }
    let size = [1, -1, config.image_proj_dim];
    check_result(
        "the image's embeddings",
        Some(given.image_embeds),
        Some(&size),
    )
}

fn num_images(given: &SectionInputs<'_>) -> u32 {
    1 + u32::from(given.images.end.is_some())
}

/// Noise of the section, after all earlier draws from the seed, in the order of diffusers: around the latents of each given
/// image, then for each section.
fn noise(
    request: &GenerateRequest,
    given: &SectionInputs<'_>,
    shape: VideoLatentShape,
) -> Result<Tensor, EngineError> {
    let mut generator = CpuGenerator::new(request.seed);
    for _ in 0..num_images(given) {
        drop(generator.normal(&shape.with_frames(1).size())?);
    }
    for _ in given.earlier {
        drop(generator.normal(&shape.size())?);
    }
    Ok(generator.normal(&shape.size())?)
}

/// The text of the section.
fn prompt(given: &SectionInputs<'_>, request: &GenerateRequest) -> Result<TextEmbeds, EngineError> {
    let section = given.earlier.len();
    let prompts = request.section_prompts().map_err(EngineError::request)?;
    let shares = prompts.as_ref().and_then(|it| it.shares.get(section));
    let missing = || EngineError::internal(format!("the video has no section {section}"));
    given.embeds.of_section(shares.ok_or_else(missing)?)
}

/// Records the inputs of a pass; `guidance`: distilled guidance, in models with that input
fn record(
    branch: &str,
    (text, image_embeds, guidance): (&TextEmbeds, &Tensor, Option<f64>),
    history: &SectionHistory,
    layout: &SectionLayout,
    capture: &mut StageCapture,
) {
    let guidance = guidance.map(|it| Tensor::from_slice(&[it as f32 * 1000.0]));
    let indices = |places: &[i64]| Tensor::from_slice(places);
    for (part, xs) in [
        ("encoder_hidden_states", Some(&text.prompt)),
        ("encoder_attention_mask", text.mask.as_ref()),
        ("pooled_projections", text.pooled.as_ref()),
        ("image_embeds", Some(image_embeds)),
        ("guidance", guidance.as_ref()),
        ("indices_latents", Some(&indices(&layout.latents))),
        ("latents_clean", Some(&history.clean)),
        ("latents_history_2x", Some(&history.history_2x)),
        ("latents_history_4x", Some(&history.history_4x)),
        ("indices_latents_clean", Some(&indices(&layout.clean))),
        (
            "indices_latents_history_2x",
            Some(&indices(&layout.history_2x)),
        ),
        (
            "indices_latents_history_4x",
            Some(&indices(&layout.history_4x)),
        ),
    ] {
        capture.put_some(format!("transformer.in.{branch}.{part}"), xs);
    }
}

/// A text embedded once for all steps, with values cached between them.
struct SectionContext {
    context: FramePackContext,
    caches: ContextCaches,
    modulations: ModulationCache<FramePackModulations>,
}

struct SectionDenoiser<'a> {
    transformer: &'a FramePackTransformer,
    section: SectionTokens,
    guidance: GuidedPasses<SectionContext>,
    /// Timestep of every call of the whole schedule.
    timesteps: Vec<f32>,
    hooks: &'a dyn Hooks,
}

impl Denoiser for SectionDenoiser<'_> {
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor> {
        let timestep = call.timestep_tensor.view([1]).to_kind(Kind::Float);
        for (part, xs) in [("hidden_states", latents), ("timestep", &timestep)] {
            capture.put(call.name(&format!("transformer.in.{part}")), xs);
        }
        let predict = |cached: &SectionContext, without: BlockSet| {
            let (model, context, section) = (self.transformer, &cached.context, &self.section);
            let make = |timesteps: &[f32]| model.modulations(timesteps, context);
            let modulations = cached.modulations.at(call.index, &self.timesteps, make);
            let make = |skip: SkipOptions<'_>| {
                model.forward(latents, &modulations, context, section, skip, self.hooks)
            };
            cached.caches.answer(call.index, without, make)
        };
        self.guidance
            .velocity(call, latents, capture, Tensor::shallow_clone, predict)
    }

    fn first_captured_call(&self, first: usize) -> usize {
        first
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        x0.shallow_clone()
    }
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
    let scheduler = FlowSchedule {
        largest_mu: Some(LARGEST_SHIFT.ln()),
        ..SchedulerConfig::of_flux(true).into()
    };
    let scheduler = scheduler.read(folder.filter(|_| !is_own))?;
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
