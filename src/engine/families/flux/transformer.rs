//! FLUX.1's transformer: text and image in one sequence, first with separate weights (double blocks), then with common ones
//! (single blocks). dev, schnell, Fill and Kontext are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names; the blocks and the forward pass
//! through them are in [`streams`](crate::streams).
//!
//! Shapes: `B` images of one text; `T` tokens of text, `I` of an image with its reference; `C` width.

use std::path::Path;

use safelight_core::families::flux::lora;
use safelight_core::job::{JobFolder, LoraChoice};
use safelight_core::networks::{FluxTransformerConfig, FluxTransformerKeys, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::control::FluxControl;
use super::measured::measured;
use super::{redux, references, text};
use crate::capture::StageCapture;
use crate::controls::LoadedControls;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::rounded_timesteps;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    EncodedImages, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, ReferenceEncoding,
    StartImageMode, WeightsDialect, folded_mask, record_ids,
};
use crate::step_cache::CacheCalibration;
use crate::streams::{
    FluxBackbone, FluxSequence, PerBlockModulation, StreamModulations, TokenDims, image_ids,
};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

/// Base of the RoPE frequencies.
pub const ROPE_THETA: f64 = 10000.0;
/// Distilled guidance of ControlNets for models without that input: dev's own, with which they were trained.
const CONTROL_GUIDANCE: f64 = 3.5;

pub struct FluxTransformer {
    backbone: FluxBackbone,
    modulation: PerBlockModulation,
    config: FluxTransformerConfig,
}

/// Text and guidance embedded once for all steps.
pub struct FluxContext {
    sequence: FluxSequence,
    /// Pooled text and guidance, added to the timestep embedding: `(1, C)` in f32
    vec: Tensor,
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

    const REFERENCES: Option<ReferenceEncoding> = Some(references::ENCODING);
    const MODULATES_BY_TEXT: bool = true;

    fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &Self::dialect(w).weights;
        let shape = config.streams();
        let dims = TokenDims {
            input: config.in_channels,
            text: config.joint_attention_dim,
            output: config.out_channels(),
            axes: config.axes_dims_rope.to_vec(),
            theta: ROPE_THETA,
        };
        Ok(Self {
            backbone: FluxBackbone::new(&shape, dims, keys.final_shift_and_scale(), w)?,
            modulation: PerBlockModulation::new(&shape, config.told(), w, &(w / "final_layer"))?,
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
        self.modulation.modulations(&sinusoids, &context.vec)
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
        text::encode_text(work)
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

    fn latent_channels(config: &Self::Config) -> i64 {
        config.latent_channels()
    }

    fn load_controls(
        config: &Self::Config,
        home: &Path,
        work: &mut StageWork<'_>,
    ) -> Result<LoadedControls<FluxControl>, EngineError> {
        if reads_control(config) {
            return Ok(LoadedControls::default());
        }
        work.control_networks(home, FluxControl::new)
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
            _ if follows && images.controls.len() != 1 => "this model follows one control picture",
            _ if fills && !images.controls.is_empty() => "this model takes no control picture",
            None if fills => "this model needs a picture and a mask",
            Some(_) if fills != (mode == StartImageMode::Canvas) => {
                "this model does something else with a picture"
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

    fn dialect(w: &Weights) -> WeightsDialect {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        WeightsDialect {
            prefix: keys.prefix,
            lora: lora::network(keys.is_diffusers),
            weights: w.translated(move |name| keys.file_key(name)),
        }
    }

    fn config(&self) -> &FluxTransformerConfig {
        &self.config
    }

    fn place(&self) -> (Device, Kind) {
        self.backbone.place()
    }

    fn num_blocks(&self) -> usize {
        self.backbone.num_blocks()
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
            .then(|| format!("this model reads {channels} numbers of a picture with each token"))
    }

    fn calibration(&self, _: &ImageConditioning<'_, Self>, num_calls: usize) -> CacheCalibration {
        measured(num_calls)
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

    fn record_text(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
        branch: &str,
        capture: &mut StageCapture,
    ) {
        let txt_ids = text_ids(text.prompt.size()[1]);
        record_ids(branch, &txt_ids, &img_ids(conditioning), capture);
        let name = |part: &str| format!("transformer.in.{branch}.{part}");
        capture.put(name("encoder_hidden_states"), &text.prompt);
        if let Some(pooled) = &text.pooled {
            capture.put(name("pooled_projections"), pooled);
        }
        if self.config.guidance_embeds {
            let guidance = conditioning.guidance.distilled as f32;
            capture.put(name("guidance"), &Tensor::from_slice(&[guidance]));
        }
    }
}
