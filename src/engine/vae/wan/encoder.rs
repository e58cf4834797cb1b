//! Pixels to the mean and log variance of their latents, one frame and then four at a time.
//!
//! Does not resize or check pictures, and draws nothing: the mode of the posterior is its mean.

use tch::{Kind, Tensor};

use super::blocks::{Head, Middle, Pass, ResidualBlock};
use super::config::{ENCODER_CHUNK_FRAMES, Level, WanVaeConfig};
use super::keys;
use super::resample::{Downsample, average_down, patchify};
use crate::vae::VaeError;
use crate::vae::causal::{CausalConv3d, ConvForm, Feed};
use crate::weights::{Weights, WeightsError};

/// What the encoder says about the latents of a clip, both `(1, C, f, h, w)`.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    pub logvar: Tensor,
}

#[derive(Debug)]
pub struct WanVaeEncoder {
    conv1: CausalConv3d,
    downsamples: Vec<DownLevel>,
    middle: Middle,
    head: Head,
    /// Behind the network: diffusers' `quant_conv`.
    statistics: CausalConv3d,
    patch_size: i64,
    kind: Kind,
}

impl WanVaeEncoder {
    /// Takes the encoder's half of the weights of a `vae` folder.
    pub fn new(cfg: &WanVaeConfig, weights: &Weights) -> Result<Self, VaeError> {
        Self::with_form(cfg, weights, ConvForm::for_weights(weights))
    }

    /// The same with convolutions computed in `form`, where the place and kind of the weights allow it.
    pub fn with_form(
        cfg: &WanVaeConfig,
        weights: &Weights,
        form: ConvForm,
    ) -> Result<Self, VaeError> {
        let form = form.or_fastest(weights);
        let root = keys::original_names(weights);
        let w = &root / "encoder";
        let levels = cfg.encoder_levels();
        let (widest, frames) = levels
            .last()
            .map_or((cfg.base_dim, 1), |level| (level.output, level.frames));
        let feed = Feed { form, frames };
        let moments = 2 * cfg.z_dim;
        let downsamples = levels.into_iter().enumerate().map(|(i, level)| {
            DownLevel::new(
                &(&w / "downsamples" / i / "downsamples"),
                level,
                cfg.num_res_blocks,
                form,
            )
        });
        Ok(Self {
            conv1: CausalConv3d::new(
                &(&w / "conv1"),
                [cfg.pixel_channels(), cfg.base_dim],
                [3, 3, 3],
                form,
            )?,
            downsamples: downsamples.collect::<Result<_, _>>()?,
            middle: Middle::new(&(&w / "middle"), widest, feed)?,
            head: Head::new(&(&w / "head"), [widest, moments], feed)?,
            statistics: CausalConv3d::new(&(&root / "conv1"), [moments, moments], [1, 1, 1], form)?,
            patch_size: cfg.patch_size,
            kind: weights.kind(),
        })
    }

    /// The keys of the encoder's half that nobody asked for.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let mut unexpected = weights.finish();
        unexpected.retain(|key| !keys::is_of_decoder(key));
        unexpected
    }

    /// `pixels`: `(1, 3, F, H, W)` in -1..1, edges multiples of the spatial factor → `None` when cancelled.
    ///
    /// Takes the first frame and then whole groups of four: what is left over is ignored, as in diffusers.
    pub fn encode(&self, pixels: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Posterior> {
        tch::no_grad(|| {
            let num_frames = pixels.size()[2];
            let mut pass = Pass::new(cancelled);
            let mut chunks = vec![self.encode_chunk(&pixels.narrow(2, 0, 1), &mut pass)?];
            for start in
                (1..=num_frames - ENCODER_CHUNK_FRAMES).step_by(ENCODER_CHUNK_FRAMES as usize)
            {
                pass.cache.rewind();
                let chunk = pixels.narrow(2, start, ENCODER_CHUNK_FRAMES);
                chunks.push(self.encode_chunk(&chunk, &mut pass)?);
            }
            let moments = self.statistics.convolve(&Tensor::cat(&chunks, 0), 1);
            // f h w (2 c) -> 2 × 1 c f h w
            let moments = moments.permute([3, 0, 1, 2]).unsqueeze(0).contiguous();
            let mut halves = moments.chunk(2, 1).into_iter();
            let (mean, logvar) = halves.next().zip(halves.next())?;
            Some(Posterior {
                mean,
                logvar: logvar.clamp(-30.0, 20.0),
            })
        })
    }

    /// `pixels`: `(1, 3, T, H, W)` → `(t, h, w, 2 · C)`
    fn encode_chunk(&self, pixels: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let pixels = pixels
            .to_device(self.statistics.device())
            .to_kind(self.kind);
        let xs = patchify(&pixels, self.patch_size);
        let mut xs = self.conv1.forward(&xs, pass.cache.slot());
        for level in &self.downsamples {
            xs = level.forward(&xs, pass)?;
        }
        let xs = self.middle.forward(&xs, pass)?;
        self.head.forward(&xs, pass)
    }
}

#[derive(Debug)]
struct DownLevel {
    blocks: Vec<ResidualBlock>,
    downsample: Option<Downsample>,
    level: Level,
}

impl DownLevel {
    fn new(
        w: &Weights,
        level: Level,
        num_res_blocks: i64,
        form: ConvForm,
    ) -> Result<Self, WeightsError> {
        let feed = Feed {
            form,
            frames: level.frames,
        };
        let blocks = (0..num_res_blocks).map(|i| {
            let input = if i == 0 { level.input } else { level.output };
            ResidualBlock::new(&(w / i), [input, level.output], feed)
        });
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            downsample: level
                .step
                .map(|time| Downsample::new(&(w / num_res_blocks), level.output, time, form))
                .transpose()?,
            level,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T or T/2, H or H/2, W or W/2, O)`
    fn forward(&self, xs: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        let shortcut = average_down(xs, self.level);
        let mut xs = xs.shallow_clone();
        for block in &self.blocks {
            xs = block.forward(&xs, pass)?;
        }
        if let Some(downsample) = &self.downsample {
            xs = downsample.forward(&xs, pass)?;
        }
        Some(xs + shortcut)
    }
}
