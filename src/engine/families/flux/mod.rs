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

use std::path::Path;

use safelight_core::families::ModelFamily;
use safelight_core::families::flux::lora;
use safelight_core::job::{GenerateRequest, JobFolder, LoraChoice};
use safelight_core::media::{self, RgbPixels};
use safelight_core::networks::{
    FluxTransformerConfig, FluxTransformerKeys, NetworkConfig as _, SchedulerConfig, T5Kind,
};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use super::flux_backbone::{FluxBackbone, FluxContext};
use crate::nn::{image_ids, rounded_timesteps};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, EncodedImages, ForwardPass, ImageConditioning, ImageLatentShape,
    ImageModel, ReferenceEncoding, StartImageMode, WeightsDialect, folded_mask,
};
use crate::stages::job_images::fitted;
use crate::step_cache::{CacheCalibration, ResidualMagnitudes};
use crate::streams::{StreamModulation, StreamModulations};
use crate::text::{
    EncoderFiles, PaddingMode, PromptEmbeds, TextEmbeds, embeds_of, read_clip, read_t5,
};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub use control::FluxControl;

pub(crate) static FAMILY: ImageFamily<FluxTransformer> = ImageFamily::NEW;

/// Base of the RoPE frequencies.
pub const ROPE_THETA: f64 = 10000.0;
/// Distilled guidance of ControlNets for models without that input: dev's own, with which they were trained.
const CONTROL_GUIDANCE: f64 = 3.5;

pub struct FluxTransformer {
    backbone: FluxBackbone,
    modulation: StreamModulation,
    config: FluxTransformerConfig,
}

/// Position ids of text tokens, all alike, and of image tokens with reference tokens after them: `(tokens, 3)` each
pub fn position_ids<M: ImageModel>(
    text: &TextEmbeds,
    conditioning: &ImageConditioning<'_, M>,
) -> [Tensor; 2] {
    let references = conditioning.references.shapes.iter();
    let references = references.map(|shape| image_ids(shape.grid(), 1, Kind::Float));
    let own = image_ids(conditioning.shape.grid(), 0, Kind::Float);
    let images: Vec<Tensor> = std::iter::once(own).chain(references).collect();
    [text_ids(text.prompt.size()[1]), Tensor::cat(&images, 0)]
}

fn text_ids(tokens: i64) -> Tensor {
    Tensor::zeros([tokens, 3], (Kind::Float, Device::Cpu))
}

/// Records inputs of FLUX.1 and its descendants.
pub fn record<M: ImageModel>(inputs: &CapturedInputs<'_, M>, capture: &mut StageCapture) {
    inputs.record("encoder_hidden_states", capture);
    for (branch, text) in &inputs.texts {
        let ids = position_ids(text, inputs.conditioning);
        capture.put("latent_image_ids", &ids[1]);
        FluxBackbone::record_ids(branch, &ids, capture);
    }
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

    const FAMILY: ModelFamily = ModelFamily::FLUX;
    const REFERENCES: Option<ReferenceEncoding> = Some(REFERENCE_ENCODING);

    fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &WeightsDialect::of::<Self>(w).weights;
        let (shape, last) = (config.streams(), &(w / "final_layer"));
        let channels = [
            config.in_channels,
            config.joint_attention_dim,
            config.out_channels(),
        ];
        let axes = (&config.axes_dims_rope[..], ROPE_THETA);
        Ok(Self {
            backbone: FluxBackbone::new(&shape, channels, axes, keys.final_shift_and_scale(), w)?,
            modulation: StreamModulation::new(
                &shape,
                Some(config.modulation_inputs()),
                w,
                Some(last),
            )?,
            config: config.clone(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<FluxContext, EngineError> {
        let (text, conditioning, num_images) = (input.text, input.conditioning, input.num_images);
        let guidance = conditioning.guidance.distilled;
        let ids = position_ids(text, conditioning);
        let of_controls = if self.config.guidance_embeds {
            guidance
        } else {
            CONTROL_GUIDANCE
        };
        conditioning.controls.read_prompt(|network, settings| {
            network.prompt(text, settings.kind, of_controls, |tokens| {
                let ids = [text_ids(tokens), ids[1].shallow_clone()];
                self.backbone.rope(&ids, num_images)
            })
        })?;
        Ok(FluxContext {
            sequence: self.backbone.context(text, &ids, num_images),
            vec: self.modulation.vec(Some(text.pooled()?), guidance),
        })
    }

    fn modulations(&self, timesteps: &[f32], context: &FluxContext) -> Vec<StreamModulations> {
        let sinusoids = self.modulation.sinusoids(&rounded_timesteps(timesteps));
        self.modulation
            .modulations(&sinusoids, context.vec.as_ref())
    }

    /// `img`: `(B, I, in_channels)` -> velocity, `(B, I, out_channels)`
    fn predict(&self, img: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, residuals) = (&pass.context.sequence, || pass.residuals(img));
        self.backbone.forward(img, context, pass, residuals)
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        let (files, limit) = (
            &work.request.files,
            work.request.options.max_sequence_length,
        );
        embeds_of(work, |texts, work| {
            // CLIP is unloaded before T5 is loaded.
            let pooled = read_clip(&EncoderFiles::first(files), texts, work)?;
            let length = match limit {
                Some(length) => length as usize,
                None if Self::Config::read(&files.transformer)?.guidance_embeds => T5_LENGTHS.0,
                None => T5_LENGTHS.1,
            };
            // Flux was trained to attend to padding.
            let padded = (length, PaddingMode::Seen);
            let prompts = read_t5(
                &EncoderFiles::second(files)?,
                T5Kind::T5,
                texts,
                padded,
                work,
            )?;
            let embeds = prompts.into_iter().zip(pooled);
            let embeds = embeds.map(|(prompt, pooled)| TextEmbeds {
                pooled: Some(pooled),
                ..prompt.without_mask()
            });
            Ok(embeds.collect())
        })
    }

    fn read_config(home: &Path, loras: &[LoraChoice]) -> Result<Self::Config, EngineError> {
        Ok(lora::config_with(home, loras)?)
    }

    fn schedule(config: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_flux(config.guidance_embeds).into()
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

    fn accepts(&self, text: &TextEmbeds) -> bool {
        let config = &self.config;
        text.has_widths(
            config.joint_attention_dim,
            Some(config.pooled_projection_dim),
        )
    }

    fn calibration(&self, _: &ImageConditioning<'_, Self>, num_calls: usize) -> CacheCalibration {
        CacheCalibration {
            polynomial: Some(POLYNOMIAL.into()),
            magnitudes: Some(ResidualMagnitudes {
                // Rounded, as in diffusers.
                retained: (RETAINED * num_calls as f64).round() as usize,
                ..ResidualMagnitudes::of(&RATIOS, num_calls, MAX_SKIPS, RETAINED)
            }),
        }
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        record(inputs, capture);
        let CapturedInputs {
            conditioning,
            texts,
        } = inputs;
        let guidance = Tensor::from_slice(&[conditioning.guidance.distilled as f32]);
        for (branch, _) in texts.iter().filter(|_| self.config.guidance_embeds) {
            capture.put(format!("transformer.in.{branch}.guidance"), &guidance);
        }
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
    has_alpha: false,
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
