//! Denoising loop of one section: the model's predictions, and true CFG with a negative prompt.
//!
//! The sampler, the transformer and the generic loop do the arithmetic. Opens no files.

use safelight_core::job::{BlockSet, SectionOrder, StepCache as Choice};
use safelight_core::networks::DenoiserConfig as _;
use tch::{Kind, Tensor};

use super::layout::{SectionHistory, SectionLayout};
use super::measured::measured;
use super::transformer::{
    FramePackContext, FramePackModulations, FramePackTransformer, SectionTokens,
};
use crate::capture::StageCapture;
use crate::denoise::{Denoiser, ModelCall, ModulationCache, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::{GuidanceScales, GuidedPasses};
use crate::hooks::{DenoiseState, Hooks};
use crate::nn::Rope;
use crate::placement::ComputePlacement;
use crate::sampling::Solver;
use crate::step_cache::{ContextCache, ContextCaches, SkipOptions};
use crate::text::TextEmbeds;

/// Everything that conditions the prediction.
pub struct FramePackConditioning {
    pub prompt: TextEmbeds,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
    /// `(1, I, image_proj_dim)`
    pub image_embeds: Tensor,
    pub history: SectionHistory,
    pub layout: SectionLayout,
    /// Step cache, and the section order that it was calibrated for.
    pub step_cache: Option<(Choice, SectionOrder)>,
}

/// Runs the solver's steps from `state` on. At the start, `state` is the noise, `(1, C, f, h, w)` in f32, and no
/// history; otherwise a checkpoint. Returns the state after the last step, on the CPU.
pub fn sample(
    transformer: &FramePackTransformer,
    conditions: &FramePackConditioning,
    scales: GuidanceScales,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut StageCapture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        check(transformer, conditions, state)?;
        scales
            .real
            .check_blocks(transformer.config().num_blocks() as usize)?;
        let place = ComputePlacement::new(transformer.device(), transformer.kind());
        begin(state, solver, place.device, capture)?;
        let timesteps = solver.all_timesteps();
        let num_calls = timesteps.len();
        let run = SectionDenoiser::new(transformer, conditions, scales, timesteps, state, hooks)?;
        run.record(conditions, scales, capture);
        let end = solver.all_calls().end;
        let behind = walk(&run, state, end, solver, place, capture, hooks);
        if let Some(num_skipped) = run.guidance.first().caches.num_skipped() {
            tracing::info!("{num_skipped} of {num_calls} steps were skipped");
            hooks.report_skipped_calls(num_skipped, num_calls);
        }
        behind.map(DenoiseState::last)
    })
}

/// Checks that the results of earlier stages fit this model.
fn check(
    transformer: &FramePackTransformer,
    conditions: &FramePackConditioning,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let (history, layout) = (&conditions.history, &conditions.layout);
    let channels = config.in_channels;
    let size = state.latents.size();
    let [height, width] = [3, 4].map(|axis: usize| size.get(axis).copied().unwrap_or(0));
    let of_frames = |places: &[i64]| [1, channels, places.len() as i64, height, width];
    let are_texts_fit = [Some(&conditions.prompt), conditions.negative.as_ref()]
        .into_iter()
        .flatten()
        .all(|text| {
            fits(&text.prompt, &[1, -1, config.text_embed_dim])
                && text
                    .pooled
                    .as_ref()
                    .is_some_and(|pooled| fits(pooled, &[1, config.pooled_projection_dim]))
                && (1..=text.prompt.size()[1]).contains(&text.len())
        });
    let is_history_fit = [
        (&history.clean, &layout.clean),
        (&history.history_2x, &layout.history_2x),
        (&history.history_4x, &layout.history_4x),
    ]
    .iter()
    .all(|(latents, places)| fits(latents, &of_frames(places)));
    let reason = if !fits(&state.latents, &of_frames(&layout.latents)) {
        format!("these are no latents of this model: {size:?}")
    } else if !are_texts_fit {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if !fits(&conditions.image_embeds, &[1, -1, config.image_proj_dim]) {
        "the embeddings of the picture are not what this model reads".to_owned()
    } else if !is_history_fit {
        "the latents of pictures and earlier sections are not of this job".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

/// A text with all that does not change from step to step.
struct SectionContext {
    context: FramePackContext,
    rope: Rope,
    /// Its own: answers to other texts are not this one's.
    caches: ContextCaches,
    told: ModulationCache<FramePackModulations>,
}

struct SectionDenoiser<'a> {
    transformer: &'a FramePackTransformer,
    section: SectionTokens,
    guidance: GuidedPasses<SectionContext>,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    hooks: &'a dyn Hooks,
}

impl<'a> SectionDenoiser<'a> {
    fn new(
        transformer: &'a FramePackTransformer,
        conditions: &FramePackConditioning,
        scales: GuidanceScales,
        timesteps: Vec<f32>,
        state: &DenoiseState,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let size = state.latents.size();
        let size = [size[3], size[4]];
        let section = transformer.section(&conditions.history, &conditions.layout, size);
        let read = |text: &TextEmbeds| {
            let image = &conditions.image_embeds;
            let context = transformer.context(
                &text.prompt,
                text.len(),
                text.pooled()?,
                image,
                scales.distilled,
            );
            let cache = || {
                let (choice, order) = conditions.step_cache?;
                // A latent is 8 pixels wide and high.
                let side = u32::try_from(4 * (size[0] + size[1])).unwrap_or(u32::MAX);
                let num_calls = timesteps.len();
                ContextCache::new(choice, num_calls, measured(order, side, num_calls))
            };
            Ok(SectionContext {
                rope: transformer.rope(&context, &section),
                caches: ContextCaches::new(cache),
                context,
                told: ModulationCache::default(),
            })
        };
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        Ok(Self {
            guidance: GuidedPasses::new(prompt, negative, scales.real, read)?,
            transformer,
            section,
            timesteps,
            hooks,
        })
    }

    fn ask(
        &self,
        asked: &SectionContext,
        latents: &Tensor,
        call: usize,
        without: BlockSet,
    ) -> Option<Tensor> {
        let make = |timesteps: &[f32]| self.transformer.modulations(timesteps, &asked.context);
        let told = asked.told.at(call, &self.timesteps, make);
        let make = |shortcut: SkipOptions<'_>| {
            self.transformer.forward(
                latents,
                &told,
                &asked.context,
                &self.section,
                &asked.rope,
                shortcut,
                self.hooks,
            )
        };
        asked.caches.answer(call, without, make)
    }

    fn record(
        &self,
        conditions: &FramePackConditioning,
        scales: GuidanceScales,
        capture: &mut StageCapture,
    ) {
        if !capture.is_on() {
            return;
        }
        let (history, layout) = (&conditions.history, &conditions.layout);
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.guidance.is_guided());
        for (branch, text) in [("cond", Some(&conditions.prompt)), ("uncond", negative)] {
            let Some(text) = text else { continue };
            let mut put = |part: &str, xs: &Tensor| {
                capture.put(format!("transformer.in.{branch}.{part}"), xs);
            };
            put("encoder_hidden_states", &text.prompt);
            if let Some(mask) = &text.mask {
                put("encoder_attention_mask", mask);
            }
            if let Some(pooled) = &text.pooled {
                put("pooled_projections", pooled);
            }
            put("image_embeds", &conditions.image_embeds);
            if self.transformer.config().guidance_embeds {
                let told = scales.distilled as f32 * 1000.0;
                put("guidance", &Tensor::from_slice(&[told]));
            }
            for (name, places) in [
                ("latents", &layout.latents),
                ("latents_clean", &layout.clean),
                ("latents_history_2x", &layout.history_2x),
                ("latents_history_4x", &layout.history_4x),
            ] {
                put(&format!("indices_{name}"), &Tensor::from_slice(places));
            }
            put("latents_clean", &history.clean);
            put("latents_history_2x", &history.history_2x);
            put("latents_history_4x", &history.history_4x);
        }
    }
}

impl Denoiser for SectionDenoiser<'_> {
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor> {
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", latents);
        put("in.timestep", &call.told.view([1]).to_kind(Kind::Float));
        let ask = |asked: &SectionContext, without| self.ask(asked, latents, call.index, without);
        self.guidance
            .velocity(call, latents, capture, Tensor::shallow_clone, ask)
    }

    fn first_captured_call(&self, first: usize) -> usize {
        first
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        x0.shallow_clone()
    }
}
