//! SDXL and its finetunes: text to image, image to image, inpainting; epsilon and v-prediction.
//!
//! The network is diffusers' `UNet2DConditionModel` (0.42.1) with that pipeline's added conditions; fields have its names.
//!
//! Shapes: as in `blocks`; `T` width of the time embedding.

mod blocks;
#[cfg(test)]
mod tests;

use std::ops::Range;

use safelight_core::families::ModelFamily;
use safelight_core::job::{GenerateRequest, JobFolder};
use safelight_core::networks::sdxl_unet::{INPAINT_CHANNELS, LEVEL_BLOCKS};
use safelight_core::networks::{DiscreteScheduleConfig, SdxlUnetConfig};
use tch::{Device, Kind, Tensor};

use self::blocks::{ResidualBlock, SpatialTransformer, TextStates};
use super::family::ImageFamily;
use crate::fault::FaultSite;
use crate::nn::{ImageConv, Mlp, silu, timestep_embedding};
use crate::sampling::{DiscreteSchedule, Solver};
use crate::stages::images::{
    ContextInput, EncodedImages, ForwardPass, ImageLatentShape, ImageModel, LatentForm,
    NoControlNet, StartImageMode, WeightsDialect, corner_mask,
};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds, sdxl_embeds};
use crate::vae::GroupNorm;
use crate::{EngineError, Hooks, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<SdxlUnet> = ImageFamily::NEW;

/// Pixels of a latent along each edge.
const PIXELS: i64 = 8;

pub struct SdxlUnet {
    conv_in: ImageConv,
    time_embedding: Mlp,
    add_embedding: Mlp,
    down_blocks: Vec<UnetLevel>,
    mid_block: UnetLevel,
    up_blocks: Vec<UnetLevel>,
    conv_norm_out: GroupNorm,
    conv_out: ImageConv,
    config: SdxlUnetConfig,
    kind: Kind,
    device: Device,
}

/// Blocks at one resolution, and the convolution between it and the next one.
struct UnetLevel {
    resnets: Vec<ResidualBlock>,
    attentions: Vec<SpatialTransformer>,
    sampler: Option<ImageConv>,
}

/// A text, for one image size.
pub struct SdxlContext {
    /// Of each transformer block.
    texts: Vec<TextStates>,
    /// Embedding of pooled text and sizes: `(1, T)`
    added: Tensor,
}

/// Timestep embedding projected for each residual block: `(C)` in f32
pub struct SdxlModulation(Vec<Tensor>);

/// A pass through the network, block by block.
struct UnetPass<'a> {
    modulation: &'a SdxlModulation,
    context: &'a SdxlContext,
    skip: BlockSkipper<'a>,
    hooks: &'a dyn Hooks,
    /// Residual blocks and transformer blocks so far.
    done: [usize; 2],
}

impl UnetLevel {
    /// `resnets`: input and output width of each; `attentions`: number of them that a transformer follows, where the level
    /// has any; `sampler`: name and stride of the convolution after them.
    fn new(
        config: &SdxlUnetConfig,
        level: usize,
        resnets: &[[i64; 2]],
        attentions: i64,
        sampler: Option<(&str, i64)>,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let width = config.block_out_channels[level];
        let has_attention = config.depth(level) > 0;
        let resnets = resnets.iter().enumerate();
        let resnets =
            resnets.map(|(i, widths)| ResidualBlock::new(config, *widths, &(w / "resnets" / i)));
        let attentions = (0..attentions).filter(|_| has_attention);
        let attentions =
            attentions.map(|i| SpatialTransformer::new(config, level, &(w / "attentions" / i)));
        let sampler = sampler.map(|(name, stride)| {
            ImageConv::new(&(w / name / 0 / "conv"), [width, width], 3, stride)
        });
        Ok(Self {
            resnets: resnets.collect::<Result<_, _>>()?,
            attentions: attentions.collect::<Result<_, _>>()?,
            sampler: sampler.transpose()?,
        })
    }
}

impl ImageModel for SdxlUnet {
    type Config = SdxlUnetConfig;
    type Control = NoControlNet<Self>;
    type Context = SdxlContext;
    type Modulation = SdxlModulation;

    const FAMILY: ModelFamily = ModelFamily::SDXL;
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
            Some(_) if fills != (mode == StartImageMode::Canvas) => {
                "this model does something else with an image"
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
        let pooled = input.text.pooled.as_ref();
        let pooled =
            pooled.ok_or_else(|| EngineError::internal("the text has no pooled states"))?;
        let ImageLatentShape { height, width, .. } = input.conditioning.shape;
        let size = [height, width].map(|edge| edge * PIXELS);
        Ok(self.text_context(&input.text.prompt, pooled, size))
    }

    fn modulations(&self, timesteps: &[f32], context: &SdxlContext) -> Vec<SdxlModulation> {
        self.time_modulations(timesteps, context)
    }

    fn predict(&self, input: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let pass = UnetPass {
            modulation: pass.modulation,
            context: pass.context,
            skip: BlockSkipper::of(pass.skip),
            hooks: pass.hooks,
            done: [0, 0],
        };
        self.forward(input, pass)
    }
}

impl SdxlUnet {
    fn build(config: &SdxlUnetConfig, w: &Weights) -> Result<Self, WeightsError> {
        let widths = &config.block_out_channels;
        let (first, last) = (widths[0], widths.len() - 1);
        let down = (0..=last).map(|level| {
            let w = &(w / "down_blocks" / level);
            let (before, width) = (widths[level.saturating_sub(1)], widths[level]);
            let resnets: Vec<_> = (0..LEVEL_BLOCKS)
                .map(|i| [if i == 0 { before } else { width }, width])
                .collect();
            let sampler = (level < last).then_some(("downsamplers", 2));
            UnetLevel::new(config, level, &resnets, LEVEL_BLOCKS, sampler, w)
        });
        let up = (0..=last).rev().map(|level| {
            let w = &(w / "up_blocks" / (last - level));
            let inputs = (0..=LEVEL_BLOCKS).map(|i| config.up_widths(level, i).iter().sum());
            let resnets: Vec<_> = inputs.map(|input| [input, widths[level]]).collect();
            let sampler = (level > 0).then_some(("upsamplers", 1));
            UnetLevel::new(config, level, &resnets, LEVEL_BLOCKS + 1, sampler, w)
        });
        let middle = [[widths[last]; 2]; 2];
        let seldom = &w.seldom();
        let embedding = |name: &str, input| {
            let (names, width) = (["linear_1", "linear_2"], config.time_width());
            Mlp::new([input, width, width], names, &(seldom / name))
        };
        let norm = &(w / "conv_norm_out");
        Ok(Self {
            conv_in: ImageConv::new(&(w / "conv_in"), [config.in_channels, first], 3, 1)?,
            time_embedding: embedding("time_embedding", first)?,
            add_embedding: embedding(
                "add_embedding",
                config.projection_class_embeddings_input_dim,
            )?,
            down_blocks: down.collect::<Result<_, _>>()?,
            mid_block: UnetLevel::new(config, last, &middle, 1, None, &(w / "mid_block"))?,
            up_blocks: up.collect::<Result<_, _>>()?,
            conv_norm_out: GroupNorm::with_eps(
                norm,
                first,
                config.norm_num_groups,
                config.norm_eps,
            )?,
            conv_out: ImageConv::new(&(w / "conv_out"), [first, config.out_channels], 3, 1)?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn levels(&self) -> impl Iterator<Item = &UnetLevel> {
        let middle = std::iter::once(&self.mid_block);
        self.down_blocks.iter().chain(middle).chain(&self.up_blocks)
    }

    /// `text`: `(1, L, text width)`, `pooled`: `(1, pooled width)`, `size`: height and width of the image in pixels
    fn text_context(
        &self,
        text: &Tensor,
        pooled: &Tensor,
        [height, width]: [i64; 2],
    ) -> SdxlContext {
        let place = |xs: &Tensor| xs.to_device(self.device).to_kind(self.kind);
        let text = place(text);
        let attentions = self.levels().flat_map(|level| &level.attentions);
        let texts = attentions.flat_map(|attention| attention.text_states(&text));
        // Size of the original image, upper left corner of the crop, size of the result.
        let sizes = [height, width, 0, 0, height, width].map(|edge| edge as f32);
        let sizes = Tensor::from_slice(&sizes).to_device(self.device);
        let sizes = timestep_embedding(&sizes, self.config.addition_time_embed_dim);
        let added = Tensor::cat(&[place(pooled), place(&sizes).view([1, -1])], 1);
        SdxlContext {
            added: self.add_embedding.forward(&added, silu),
            texts: texts.collect(),
        }
    }

    fn time_modulations(&self, timesteps: &[f32], context: &SdxlContext) -> Vec<SdxlModulation> {
        let times = Tensor::from_slice(timesteps).to_device(self.device);
        let sinusoids = timestep_embedding(&times, self.config.block_out_channels[0]);
        let time = self
            .time_embedding
            .forward(&sinusoids.to_kind(self.kind), silu);
        let time = silu(time + &context.added);
        let resnets = self.levels().flat_map(|level| &level.resnets);
        let all: Vec<Tensor> = resnets
            .map(|block| block.modulation(&time).to_kind(Kind::Float))
            .collect();
        let of_call = |i| SdxlModulation(all.iter().map(|rows| rows.get(i)).collect());
        (0..timesteps.len() as i64).map(of_call).collect()
    }

    /// `xs`: `(B, C, H, W)` → prediction in f32, `(B, out_channels, H, W)`; `None` when cancelled
    fn forward(&self, xs: &Tensor, mut pass: UnetPass<'_>) -> Option<Tensor> {
        let xs = xs.to_kind(self.kind).permute([0, 2, 3, 1]).contiguous();
        let mut xs = self.conv_in.forward(&xs);
        let mut skips = vec![xs.shallow_clone()];
        for level in &self.down_blocks {
            for i in 0..level.resnets.len() {
                xs = pass.block(level, i, &xs)?;
                skips.push(xs.shallow_clone());
            }
            if let Some(sampler) = &level.sampler {
                xs = sampler.forward(&xs);
                skips.push(xs.shallow_clone());
            }
        }
        for i in 0..self.mid_block.resnets.len() {
            xs = pass.block(&self.mid_block, i, &xs)?;
        }
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

impl UnetPass<'_> {
    /// Runs a residual block of a level, then its transformer where it has one; `None` when cancelled.
    fn block(&mut self, level: &UnetLevel, index: usize, xs: &Tensor) -> Option<Tensor> {
        let (hooks, [residual, first]) = (self.hooks, self.done);
        hooks.check_cancelled(FaultSite::Block)?;
        let xs = level.resnets[index].forward(xs, &self.modulation.0[residual]);
        self.done[0] += 1;
        let Some(attention) = level.attentions.get(index) else {
            return Some(xs);
        };
        self.done[1] += attention.depth();
        attention.forward(&xs, first, &self.context.texts, &self.skip, hooks)
    }
}

/// `xs`: `(B, h, w, C)` → nearest pixels at the size of `like`, `(B, H, W, C)`
fn enlarged(xs: &Tensor, like: &Tensor) -> Tensor {
    let size = like.size();
    let ys = xs.permute([0, 3, 1, 2]);
    let ys = ys.upsample_nearest2d([size[1], size[2]], None, None);
    ys.permute([0, 2, 3, 1]).contiguous()
}
