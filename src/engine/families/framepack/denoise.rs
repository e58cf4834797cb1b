//! A section from noise to latents: its schedule, noise and history, the model's predictions, and true CFG.

use safelight_core::job::{BlockSet, GenerateRequest, SamplerKind, VideoSections};
use safelight_core::networks::{
    DenoiserConfig as _, FramePackTransformerConfig, NetworkConfig as _,
};
use tch::{Kind, Tensor};

use super::condition::GivenImages;
use super::layout::{SectionHistory, SectionLayout};
use super::measured::measured;
use super::prepare::{FramePackShape, history, layout, sections};
use super::transformer::{
    FramePackContext, FramePackModulations, FramePackTransformer, SectionTokens,
};
use crate::capture::StageCapture;
use crate::denoise::{Denoiser, ModelCall, ModulationCache, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::{GuidanceScales, GuidedPasses};
use crate::hooks::{DenoiseState, Hooks};
use crate::sampling::{
    CpuGenerator, FlowSchedule, NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions, wanted_steps,
};
use crate::step_cache::{ContextCache, ContextCaches, SkipOptions};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::StageWork;

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

/// Everything that conditions the prediction besides the noise.
struct SectionConditioning {
    prompt: TextEmbeds,
    /// Only in jobs with CFG.
    negative: Option<TextEmbeds>,
    /// `(1, I, image_proj_dim)` in f32
    image_embeds: Tensor,
    history: SectionHistory,
    layout: SectionLayout,
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
    let shape = FramePackShape::new(config.in_channels, request)?;
    check(given, &config, shape)?;
    let conditioning = SectionConditioning::new(given, request, &sections, shape)?;
    let scales = GuidanceScales::from_request(request);
    scales.real.check_blocks(config.num_blocks() as usize)?;
    let mut solver = solver(request, shape.tokens())?;
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
        let size = [shape.height, shape.width];
        let tokens = transformer.section(&conditioning.history, &conditioning.layout, size);
        let side = u32::midpoint(request.width, request.height);
        let calibration = measured(sections.order, side, num_calls);
        let read = |text: &TextEmbeds| {
            let (prompt, pooled) = (&text.prompt, text.pooled()?);
            let image = &conditioning.image_embeds;
            let guidance = scales.distilled;
            let context = transformer.context(prompt, text.len(), pooled, image, guidance, &tokens);
            Ok(SectionContext {
                context,
                caches: ContextCaches::new(|| {
                    ContextCache::new(request.options.step_cache?, num_calls, calibration.clone())
                }),
                modulations: ModulationCache::default(),
            })
        };
        let (prompt, negative) = (&conditioning.prompt, conditioning.negative.as_ref());
        let run = SectionDenoiser {
            guidance: GuidedPasses::new(prompt, negative, scales.real, read)?,
            transformer: &transformer,
            section: tokens,
            timesteps,
            hooks,
        };
        if capture.is_on() {
            let guidance = config.guidance_embeds.then_some(scales.distilled);
            conditioning.record(guidance, run.guidance.is_guided(), capture);
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
    shape: FramePackShape,
) -> Result<(), EngineError> {
    let GivenImages { start, end, video } = given.images;
    let mut images = std::iter::once(start).chain(end);
    let is_video = |video: &Tensor| {
        let frames = video.size().get(2).copied().unwrap_or(0);
        frames > 0 && video.size() == FramePackShape { frames, ..shape }.size()
    };
    let are_latents = images.all(|latents| latents.size() == shape.image())
        && given.earlier.iter().all(|it| it.size() == shape.size())
        && video.as_ref().is_none_or(is_video);
    let is_text = |text: &TextEmbeds| {
        let width = config.pooled_projection_dim;
        let pooled = text.pooled.as_ref();
        fits(&text.prompt, &[1, -1, config.text_embed_dim])
            && pooled.is_some_and(|pooled| fits(pooled, &[1, width]))
            && (1..=text.prompt.size()[1]).contains(&text.len())
    };
    let embeds = given.embeds;
    let texts = std::iter::once(&embeds.prompt).chain(&embeds.later);
    let mut texts = texts.chain(&embeds.negative);
    let reason = if !are_latents {
        "the latents of images and earlier sections are not of this job"
    } else if !texts.all(is_text) {
        "the embeddings of the texts are not what this model reads"
    } else if !fits(given.image_embeds, &[1, -1, config.image_proj_dim]) {
        "the embeddings of the image are not what this model reads"
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

fn num_images(given: &SectionInputs<'_>) -> u32 {
    1 + u32::from(given.images.end.is_some())
}

/// Noise of the section, after all earlier draws from the seed, in the order of diffusers: around the latents of each given
/// image, then for each section.
fn noise(
    request: &GenerateRequest,
    given: &SectionInputs<'_>,
    shape: FramePackShape,
) -> Result<Tensor, EngineError> {
    let mut generator = CpuGenerator::new(request.seed);
    for _ in 0..num_images(given) {
        drop(generator.normal(&shape.image())?);
    }
    for _ in given.earlier {
        drop(generator.normal(&shape.size())?);
    }
    Ok(generator.normal(&shape.size())?)
}

impl SectionConditioning {
    fn new(
        given: &SectionInputs<'_>,
        request: &GenerateRequest,
        sections: &VideoSections,
        shape: FramePackShape,
    ) -> Result<Self, EngineError> {
        let section = given.earlier.len();
        let prompts = request.section_prompts().map_err(EngineError::request)?;
        let shares = prompts.as_ref().and_then(|it| it.shares.get(section));
        let missing = || EngineError::internal(format!("the video has no section {section}"));
        let negative = given.embeds.negative.as_ref();
        Ok(Self {
            prompt: given.embeds.of_section(shares.ok_or_else(missing)?)?,
            negative: negative.map(TextEmbeds::shallow_clone),
            image_embeds: given.image_embeds.to_kind(Kind::Float),
            history: history(sections.order, given.images, given.earlier, shape),
            layout: layout(sections, section as u32),
        })
    }

    /// `guidance`: distilled guidance, in models with that input
    fn record(&self, guidance: Option<f64>, is_guided: bool, capture: &mut StageCapture) {
        let (history, layout) = (&self.history, &self.layout);
        let negative = self.negative.as_ref().filter(|_| is_guided);
        for (branch, text) in [("cond", Some(&self.prompt)), ("uncond", negative)] {
            let Some(text) = text else { continue };
            let guidance = guidance.map(|it| Tensor::from_slice(&[it as f32 * 1000.0]));
            for (part, xs) in [
                ("encoder_hidden_states", Some(&text.prompt)),
                ("encoder_attention_mask", text.mask.as_ref()),
                ("pooled_projections", text.pooled.as_ref()),
                ("image_embeds", Some(&self.image_embeds)),
                ("guidance", guidance.as_ref()),
                (
                    "indices_latents",
                    Some(&Tensor::from_slice(&layout.latents)),
                ),
                ("latents_clean", Some(&history.clean)),
                ("latents_history_2x", Some(&history.history_2x)),
                ("latents_history_4x", Some(&history.history_4x)),
                (
                    "indices_latents_clean",
                    Some(&Tensor::from_slice(&layout.clean)),
                ),
                (
                    "indices_latents_history_2x",
                    Some(&Tensor::from_slice(&layout.history_2x)),
                ),
                (
                    "indices_latents_history_4x",
                    Some(&Tensor::from_slice(&layout.history_4x)),
                ),
            ] {
                if let Some(xs) = xs {
                    capture.put(format!("transformer.in.{branch}.{part}"), xs);
                }
            }
        }
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
        let timestep = call.told.view([1]).to_kind(Kind::Float);
        for (part, xs) in [("hidden_states", latents), ("timestep", &timestep)] {
            capture.put(call.name(&format!("transformer.in.{part}")), xs);
        }
        let predict = |cached: &SectionContext, without: BlockSet| {
            let (model, context) = (self.transformer, &cached.context);
            let make = |timesteps: &[f32]| model.modulations(timesteps, context);
            let modulations = cached.modulations.at(call.index, &self.timesteps, make);
            cached
                .caches
                .answer(call.index, without, |skip: SkipOptions<'_>| {
                    model.forward(
                        latents,
                        &modulations,
                        context,
                        &self.section,
                        skip,
                        self.hooks,
                    )
                })
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
