//! SDXL and its finetunes: text to image, image to image, inpainting; epsilon and v-prediction.
//!
//! The network is diffusers' `UNet2DConditionModel` (0.42.1) with that pipeline's added conditions; fields have its names.
//!
//! Shapes: as in `blocks`; `T` width of the time embedding.

mod blocks;
mod control;
mod encoder;
#[cfg(test)]
mod tests;

use std::ops::Range;

use safelight_core::families::ModelFamily;
use safelight_core::job::{GenerateRequest, JobFolder};
use safelight_core::networks::sdxl_unet::{INPAINT_CHANNELS, LEVEL_BLOCKS};
use safelight_core::networks::{DiscreteScheduleConfig, SdxlUnetConfig};
use tch::{Kind, Tensor};

pub use self::control::SdxlControl;
use self::encoder::{SdxlModulation, UnetContext, UnetEncoder, UnetLevel, UnetPass};
use super::family::ImageFamily;
use crate::nn::{ImageConv, silu};
use crate::sampling::{DiscreteSchedule, Solver};
use crate::stages::images::{
    ContextInput, ControlEncoding, EncodedImages, ForwardPass, ImageLatentShape, ImageModel,
    LatentForm, StartImageMode, WeightsDialect, corner_mask,
};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds, sdxl_embeds};
use crate::vae::GroupNorm;
use crate::{EngineError, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<SdxlUnet> = ImageFamily::NEW;

/// Pixels of a latent along each edge.
const PIXELS: i64 = 8;

pub struct SdxlUnet {
    encoder: UnetEncoder,
    up_blocks: Vec<UnetLevel>,
    conv_norm_out: GroupNorm,
    conv_out: ImageConv,
    config: SdxlUnetConfig,
}

/// A text, for one image size.
pub struct SdxlContext {
    own: UnetContext,
    /// Of each ControlNet.
    controls: Vec<UnetContext>,
}

impl ImageModel for SdxlUnet {
    type Config = SdxlUnetConfig;
    type Control = SdxlControl;
    type Context = SdxlContext;
    type Modulation = SdxlModulation;

    const FAMILY: ModelFamily = ModelFamily::SDXL;
    const CONTROLS: ControlEncoding = ControlEncoding::Pixels;
    const SAMPLES_CANVAS: bool = false;
    const LATENTS: LatentForm = LatentForm::Grid;

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        sdxl_embeds(work)
    }

    /// In the model's own noise levels: of the scheduler's folder, or as the file's markers say.
    fn solver(
        _: &SdxlUnetConfig,
        request: &GenerateRequest,
        _tokens: i64,
        steps: Range<usize>,
    ) -> Result<Solver, EngineError> {
        let files = &request.files;
        let config = match &files.scheduler {
            Some(folder) => DiscreteScheduleConfig::read(folder)?,
            None => DiscreteScheduleConfig::of_file(files),
        };
        DiscreteSchedule::new(config).solver(request, steps)
    }

    /// Mask and latents of the image outside it: `(B, 5, h, w)`
    fn condition(
        config: &SdxlUnetConfig,
        images: &EncodedImages,
        mode: StartImageMode,
        shape: ImageLatentShape,
    ) -> Result<Option<Tensor>, EngineError> {
        let fills = config.in_channels == INPAINT_CHANNELS;
        let reason = match &images.image {
            None if fills => "this model needs an image and a mask",
            Some(_) if fills && mode == StartImageMode::Base => {
                "an inpainting model needs a mask with its image"
            }
            Some(_) if !fills && mode == StartImageMode::Canvas => {
                "this model starts from an image and does not fill it: choose an inpainting model"
            }
            image => {
                let parts = image.as_ref();
                let parts = parts.and_then(|it| it.mask.as_ref().zip(it.masked.as_ref()));
                return Ok(parts.map(|(mask, masked)| {
                    let mask = corner_mask(mask, shape.height).to_device(masked.device());
                    let mask = mask.expand([masked.size()[0], -1, -1, -1], false);
                    Tensor::cat(&[&mask, masked], 1)
                }));
            }
        };
        Err(EngineError::request(reason))
    }

    /// Tensors are requested by diffusers' names.
    fn new(config: &SdxlUnetConfig, w: &Weights) -> Result<Self, WeightsError> {
        Self::build(config, &WeightsDialect::of::<Self>(w).weights)
    }

    fn config(&self) -> &SdxlUnetConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        let config = &self.config;
        text.has_widths(config.cross_attention_dim, Some(config.pooled_width()))
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<SdxlContext, EngineError> {
        let pooled = input.text.pooled()?;
        let ImageLatentShape { height, width, .. } = input.conditioning.shape;
        let size = [height, width].map(|edge| edge * PIXELS);
        let text = &input.text.prompt;
        let controls = &input.conditioning.controls;
        controls.read_prompt(|_, _| Ok(()))?;
        let controls = controls.each();
        let controls = controls.map(|it| it.network.context(text, pooled, size, it.settings.kind));
        Ok(SdxlContext {
            own: self.encoder.context(self.levels(), text, pooled, size),
            controls: controls.collect::<Result<_, _>>()?,
        })
    }

    fn modulations(&self, timesteps: &[f32], context: &SdxlContext) -> Vec<SdxlModulation> {
        let time = silu(self.encoder.time(timesteps) + &context.own.added);
        SdxlModulation::of_levels(self.levels(), &time)
    }

    fn predict(&self, input: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, skip) = (pass.context, BlockSkipper::of(pass.skip));
        let mut own = UnetPass::new(pass.modulation, &context.own, skip, pass.hooks);
        let embedded = self.encoder.embed(input);
        let (mut skips, mut xs) = self.encoder.forward(embedded, &mut own)?;
        if let Some((controls, times)) = pass.controls {
            for (index, control) in controls.acting() {
                let conditions = (&context.controls[index], &times[index]);
                let (network, strength) = (control.network, control.settings.strength);
                let residuals = network.residuals(input, &control.image, conditions, pass.hooks)?;
                let states = skips.iter_mut().chain([&mut xs]);
                for (states, residual) in states.zip(residuals) {
                    *states = &*states + residual * strength;
                }
            }
        }
        self.decode(skips, xs, own)
    }
}

impl SdxlUnet {
    fn build(config: &SdxlUnetConfig, w: &Weights) -> Result<Self, WeightsError> {
        let widths = &config.block_out_channels;
        let (first, last) = (widths[0], widths.len() - 1);
        let encoder = UnetEncoder::new(config, w)?;
        let up = (0..=last).rev().map(|level| {
            let w = &(w / "up_blocks" / (last - level));
            let inputs = (0..=LEVEL_BLOCKS).map(|i| config.up_widths(level, i).iter().sum());
            let resnets: Vec<_> = inputs.map(|input| [input, widths[level]]).collect();
            let sampler = (level > 0).then_some(("upsamplers", 1));
            UnetLevel::new(config, level, &resnets, LEVEL_BLOCKS + 1, sampler, w)
        });
        let norm = &(w / "conv_norm_out");
        Ok(Self {
            encoder,
            up_blocks: up.collect::<Result<_, _>>()?,
            conv_norm_out: GroupNorm::with_eps(
                norm,
                first,
                config.norm_num_groups,
                config.norm_eps,
            )?,
            conv_out: ImageConv::new(&(w / "conv_out"), [first, config.out_channels], 3, 1)?,
            config: config.clone(),
        })
    }

    fn levels(&self) -> impl Iterator<Item = &UnetLevel> {
        self.encoder.levels().chain(&self.up_blocks)
    }

    /// `skips`, `xs`: see [`UnetEncoder::forward`] → prediction in f32, `(B, out_channels, H, W)`; `None` when cancelled
    fn decode(
        &self,
        mut skips: Vec<Tensor>,
        mut xs: Tensor,
        mut pass: UnetPass<'_>,
    ) -> Option<Tensor> {
        for level in &self.up_blocks {
            for i in 0..level.resnets.len() {
                if let Some(skip) = skips.pop() {
                    xs = Tensor::cat(&[xs, skip], 3);
                }
                xs = pass.block(level, i, &xs)?;
            }
            if let (Some(sampler), Some(next)) = (&level.sampler, skips.last()) {
                xs = sampler.forward(&enlarged(&xs, next));
            }
        }
        let xs = self.conv_norm_out.activate(&xs, None, None);
        let ys = self.conv_out.forward(&xs).to_kind(Kind::Float);
        Some(ys.permute([0, 3, 1, 2]).contiguous())
    }
}

/// `xs`: `(B, h, w, C)` → nearest pixels at the size of `like`, `(B, H, W, C)`
fn enlarged(xs: &Tensor, like: &Tensor) -> Tensor {
    let size = like.size();
    let ys = xs.permute([0, 3, 1, 2]);
    let ys = ys.upsample_nearest2d([size[1], size[2]], None, None);
    ys.permute([0, 2, 3, 1]).contiguous()
}
