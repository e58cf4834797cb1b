//! Pixels to the mean and log variance of their latents, one frame and then four at a time.
//!
//! Does not resize or check images, and draws nothing: the mode of the posterior is its mean.

use safelight_core::networks::{VaeHalf, WanVaeConfig, WanVaeLevel};
use tch::{Kind, Tensor};

use super::blocks::{ChunkPass, WanHead, WanMiddle, WanResidual, WanVaeAttention};
use super::resample::{WanDownsample, average_down};
use crate::vae::Posterior;
use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm};
use crate::vae::keys;
use crate::vae::pixel_patches::patchify;
use crate::vae::tiles::{TileBlender, TileGrid, Tiling};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct WanVaeEncoder {
    conv1: CausalConv3d,
    downsamples: Vec<DownLevel>,
    middle: WanMiddle,
    head: WanHead,
    /// Behind the network: diffusers' `quant_conv`.
    statistics: CausalConv3d,
    patch_size: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    kind: Kind,
}

impl WanVaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &WanVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        Self::with_form(cfg, weights, ConvForm::for_weights(weights))
    }

    /// Like `new`, with convolutions computed in `form` where device and kind of the weights allow it.
    pub fn with_form(
        cfg: &WanVaeConfig,
        weights: &Weights,
        form: ConvForm,
    ) -> Result<Self, WeightsError> {
        let form = form.or_fastest(weights);
        let root = keys::wan(weights, cfg);
        let w = &root / "encoder";
        let levels = cfg.encoder_levels();
        let (widest, frames) = levels
            .last()
            .map_or((cfg.base_dim, 1), |level| (level.output, level.frames));
        let feed = ConvFeed {
            form,
            frames,
            taps: cfg.taps(),
        };
        let first = ConvFeed {
            frames: WanVaeConfig::ENCODER_FRAMES,
            ..feed
        };
        let moments = 2 * cfg.z_dim;
        let pixels = [cfg.pixel_channels(), cfg.base_dim];
        let downsamples = levels
            .into_iter()
            .map(|level| DownLevel::new(&root, level, form));
        Ok(Self {
            conv1: CausalConv3d::new(&(&w / "conv1"), pixels, [3, 3, 3], first)?,
            downsamples: downsamples.collect::<Result<_, _>>()?,
            middle: WanMiddle::new(&(&w / "middle"), widest, feed)?,
            head: WanHead::new(&(&w / "head"), [widest, moments], feed)?,
            statistics: CausalConv3d::new(&(&root / "conv1"), [moments, moments], [1, 1, 1], feed)?,
            patch_size: cfg.patch(),
            spatial_factor: cfg.spatial_factor(),
            kind: weights.kind(),
        })
    }

    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_wan(weights, VaeHalf::Encoder)
    }

    /// `pixels`: `(1, 3, F, H, W)` in -1..1, edges multiples of the spatial factor → `None` when cancelled.
    ///
    /// Takes the first frame and then whole groups of four: what is left over is ignored, as in diffusers. The video may
    /// be anywhere and of any kind: a chunk at a time is brought to the weights. `tiling`: in overlapping tiles, for less
    /// memory; a video that fits into one tile is encoded whole.
    pub fn encode(
        &self,
        pixels: &Tensor,
        tiling: Option<Tiling>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Posterior> {
        let factor = self.spatial_factor;
        let latents = [3, 4].map(|dim| pixels.size()[dim] / factor);
        let grid = tiling.and_then(|tiling| {
            let grid = TileGrid::new(tiling, factor / self.patch_size, latents)?;
            Some((grid, tiling))
        });
        tch::no_grad(|| {
            let mut pass = ChunkPass::new(cancelled);
            if let Some((grid, tiling)) = grid {
                return self.encode_tiles(pixels, grid, tiling, pass);
            }
            let mut moments = Vec::new();
            for (i, chunk) in chunks(pixels).enumerate() {
                pass.cache.begin(i);
                let xs = self.tiled_part(&chunk, &mut pass)?;
                moments.push(self.whole_part(&xs, &mut pass)?);
            }
            Some(posterior(&moments))
        })
    }

    fn encode_tiles(
        &self,
        pixels: &Tensor,
        grid: TileGrid,
        tiling: Tiling,
        mut pass: ChunkPass<'_>,
    ) -> Option<Posterior> {
        let mut mosaic = TileBlender::new(grid, 1);
        let mut wholes = Vec::new();
        for tile in grid.tiles() {
            pass.forget();
            for (i, chunk) in chunks(&tile.cut(pixels, 3, self.spatial_factor)).enumerate() {
                pass.cache.begin(i);
                let mut xs = self.tiled_part(&chunk, &mut pass)?;
                if !tiling.is_seamless() {
                    xs = self.whole_part(&xs, &mut pass)?;
                }
                wholes.extend(mosaic.put(&tile, i, &xs));
            }
        }
        if tiling.is_seamless() {
            pass.forget();
            for (i, xs) in wholes.iter_mut().enumerate() {
                pass.cache.begin(i);
                *xs = self.whole_part(xs, &mut pass)?;
            }
        }
        Some(posterior(&wholes))
    }

    /// `pixels`: `(1, 3, T, H, W)` → the pixels that the level of the latents sees, `(t, h, w, C)`
    fn tiled_part(&self, pixels: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        let pixels = pixels
            .to_device(self.statistics.device())
            .to_kind(self.kind);
        let xs = patchify(&pixels, self.patch_size);
        let mut xs = self.conv1.forward(&xs, pass.cache.slot());
        for level in &self.downsamples[..self.tiled_levels()] {
            xs = level.forward(&xs, pass)?;
        }
        Some(xs)
    }

    /// The rest, which seamless tiling does not cut. `xs`: `(t, h, w, C)` → `(t, h, w, 2 · C)`
    fn whole_part(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        let mut xs = xs.shallow_clone();
        for level in &self.downsamples[self.tiled_levels()..] {
            xs = level.forward(&xs, pass)?;
        }
        let xs = self.middle.forward(&xs, pass)?;
        let xs = self.head.forward(&xs, pass)?;
        Some(self.statistics.convolve(&xs, 1))
    }

    /// All but the last level, which is at the latents' own resolution.
    fn tiled_levels(&self) -> usize {
        self.downsamples.len().saturating_sub(1)
    }
}

/// The first frame alone, then whole groups of four. `pixels`: `(1, 3, F, H, W)`
fn chunks(pixels: &Tensor) -> impl Iterator<Item = Tensor> {
    const FRAMES: i64 = WanVaeConfig::ENCODER_FRAMES;
    let groups = (pixels.size()[2] - 1) / FRAMES;
    let first = std::iter::once(pixels.narrow(2, 0, 1));
    let groups = (0..groups).map(|i| pixels.narrow(2, 1 + i * FRAMES, FRAMES));
    first.chain(groups)
}

/// Of the moments of all chunks, each `(t, h, w, 2 · C)`.
fn posterior(chunks: &[Tensor]) -> Posterior {
    // f h w (2 c) -> 2 × 1 c f h w
    let moments = Tensor::cat(chunks, 0).permute([3, 0, 1, 2]).unsqueeze(0);
    Posterior::from_moments(&moments.contiguous())
}

#[derive(Debug)]
struct DownLevel {
    blocks: Vec<(WanResidual, Option<WanVaeAttention>)>,
    downsample: Option<WanDownsample>,
    level: WanVaeLevel,
}

impl DownLevel {
    fn new(root: &Weights, level: WanVaeLevel, form: ConvForm) -> Result<Self, WeightsError> {
        let feed = ConvFeed {
            form,
            frames: level.frames,
            taps: level.taps,
        };
        let blocks = (0..level.num_blocks).map(|i| {
            let input = if i == 0 { level.input } else { level.output };
            let block = WanResidual::new(&(root / level.block(i)), [input, level.output], feed)?;
            let attention = level
                .has_attention
                .then(|| WanVaeAttention::new(&(root / level.attention(i)), level.output))
                .transpose()?;
            Ok((block, attention))
        });
        let step = root / level.step_name();
        Ok(Self {
            blocks: blocks.collect::<Result<_, WeightsError>>()?,
            downsample: level
                .step
                .map(|time| WanDownsample::new(&step, level.output, time, feed))
                .transpose()?,
            level,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T or T/2, H or H/2, W or W/2, O)`
    fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        let shortcut = self
            .level
            .has_shortcut
            .then(|| average_down(xs, self.level));
        let mut xs = xs.shallow_clone();
        for (block, attention) in &self.blocks {
            xs = block.forward(&xs, pass)?;
            if let Some(attention) = attention {
                xs = attention.forward(&xs, pass)?;
            }
        }
        if let Some(downsample) = &self.downsample {
            xs = downsample.forward(&xs, pass)?;
        }
        Some(match shortcut {
            Some(shortcut) => xs + shortcut,
            None => xs,
        })
    }
}
