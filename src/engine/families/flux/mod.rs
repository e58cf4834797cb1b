//! FLUX.1 dev, schnell, Fill and Kontext: text to image, image to image, filling, editing, image prompts.
//!
//! The reference is `FluxPipeline`, `FluxImg2ImgPipeline`, `FluxInpaintPipeline`, `FluxFillPipeline` and
//! `FluxKontextPipeline` of diffusers 0.42.1, with ControlNets `FluxControlNetPipeline` and its relatives.
//!
//! The transformer has text and image in one sequence, first with separate weights (double blocks), then with common ones
//! (single blocks). dev, schnell, Fill and Kontext are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names; the blocks and the forward pass
//! through them are in [`streams`](crate::streams).
//!
//! Shapes: `B` images of one text; `T` tokens of text, `I` of an image with its reference; `C` width.

mod control;
mod redux;

use std::path::Path;

use safelight_core::families::flux::{self, lora};
use safelight_core::job::{GenerateRequest, JobFolder, LoraChoice};
use safelight_core::lora::LoraTarget;
use safelight_core::media::{self, RgbPixels};
use safelight_core::networks::{
    FluxTransformerConfig, FluxTransformerKeys, NetworkConfig as _, SchedulerConfig,
};
use tch::{Device, Kind, Tensor};

use super::ImageFamily;
use crate::capture::StageCapture;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::{image_ids, rounded_timesteps};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    EncodedImages, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, ReferenceEncoding,
    StartImageMode, folded_mask,
};
use crate::stages::job_images::fitted;
use crate::step_cache::{CacheCalibration, ResidualMagnitudes, stretched};
use crate::streams::{FluxBackbone, FluxSequence, StreamModulation, StreamModulations};
use crate::text::{
    EncodedText, EncoderFiles, PaddingMode, PromptEmbeds, TextEmbeds, read_clip, read_t5,
};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

pub use control::FluxControl;

pub(crate) static FAMILY: ImageFamily<FluxTransformer> = ImageFamily::new(flux::FAMILY);

/// Base of the RoPE frequencies.
pub const ROPE_THETA: f64 = 10000.0;
/// Distilled guidance of ControlNets for models without that input: dev's own, with which they were trained.
const CONTROL_GUIDANCE: f64 = 3.5;

pub struct FluxTransformer {
    backbone: FluxBackbone,
    modulation: StreamModulation,
    config: FluxTransformerConfig,
}

/// Text and guidance embedded once for all steps.
pub struct FluxContext {
    sequence: FluxSequence,
    /// Pooled text and guidance, added to the timestep embedding: `(1, C)` in f32
    vec: Option<Tensor>,
}

/// Position ids of text tokens, all alike: `(tokens, 3)`
pub fn text_ids(tokens: i64) -> Tensor {
    Tensor::zeros([tokens, 3], (Kind::Float, Device::Cpu))
}

/// Position ids of the image tokens and of reference tokens after them.
fn img_ids(conditioning: &ImageConditioning<'_, FluxTransformer>) -> Tensor {
    let references = conditioning.references.shapes.iter();
    let references = references.map(|shape| image_ids(shape.grid(), 1, Kind::Float));
    let own = image_ids(conditioning.shape.grid(), 0, Kind::Float);
    Tensor::cat(
        &std::iter::once(own).chain(references).collect::<Vec<_>>(),
        0,
    )
}

/// Returns whether the model itself reads a control image with the noise (FLUX.1 Depth and Canny).
fn reads_control(config: &FluxTransformerConfig) -> bool {
    config.condition_channels() == config.out_channels()
}

impl ImageModel for FluxTransformer {
    type Config = FluxTransformerConfig;
    type Control = FluxControl;
    type Context = FluxContext;
    type Modulation = StreamModulations;

    const LORA: fn(bool) -> LoraTarget = lora::network;
    const REFERENCES: Option<ReferenceEncoding> = Some(REFERENCE_ENCODING);
    const MODULATES_BY_TEXT: bool = true;

    fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &Self::dialect(w).weights;
        let (shape, last) = (config.streams(), &(w / "final_layer"));
        let channels = [
            config.in_channels,
            config.joint_attention_dim,
            config.out_channels(),
        ];
        let axes = (&config.axes_dims_rope[..], ROPE_THETA);
        Ok(Self {
            backbone: FluxBackbone::new(&shape, channels, axes, keys.final_shift_and_scale(), w)?,
            modulation: StreamModulation::new(&shape, Some(config.told()), w, Some(last))?,
            config: config.clone(),
        })
    }

    fn context(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
        num_images: i64,
        _: &dyn Hooks,
    ) -> Result<FluxContext, EngineError> {
        let (guidance, img_ids) = (conditioning.guidance.distilled, img_ids(conditioning));
        let of_controls = if self.config.guidance_embeds {
            guidance
        } else {
            CONTROL_GUIDANCE
        };
        conditioning.controls.read_prompt(|network, settings| {
            network.prompt(text, settings.kind, of_controls, |tokens| {
                let txt_ids = text_ids(tokens);
                self.backbone.rope(&txt_ids, &img_ids, num_images)
            })
        })?;
        let (prompt, txt_ids) = (&text.prompt, text_ids(text.prompt.size()[1]));
        Ok(FluxContext {
            sequence: self
                .backbone
                .context(prompt, &txt_ids, &img_ids, num_images),
            vec: self.modulation.vec(text.pooled()?, guidance),
        })
    }

    fn modulations(&self, timesteps: &[f32], context: &FluxContext) -> Vec<StreamModulations> {
        let sinusoids = self.modulation.sinusoids(&rounded_timesteps(timesteps));
        self.modulation
            .modulations(&sinusoids, context.vec.as_ref())
    }

    /// `img`: `(B, I, in_channels)` -> velocity, `(B, I, out_channels)`
    fn predict(
        &self,
        img: &Tensor,
        modulation: &StreamModulations,
        context: &FluxContext,
        pass: &ForwardPass<'_, FluxControl>,
    ) -> Option<Tensor> {
        let residuals = || pass.residuals(img);
        let (context, hooks) = (&context.sequence, pass.hooks);
        self.backbone
            .forward(img, modulation, context, pass.skip, residuals, hooks)
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        let request = work.request;
        let texts = EncodedText::all_of(request)?;
        tch::no_grad(|| {
            // CLIP is unloaded before T5 is loaded.
            let pooled = read_clip(&EncoderFiles::first(&request.files), &texts, work)?;
            let files = EncoderFiles::second(&request.files)?;
            let length = match request.options.max_sequence_length {
                Some(length) => length as usize,
                None if FluxTransformerConfig::read(&request.files.transformer)?
                    .guidance_embeds =>
                {
                    T5_LENGTHS.0
                }
                None => T5_LENGTHS.1,
            };
            // Flux was trained to attend to padding.
            let prompts = read_t5(&files, &texts, length, PaddingMode::Seen, work)?;
            let embeds = prompts.into_iter().zip(pooled);
            let embeds = embeds.map(|(prompt, pooled)| TextEmbeds {
                pooled: Some(pooled),
                ..TextEmbeds::of_states(prompt.states)
            });
            PromptEmbeds::from_texts(&texts, embeds.collect(), work.capture)
        })
    }

    fn encode_image_prompts(
        folder: &JobFolder,
        work: &mut StageWork<'_>,
    ) -> Result<Tensor, EngineError> {
        redux::encode_image_prompts(folder, work)
    }

    fn read_config(home: &Path, loras: &[LoraChoice]) -> Result<Self::Config, EngineError> {
        Ok(lora::config_with(home, loras)?)
    }

    fn takes_control_nets(config: &Self::Config) -> bool {
        !reads_control(config)
    }

    fn schedule(scheduler: Option<SchedulerConfig>, config: &Self::Config) -> FlowSchedule {
        let published = || SchedulerConfig::of_flux(config.guidance_embeds);
        FlowSchedule::from_config(scheduler.unwrap_or_else(published))
    }

    /// The control image, or the image outside the mask and the mask.
    fn condition(
        config: &Self::Config,
        images: &EncodedImages,
        mode: StartImageMode,
        shape: ImageLatentShape,
    ) -> Result<Option<Tensor>, EngineError> {
        let follows = reads_control(config);
        let fills = config.condition_channels() > 0 && !follows;
        let reason = match &images.image {
            _ if follows && images.controls.len() != 1 => "this model follows one control image",
            _ if fills && !images.controls.is_empty() => "this model takes no control image",
            None if fills => "this model needs an image and a mask",
            Some(_) if fills != (mode == StartImageMode::Canvas) => {
                "this model does something else with an image"
            }
            _ if follows => return Ok(images.controls.first().map(|it| shape.pack(it))),
            image => {
                let parts = image
                    .as_ref()
                    .and_then(|it| it.mask.as_ref().zip(it.masked.as_ref()));
                return Ok(parts.map(|(mask, masked)| {
                    let (masked, mask) = (shape.pack(masked), folded_mask(mask, shape));
                    let mask = mask.expand([masked.size()[0], -1, -1], false);
                    Tensor::cat(&[masked, mask], 2)
                }));
            }
        };
        Err(EngineError::request(reason))
    }

    fn config(&self) -> &FluxTransformerConfig {
        &self.config
    }

    fn place(&self) -> (Device, Kind) {
        self.backbone.place()
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        let pooled = text.pooled.as_ref();
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
            && pooled.is_some_and(|pooled| fits(pooled, &[1, self.config.pooled_projection_dim]))
    }

    fn input_error(
        &self,
        conditioning: &ImageConditioning<'_, Self>,
        num_images: i64,
    ) -> Option<String> {
        let channels = self.config.condition_channels();
        let condition = conditioning.condition.as_ref();
        let size = [num_images, conditioning.shape.tokens(), channels];
        let is_fit = (channels > 0) == condition.is_some()
            && condition.is_none_or(|condition| fits(condition, &size));
        (!is_fit)
            .then(|| format!("this model reads {channels} numbers of an image with each token"))
    }

    fn calibration(&self, _: &ImageConditioning<'_, Self>, num_calls: usize) -> CacheCalibration {
        CacheCalibration {
            polynomial: Some(POLYNOMIAL.into()),
            magnitudes: Some(ResidualMagnitudes {
                ratios: stretched(&RATIOS, num_calls),
                max_skips: MAX_SKIPS,
                retained: (RETAINED * num_calls as f64).round() as usize,
                max_change: f64::INFINITY,
            }),
        }
    }

    fn record(&self, conditioning: &ImageConditioning<'_, Self>, capture: &mut StageCapture) {
        conditioning.record_mask(capture);
        capture.put("latent_image_ids", &img_ids(conditioning));
        if let Some(condition) = &conditioning.condition {
            let split = conditioning.shape.folded().channels;
            let rest = condition.size()[2] - split;
            // A control image has no mask, and is recorded where it was encoded.
            if rest > 0 {
                capture.put("masked_image_latents", &condition.narrow(2, 0, split));
                capture.put("mask", &condition.narrow(2, split, rest));
            }
        }
    }

    fn text_inputs(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
    ) -> Vec<(&'static str, Tensor)> {
        let mut inputs = vec![
            ("txt_ids", text_ids(text.prompt.size()[1])),
            ("img_ids", img_ids(conditioning)),
            ("encoder_hidden_states", text.prompt.shallow_clone()),
        ];
        let pooled = text.pooled.iter();
        inputs.extend(pooled.map(|pooled| ("pooled_projections", pooled.shallow_clone())));
        if self.config.guidance_embeds {
            let guidance = [conditioning.guidance.distilled as f32];
            inputs.push(("guidance", Tensor::from_slice(&guidance)));
        }
        inputs
    }
}

/// Step cache calibration of FLUX.1 dev: the polynomial is from TeaCache4FLUX, <https://github.com/ali-vilab/TeaCache>,
/// highest power first; the ratios and limits are from diffusers 0.42.1 (`hooks/mag_cache.py`), by
/// <https://github.com/Zehong-Ma/MagCache>.
const POLYNOMIAL: [f64; 5] = [
    498.651_651,
    -283.781_631,
    55.855_438_2,
    -3.820_214_01,
    0.264_230_861,
];

/// Ratio of the residual of all blocks to that of the previous step, in 28 steps.
const RATIOS: [f64; 28] = [
    1.0, 1.21094, 1.11719, 1.07812, 1.0625, 1.03906, 1.03125, 1.03906, 1.02344, 1.03125, 1.02344,
    0.98047, 1.01562, 1.00781, 1.0, 1.00781, 1.0, 1.00781, 1.0, 1.0, 0.99609, 0.99609, 0.98047,
    0.98828, 0.96484, 0.95703, 0.93359, 0.89062,
];

/// Calls that may be skipped one after the other.
const MAX_SKIPS: usize = 3;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.2;

/// Shorter and longer edges of the sizes that Kontext was trained with.
const REFERENCE_EDGES: [[u32; 9]; 2] = [
    [672, 688, 720, 752, 800, 832, 880, 944, 1024],
    [1568, 1504, 1456, 1392, 1328, 1248, 1184, 1104, 1024],
];

/// Kontext's pipeline has one reference image, under the names that others have for a start image.
const REFERENCE_ENCODING: ReferenceEncoding = ReferenceEncoding {
    prepared,
    image: |_| "image".to_owned(),
    latents: |_| "image_latents".to_owned(),
};

fn prepared(image: &RgbPixels, request: &GenerateRequest) -> Result<RgbPixels, EngineError> {
    let image = fitted(image, request)?;
    let (width, height) = reference_size(image.width, image.height);
    Ok(media::resize_lanczos(&image, width, height)?)
}

/// The trained size with the most similar aspect ratio.
fn reference_size(width: u32, height: u32) -> (u32, u32) {
    // Sizes count in tokens here already.
    let cut = |edge: u32| f64::from((edge - edge % 16).max(16));
    let aspect = cut(width) / cut(height);
    let distance = |&(w, h): &(u32, u32)| (aspect - f64::from(w) / f64::from(h)).abs();
    let [shorter, longer] = REFERENCE_EDGES;
    let narrow = shorter.into_iter().zip(longer);
    let wide = longer.into_iter().zip(shorter).rev();
    let nearest = narrow
        .chain(wide)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or((1024, 1024))
}

/// Token limits of T5: in models with distilled guidance, and in the others.
const T5_LENGTHS: (usize, usize) = (512, 256);

#[cfg(test)]
pub(in crate::families) mod tests;
