//! The U-Net down to its middle, which ControlNets have too.

use safelight_core::networks::SdxlUnetConfig;
use safelight_core::networks::sdxl_unet::LEVEL_BLOCKS;
use tch::{Device, Kind, Tensor};

use super::blocks::{ResidualBlock, SpatialTransformer, TextStates};
use crate::fault::FaultSite;
use crate::nn::{ImageConv, Mlp, silu, timestep_embedding};
use crate::step_cache::BlockSkipper;
use crate::{Hooks, Weights, WeightsError};

/// Blocks at one resolution, and the convolution between it and the next one.
pub(super) struct UnetLevel {
    pub(super) resnets: Vec<ResidualBlock>,
    pub(super) attentions: Vec<SpatialTransformer>,
    pub(super) sampler: Option<ImageConv>,
}

/// A text, for one image size.
pub struct UnetContext {
    /// Of each transformer block.
    pub(super) texts: Vec<TextStates>,
    /// Embedding of pooled text and sizes: `(1, T)`
    pub(super) added: Tensor,
}

/// Timestep embedding projected for each residual block: `(C)` in f32
pub struct SdxlModulation(Vec<Tensor>);

/// A pass through the network, block by block.
pub(super) struct UnetPass<'a> {
    modulation: &'a SdxlModulation,
    context: &'a UnetContext,
    skip: BlockSkipper<'a>,
    hooks: &'a dyn Hooks,
    /// Residual blocks and transformer blocks so far.
    done: [usize; 2],
}

pub(super) struct UnetEncoder {
    conv_in: ImageConv,
    time_embedding: Mlp,
    add_embedding: Mlp,
    down_blocks: Vec<UnetLevel>,
    mid_block: UnetLevel,
    config: SdxlUnetConfig,
    pub(super) kind: Kind,
    pub(super) device: Device,
}

impl UnetLevel {
    /// `resnets`: input and output width of each; `attentions`: number of them that a transformer follows, where the level
    /// has any; `sampler`: name and stride of the convolution after them.
    pub(super) fn new(
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

impl SdxlModulation {
    /// `time`: of each call, activated, `(N, T)` → modulation of each
    pub(super) fn of_levels<'a>(
        levels: impl Iterator<Item = &'a UnetLevel>,
        time: &Tensor,
    ) -> Vec<Self> {
        let resnets = levels.flat_map(|level| &level.resnets);
        let all: Vec<Tensor> = resnets
            .map(|block| block.modulation(time).to_kind(Kind::Float))
            .collect();
        let of_call = |i| Self(all.iter().map(|rows| rows.get(i)).collect());
        (0..time.size()[0]).map(of_call).collect()
    }
}

impl UnetEncoder {
    pub(super) fn new(config: &SdxlUnetConfig, w: &Weights) -> Result<Self, WeightsError> {
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
        let middle = [[widths[last]; 2]; 2];
        let seldom = &w.seldom();
        let embedding = |name: &str, input| {
            let (names, width) = (["linear_1", "linear_2"], config.time_width());
            Mlp::new([input, width, width], names, &(seldom / name))
        };
        let added = config.projection_class_embeddings_input_dim;
        Ok(Self {
            conv_in: ImageConv::new(&(w / "conv_in"), [config.in_channels, first], 3, 1)?,
            time_embedding: embedding("time_embedding", first)?,
            add_embedding: embedding("add_embedding", added)?,
            down_blocks: down.collect::<Result<_, _>>()?,
            mid_block: UnetLevel::new(config, last, &middle, 1, None, &(w / "mid_block"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub(super) fn levels(&self) -> impl Iterator<Item = &UnetLevel> {
        self.down_blocks.iter().chain([&self.mid_block])
    }

    /// `levels`: of the whole network; `text`: `(1, L, text width)`, `pooled`: `(1, pooled width)`, `size`: height and width
    /// of the image in pixels
    pub(super) fn context<'a>(
        &self,
        levels: impl Iterator<Item = &'a UnetLevel>,
        text: &Tensor,
        pooled: &Tensor,
        [height, width]: [i64; 2],
    ) -> UnetContext {
        let place = |xs: &Tensor| xs.to_device(self.device).to_kind(self.kind);
        let text = place(text);
        let attentions = levels.flat_map(|level| &level.attentions);
        let texts = attentions.flat_map(|attention| attention.text_states(&text));
        // Size of the original image, upper left corner of the crop, size of the result.
        let sizes = [height, width, 0, 0, height, width].map(|edge| edge as f32);
        let sizes = self.sinusoids(&sizes, self.config.addition_time_embed_dim);
        let added = Tensor::cat(&[place(pooled), sizes.view([1, -1])], 1);
        UnetContext {
            added: self.add_embedding.forward(&added, silu),
            texts: texts.collect(),
        }
    }

    /// `(N)` → `(N, width)` in the dtype of the weights
    pub(super) fn sinusoids(&self, numbers: &[f32], width: i64) -> Tensor {
        let numbers = Tensor::from_slice(numbers).to_device(self.device);
        timestep_embedding(&numbers, width).to_kind(self.kind)
    }

    /// Embedding of each timestep: `(N, T)`
    pub(super) fn time(&self, timesteps: &[f32]) -> Tensor {
        let sinusoids = self.sinusoids(timesteps, self.config.block_out_channels[0]);
        self.time_embedding.forward(&sinusoids, silu)
    }

    /// `xs`: `(B, C, H, W)` → after the first convolution, `(B, H, W, C)`
    pub(super) fn embed(&self, xs: &Tensor) -> Tensor {
        let xs = xs.to_kind(self.kind).permute([0, 2, 3, 1]).contiguous();
        self.conv_in.forward(&xs)
    }

    /// `xs`: see [`Self::embed`] → all skip connections, and the hidden states after the middle; `None` when cancelled
    pub(super) fn forward(
        &self,
        mut xs: Tensor,
        pass: &mut UnetPass<'_>,
    ) -> Option<(Vec<Tensor>, Tensor)> {
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
        Some((skips, xs))
    }
}

impl<'a> UnetPass<'a> {
    pub(super) fn new(
        modulation: &'a SdxlModulation,
        context: &'a UnetContext,
        skip: BlockSkipper<'a>,
        hooks: &'a dyn Hooks,
    ) -> Self {
        Self {
            modulation,
            context,
            skip,
            hooks,
            done: [0, 0],
        }
    }

    /// Runs a residual block of a level, then its transformer where it has one; `None` when cancelled.
    pub(super) fn block(&mut self, level: &UnetLevel, index: usize, xs: &Tensor) -> Option<Tensor> {
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
