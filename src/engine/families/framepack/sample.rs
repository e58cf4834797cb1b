//! The steps of one section from noise to latents: the model's answers and real guidance by a negative prompt.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use std::cell::RefCell;

use safelight_core::job::{SectionOrder, StepCache as Choice};
use tch::{Device, Kind, Tensor};

use super::layout::{History, Layout};
use super::state::TextEmbeds;
use super::transformer::{Context, FramePackTransformer, Modulations, Section};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, walk};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::step_cache::{StepCache, Walk};

/// Calls whose modulations are made at once: 2 MB each for a published model in halves.
const CALLS_AT_ONCE: usize = 32;

/// What the model is given beside the noise.
pub struct Conditions {
    pub prompt: TextEmbeds,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
    /// `(1, I, image_proj_dim)`
    pub image_embeds: Tensor,
    pub history: History,
    pub layout: Layout,
    /// What may be taken over from step to step, and the order that its numbers were measured for.
    pub step_cache: Option<(Choice, SectionOrder)>,
}

/// Two controls that have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guidance {
    /// What the model is told, where it was trained to be.
    pub distilled: f64,
    /// How far answers to the prompt are pushed from those to the negative prompt. Up to 1 there is only one answer.
    pub scale: f64,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the noise,
/// `(1, C, f, h, w)` in f32, and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU;
/// `None` when cancelled.
pub fn sample(
    transformer: &FramePackTransformer,
    conditions: &Conditions,
    guidance: Guidance,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<DenoiseState>, EngineError> {
    tch::no_grad(|| {
        check(transformer, conditions, state)?;
        let calls = solver.all_calls();
        let place = Placement::new(transformer.device(), transformer.kind());
        let past = state.history.iter();
        let past = past.map(|past| past.to_device(place.device)).collect();
        if !solver.restore(state.step, past) {
            return Err(EngineError::Internal {
                reason: "the state to go on from is not this sampler's".to_owned(),
            });
        }
        if state.step == calls.start {
            capture.put("latents.initial", &state.latents);
            capture.put("timesteps", &solver.timesteps());
            capture.put("sigmas", &Tensor::from_slice(solver.sigmas()));
        }
        let num_calls = solver.timesteps().size()[0] as usize;
        let timesteps = (0..num_calls).map(|call| solver.timestep(call)).collect();
        let run = Loop::new(transformer, conditions, guidance, timesteps, state, hooks);
        run.record(conditions, guidance, capture);
        let behind = walk(&run, state, calls.end, solver, place, capture, hooks)?;
        if let Some(cache) = &run.prompt.cache {
            tracing::info!("{} of {num_calls} steps were skipped", cache.num_skipped());
            hooks.skipped(cache.num_skipped(), num_calls);
        }
        Ok(behind.map(|behind| DenoiseState {
            step: behind.step,
            latents: behind.latents.to_device(Device::Cpu),
            history: Vec::new(),
        }))
    })
}

/// Whether what earlier stages gave is this model's.
fn check(
    transformer: &FramePackTransformer,
    conditions: &Conditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let config = transformer.config();
    let fits = |xs: &Tensor, size: &[i64]| {
        let found = xs.size();
        let same = |(found, wanted): (&i64, &i64)| *wanted < 0 || found == wanted;
        found.len() == size.len() && found.iter().zip(size).all(same) && xs.numel() > 0
    };
    let Conditions {
        history, layout, ..
    } = conditions;
    let channels = config.in_channels;
    let size = state.latents.size();
    let [height, width] = [3, 4].map(|axis: usize| size.get(axis).copied().unwrap_or(0));
    let of_frames = |places: &[i64]| [1, channels, places.len() as i64, height, width];
    let are_texts_fit = [Some(&conditions.prompt), conditions.negative.as_ref()]
        .into_iter()
        .flatten()
        .all(|text| {
            fits(&text.prompt, &[1, -1, config.text_embed_dim])
                && fits(&text.pooled, &[1, config.pooled_projection_dim])
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
    Err(EngineError::Internal { reason })
}

/// A text with all that does not change from step to step.
struct Asked {
    context: Context,
    rope: Rope,
    /// Its own: answers to other texts are not this one's.
    cache: Option<StepCache>,
    /// What the model is told in the calls from `first` on.
    told: RefCell<Told>,
}

#[derive(Default)]
struct Told {
    first: usize,
    modulations: Vec<Modulations>,
}

/// What all steps share.
struct Loop<'a> {
    transformer: &'a FramePackTransformer,
    section: Section,
    prompt: Asked,
    negative: Option<(Asked, f64)>,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    hooks: &'a dyn Hooks,
}

impl<'a> Loop<'a> {
    fn new(
        transformer: &'a FramePackTransformer,
        conditions: &Conditions,
        guidance: Guidance,
        timesteps: Vec<f32>,
        state: &DenoiseState,
        hooks: &'a dyn Hooks,
    ) -> Self {
        let size = state.latents.size();
        let size = [size[3], size[4]];
        let section = transformer.section(&conditions.history, &conditions.layout, size);
        let read = |text: &TextEmbeds| {
            let image = &conditions.image_embeds;
            let context = transformer.context(
                &text.prompt,
                text.len(),
                &text.pooled,
                image,
                guidance.distilled,
            );
            let cache = conditions.step_cache.map(|(choice, order)| {
                // A latent is 8 pixels wide and high.
                let side = u32::try_from(4 * (size[0] + size[1])).unwrap_or(u32::MAX);
                let num_calls = timesteps.len();
                StepCache::new(
                    choice,
                    Walk {
                        num_calls,
                        order,
                        side,
                    },
                )
            });
            Asked {
                rope: transformer.rope(&context, &section),
                cache,
                context,
                told: RefCell::default(),
            }
        };
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| guidance.scale > 1.0);
        Self {
            transformer,
            prompt: read(&conditions.prompt),
            negative: negative.map(|text| (read(text), guidance.scale)),
            section,
            timesteps,
            hooks,
        }
    }

    /// The model's answer to one text.
    fn ask(&self, asked: &Asked, latents: &Tensor, call: usize) -> Option<Tensor> {
        self.tell(asked, call);
        let told = asked.told.borrow();
        self.transformer.forward_cached(
            latents,
            &told.modulations[call - told.first],
            &asked.context,
            &self.section,
            &asked.rope,
            asked.cache.as_ref().map(|cache| (cache, call)),
            self.hooks,
        )
    }

    /// Makes what the model is told in `call` and those behind it, where that is not at hand. Parts of the whole
    /// schedule and not from where a run begins, so that one that goes on from a checkpoint gets the same numbers.
    fn tell(&self, asked: &Asked, call: usize) {
        let mut told = asked.told.borrow_mut();
        let first = call / CALLS_AT_ONCE * CALLS_AT_ONCE;
        if told.first == first && !told.modulations.is_empty() {
            return;
        }
        let last = self.timesteps.len().min(first + CALLS_AT_ONCE);
        let timesteps = &self.timesteps[first..last];
        *told = Told {
            first,
            modulations: self.transformer.modulations(timesteps, &asked.context),
        };
    }

    /// What the model is told in every call.
    fn record(&self, conditions: &Conditions, guidance: Guidance, capture: &mut Capture) {
        if !capture.is_on() {
            return;
        }
        let Conditions {
            history, layout, ..
        } = conditions;
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.negative.is_some());
        for (branch, text) in [("cond", Some(&conditions.prompt)), ("uncond", negative)] {
            let Some(text) = text else { continue };
            let mut put = |part: &str, xs: &Tensor| {
                capture.put(format!("transformer.in.{branch}.{part}"), xs);
            };
            put("encoder_hidden_states", &text.prompt);
            put("encoder_attention_mask", &text.mask);
            put("pooled_projections", &text.pooled);
            put("image_embeds", &conditions.image_embeds);
            if self.transformer.config().guidance_embeds {
                let told = guidance.distilled as f32 * 1000.0;
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

impl Denoiser for Loop<'_> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", latents);
        put("in.timestep", &call.told.view([1]).to_kind(Kind::Float));
        let cond = self.ask(&self.prompt, latents, call.index)?;
        put("cond", &cond);
        let Some((negative, scale)) = &self.negative else {
            return Some(cond);
        };
        let uncond = self.ask(negative, latents, call.index)?;
        put("uncond", &uncond);
        Some(&uncond + (cond - &uncond) * *scale)
    }

    fn first_recorded(&self, first: usize) -> usize {
        first
    }

    fn shown(&self, x0: &Tensor) -> Tensor {
        x0.shallow_clone()
    }
}
