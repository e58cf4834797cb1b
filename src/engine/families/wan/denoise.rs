//! Denoising: steps of each expert, guidance, given images, checkpoints.
//!
//! The sampler and the transformer do the arithmetic.

use std::ops::Range;
use std::path::Path;

use safelight_core::families::{ModelFamily, lora_target};
use safelight_core::job::{ControlSettings, GenerateRequest, LoraChoice};
use safelight_core::lora::Expert;
use safelight_core::networks::{TransformerKeys, WanTransformerConfig};
use tch::{Device, Kind, Tensor};

use super::config::WanConfig;
use super::control_blocks::ControlVideo;
use super::measured::{CalibrationKey, measured};
use super::prepare::{
    TokenTimesteps, first_frame_mask, latent_mask, latent_shape, new_solver, with_first_frame,
};
use super::stages::{KeptVideo, check_inputs};
use super::transformer::{CallInputs, WanContext, WanTransformer};
use super::video::first_latents;
use crate::denoise::{Denoiser, ModelCall, record_start as record_walk, walk};
use crate::guidance::{GuidanceParams, GuidedPasses};
use crate::hooks::DenoiseState;
use crate::memory::CachedNetwork;
use crate::nn::Rope;
use crate::parallel::is_shared;
use crate::placement::ComputePlacement;
use crate::runtime::free_bytes;
use crate::sampling::{NoiseSpace, Solver, noise};
use crate::stages::images::InpaintBlend;
use crate::stages::video_latents::VideoLatentShape;
use crate::step_cache::{ContextCaches, SkipOptions};
use crate::text::PromptEmbeds;
use crate::weights::ReadAhead;
use crate::{EngineError, Hooks, StageCapture, StageWork, Weights};

/// Memory of one pass above which batching does not pay: it fills a GPU alone.
const LARGEST_JOINED_PASS: u64 = 1 << 30;

/// Results of earlier stages that condition the prediction.
pub struct WanConditioning {
    pub embeds: PromptEmbeds,
    /// Result of [`encode_image`](super::encode_image).
    pub image_latents: Option<Tensor>,
    /// Result of [`encode_vision`](super::encode_vision).
    pub image_embeds: Option<Tensor>,
    /// Result of [`encode_source`](super::encode_source).
    pub base: Option<Tensor>,
    /// Result of [`encode_kept`](super::encode_kept).
    pub kept: Option<KeptVideo>,
    /// In VACE models: result of [`encode_control`](super::encode_control), with one more frame before the video for each
    /// reference.
    pub control: Option<(Tensor, ControlSettings)>,
}

struct WanDenoiser<'a> {
    transformer: CachedNetwork<WanTransformer>,
    guidance: GuidedPasses<WanCachedContext>,
    rope: Rope,
    /// Latents of a given first frame that replace the noise, `(1, C, 1, h, w)`.
    first_frame: Option<Tensor>,
    /// Mask and latents of given frames as further input channels, `(1, 4 + C, f, h, w)`.
    condition: Option<Tensor>,
    /// Inpainting, if there is a mask.
    kept: Option<InpaintBlend>,
    /// Input of the control blocks, and the steps in which they act.
    control: Option<(ControlVideo, ControlSettings)>,
    /// Latent frames before the video.
    before: i64,
    has_token_timesteps: bool,
    shape: VideoLatentShape,
    patch_size: [i64; 3],
    hooks: &'a dyn Hooks,
}

/// Texts with what is kept of answers to them.
struct WanCachedContext {
    context: WanContext,
    caches: ContextCaches,
}

/// Denoising stage of one expert: Wan 2.2 A14B has two transformers, of which only one is loaded at a time, the
/// high-noise one for the steps at and above the boundary. `resume`: state of an earlier run or of the other expert.
/// Returns the state after the last of this expert's steps, on the CPU.
pub fn denoise(
    config: &WanConfig,
    expert: Expert,
    conditions: &WanConditioning,
    resume: Option<DenoiseState>,
    work: &mut StageWork<'_>,
) -> Result<DenoiseState, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    tch::no_grad(|| {
        let shape = latent_shape(config, request)?;
        let before = references(config, request);
        let shape = shape.with_frames(shape.frames + before as i64);
        check_inputs(config, request, conditions, shape)?;
        let mut solver = new_solver(&config.scheduler, request)?;
        // A second pass is the low-noise expert's alone, whatever its strength.
        let calls = if request.is_second_pass() {
            solver.all_calls()
        } else {
            calls_of(config, expert, &solver)
        };
        let drawn = noise(&shape.size(), request.seed)?;
        let first = first_latents(&solver, drawn, conditions.base.as_ref());
        let state = DenoiseState::new(resume, first, &mut solver, place.device, hooks);
        if expert == Expert::LowNoise && state.step < calls.start {
            return Err(EngineError::internal(
                "the high-noise expert has not made its steps",
            ));
        }
        if expert != Expert::LowNoise {
            record_start(work, config, conditions, shape, &solver)?;
        }
        let behind = if state.step < calls.end {
            let run = WanDenoiser::load(config, expert, conditions, shape, &solver, work)?;
            let _read_ahead = read_ahead(config, expert, &solver, place);
            let (end, capture) = (calls.end, &mut *work.capture);
            let behind = walk(&run, &state, end, &mut solver, place, capture, hooks)?;
            if let Some(num_skipped) = run.guidance.first().caches.num_skipped() {
                hooks.report_skipped_calls(num_skipped, calls.len());
            }
            behind
        } else {
            state
        };
        // The history is of use to the other expert alone.
        if expert == Expert::HighNoise {
            let history = behind.history.iter();
            let history = history.map(|past| past.to_device(Device::Cpu)).collect();
            return Ok(DenoiseState {
                history,
                ..behind.last()
            });
        }
        let last = behind.last();
        let latents = behind_references(&last.latents, before as i64);
        let latents = match first_frame(config, conditions) {
            Some(first) => with_first_frame(&latents, first),
            None => latents,
        };
        Ok(DenoiseState { latents, ..last })
    })
}

/// Reads the other expert's weights, if it will run any steps, into free memory while this one computes.
fn read_ahead(
    config: &WanConfig,
    expert: Expert,
    solver: &Solver,
    place: ComputePlacement,
) -> Option<ReadAhead> {
    let next = config.files.transformer_2.as_deref()?;
    let is_next =
        expert == Expert::HighNoise && !calls_of(config, Expert::LowNoise, solver).is_empty();
    let uses_cache = place.device == Device::Cpu || place.resident_bytes.is_some();
    is_next.then(|| ReadAhead::start(next, uses_cache))
}

/// The calls of the model that an expert answers, of those that the request wants.
fn calls_of(config: &WanConfig, expert: Expert, solver: &Solver) -> Range<usize> {
    let calls = solver.all_calls();
    let Some(boundary) = config.boundary() else {
        return calls;
    };
    let is_high = |&call: &usize| f64::from(solver.timestep(call)) >= boundary;
    let switch = calls.start + calls.clone().take_while(is_high).count();
    match expert {
        Expert::Only => calls,
        Expert::HighNoise => calls.start..switch,
        Expert::LowNoise => switch..calls.end,
    }
}

impl<'a> WanDenoiser<'a> {
    fn load(
        config: &WanConfig,
        expert: Expert,
        conditions: &WanConditioning,
        shape: VideoLatentShape,
        solver: &Solver,
        work: &StageWork<'a>,
    ) -> Result<Self, EngineError> {
        let (request, place, hooks) = (work.request, work.place, work.hooks);
        let (component, network, folder, scale) = expert_of(config, request, expert)?;
        let open = || open_transformer(folder, place, &request.loras, expert);
        let new = |w: &_| WanTransformer::new(network, w);
        let transformer = work.transformer(component, folder, open, new, Weights::finish)?;
        let (per_frame, frames) = shape.tokens(network.patch_size);
        let num_calls = solver.all_timesteps().len();
        let low_noise = || calls_of(config, Expert::LowNoise, solver).start;
        let switch = config.boundary().map(|_| low_noise());
        let guiding = GuidanceParams {
            scale,
            ..GuidanceParams::of(request)
        };
        guiding.check_blocks(transformer.num_blocks())?;
        let numbers = CalibrationKey {
            num_calls,
            expert: switch.map(|switch| (switch, expert == Expert::LowNoise)),
            given_frame: (config.files.expand_timesteps)
                .then_some(conditions.image_latents.is_some()),
            pixels: i64::from(request.width) * i64::from(request.height),
        };
        let calibration = measured(network, numbers);
        let cached = |embeds: &Tensor| WanCachedContext {
            context: transformer.context(embeds, conditions.image_embeds.as_ref()),
            caches: ContextCaches::new(request.options.step_cache, num_calls, || {
                calibration.clone()
            }),
        };
        let bytes = pass_bytes(network, per_frame * frames, place.kind);
        let is_joined = request.options.step_cache.is_none()
            && !is_shared()
            && joins_passes(place.device, bytes);
        let PromptEmbeds {
            prompt, negative, ..
        } = &conditions.embeds;
        let guidance = match negative {
            None if scale > 1.0 => {
                let reason = "the negative prompt has not been read";
                return Err(EngineError::internal(reason));
            }
            Some(negative) if scale > 1.0 && is_joined => {
                let both = Tensor::cat(&[&prompt.prompt, &negative.prompt], 0);
                let alone = cached(&prompt.prompt);
                GuidedPasses::joined(cached(&both), alone, guiding)
            }
            _ => GuidedPasses::new(prompt, negative.as_ref(), guiding, |text| {
                Ok(cached(&text.prompt))
            })?,
        };
        let here = |tensor: &Tensor| tensor.to_device(place.device);
        let kept = |kept: &KeptVideo| {
            let (space, time) = (config.vae.spatial_factor(), config.vae.temporal_factor());
            let blend = InpaintBlend {
                image: kept.latents.shallow_clone(),
                noise: noise(&shape.size(), request.seed)?,
                mask: latent_mask(&kept.mask, space, time),
            };
            Ok::<_, EngineError>(blend.to_device(place.device))
        };
        Ok(Self {
            guidance,
            rope: transformer.rope(shape.size()),
            control: conditions.control.as_ref().and_then(|(latents, how)| {
                let video = transformer.control(latents, how.strength)?;
                Some((video, how.clone()))
            }),
            before: references(config, request) as i64,
            transformer,
            first_frame: first_frame(config, conditions).map(here),
            condition: conditions
                .image_latents
                .as_ref()
                .filter(|_| network.condition_channels() > 0)
                .map(here),
            kept: conditions.kept.as_ref().map(kept).transpose()?,
            has_token_timesteps: config.files.expand_timesteps,
            shape,
            patch_size: network.patch_size,
            hooks,
        })
    }

    fn with_given_frame(&self, latents: &Tensor) -> Tensor {
        match &self.first_frame {
            Some(first) => with_first_frame(latents, first),
            None => latents.shallow_clone(),
        }
    }
}

impl Denoiser for WanDenoiser<'_> {
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor> {
        let timestep = call.timestep;
        let (per_frame, frames) = self.shape.tokens(self.patch_size);
        let timesteps = if self.first_frame.is_some() {
            TokenTimesteps::with_clean_start(timestep, per_frame, per_frame * (frames - 1))
        } else {
            TokenTimesteps::uniform(timestep, per_frame * frames)
        };
        let mut input = self.with_given_frame(latents);
        if let Some(condition) = &self.condition {
            input = Tensor::cat(&[&input, condition], 1);
        }
        if capture.is_on() {
            capture.put(call.name("transformer.in.hidden_states"), &input);
            let timestep = if self.has_token_timesteps {
                timesteps.per_token()
            } else {
                call.timestep_tensor.unsqueeze(0)
            };
            capture.put(call.name("transformer.in.timestep"), &timestep);
        }
        let acts = |how: &ControlSettings| how.acts_in(call.step, call.num_steps);
        let control = self.control.as_ref().filter(|(_, how)| acts(how));
        let ask = |asked: &WanCachedContext, without| {
            let inputs = CallInputs {
                context: &asked.context,
                rope: &self.rope,
                control: control.map(|(video, _)| video),
            };
            let make = |skip: SkipOptions<'_>| {
                self.transformer
                    .forward(&input, &timesteps, inputs, skip, self.hooks)
            };
            asked.caches.answer(call.index, without, make)
        };
        self.guidance
            .velocity(call, latents, capture, Tensor::shallow_clone, ask)
    }

    fn after_step(&self, latents: Tensor, sigma: f32) -> Tensor {
        match &self.kept {
            Some(kept) => kept.blend(&latents, sigma, NoiseSpace::Flow),
            None => latents,
        }
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        behind_references(&self.with_given_frame(x0), self.before)
    }
}

/// A transformer's weights by the authors' names, whatever the file's, with LoRAs applied.
pub fn open_transformer(
    place: &Path,
    how: ComputePlacement,
    loras: &[LoraChoice],
    expert: Expert,
) -> Result<Weights, EngineError> {
    let weights = how.open(place)?;
    let keys = TransformerKeys::of(|key| weights.has(key));
    let target = lora_target(ModelFamily::WAN, keys.is_diffusers);
    let weights = weights.translated(move |original| keys.file_key(original));
    Ok(weights.with_loras(loras, expert, target, &weights)?)
}

/// Approximate memory of one pass over `tokens`: input, output and activation of the widest layer, and queries, keys,
/// values and hidden states.
fn pass_bytes(network: &WanTransformerConfig, tokens: i64, kind: Kind) -> u64 {
    let numbers = tokens * (8 * network.dim() + 2 * network.ffn_dim);
    (numbers * kind.elt_size_in_bytes() as i64).unsigned_abs()
}

/// Returns whether both guidance passes of a call are batched, `bytes`: memory of one in addition to the weights. A CPU
/// gains nothing by larger products, and a GPU nothing where one pass fills it already.
fn joins_passes(device: Device, bytes: u64) -> bool {
    // Twice the room, as the estimate is one.
    let has_room = || free_bytes(device) / 4 >= bytes;
    matches!(device, Device::Cuda(_)) && bytes <= LARGEST_JOINED_PASS && has_room()
}

/// Name of an expert, its network, path and guidance scale.
fn expert_of<'a>(
    config: &'a WanConfig,
    request: &GenerateRequest,
    expert: Expert,
) -> Result<(&'static str, &'a WanTransformerConfig, &'a Path, f64), EngineError> {
    let (files, sampling) = (&config.files, &request.sampling);
    if expert != Expert::LowNoise {
        let (network, folder) = (&config.transformer, &files.transformer);
        return Ok(("transformer", network, folder, sampling.guidance_scale));
    }
    let second = config
        .transformer_2
        .as_ref()
        .zip(files.transformer_2.as_deref());
    let (network, folder) =
        second.ok_or_else(|| EngineError::internal("this model has no low-noise expert"))?;
    let scale = sampling.low_guidance_scale();
    Ok(("second transformer", network, folder, scale))
}

/// Number of reference images before the video.
fn references(config: &WanConfig, request: &GenerateRequest) -> usize {
    if config.transformer.has_control() {
        request.references.len()
    } else {
        0
    }
}

/// `latents`: `(1, C, f, h, w)` -> without the frames of the references
fn behind_references(latents: &Tensor, before: i64) -> Tensor {
    latents.narrow(2, before, latents.size()[2] - before)
}

/// Latents that replace the noise of the first frame, in models with a timestep per token.
fn first_frame<'a>(config: &WanConfig, conditions: &'a WanConditioning) -> Option<&'a Tensor> {
    let latents = conditions.image_latents.as_ref();
    latents.filter(|_| config.files.expand_timesteps)
}

fn record_start(
    work: &mut StageWork<'_>,
    config: &WanConfig,
    conditions: &WanConditioning,
    shape: VideoLatentShape,
    solver: &Solver,
) -> Result<(), EngineError> {
    let capture = &mut *work.capture;
    if !capture.is_on() {
        return Ok(());
    }
    let drawn = noise(&shape.size(), work.request.seed)?;
    capture.put("noise.0", &drawn);
    let base = conditions.base.as_ref();
    record_walk(&first_latents(solver, drawn, base), solver, capture);
    capture.put_some("base", base);
    capture.put_some("condition", conditions.image_latents.as_ref());
    let embeds = &conditions.embeds;
    let branches = [
        ("cond", Some(&embeds.prompt)),
        ("uncond", embeds.negative.as_ref()),
    ];
    for (branch, embeds) in branches {
        let Some(embeds) = embeds else { continue };
        let name = format!("transformer.in.{branch}.encoder_hidden_states");
        capture.put(&name, &embeds.prompt);
        let images = conditions.image_embeds.as_ref();
        capture.put_some(format!("{name}_image"), images);
    }
    let control = conditions.control.as_ref().map(|(latents, _)| latents);
    for branch in ["cond", "uncond"] {
        let name = format!("transformer.in.{branch}.control_hidden_states");
        capture.put_some(name, control);
    }
    if first_frame(config, conditions).is_some() {
        capture.put("first_frame_mask", &first_frame_mask(shape));
    }
    Ok(())
}
