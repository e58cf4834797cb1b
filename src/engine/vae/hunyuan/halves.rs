//! Both halves: latents to pixels, a stretch of time after the other, each handed out as soon as it exists, and pixels to the
//! mean and log variance of their latents.
//!
//! Neither normalises latents or resizes, checks or clamps pixels, and no frame that was handed out is kept.

use safelight_core::networks::{HunyuanVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{HunyuanMiddle, HunyuanNormConv, HunyuanResidual};
use super::conv::{CausalConv, GoOn, PointConv, UpConv};
use super::time_tiles::{TemporalBlender, TimeTiles};
use crate::vae::tiles::{Tiling, in_tiles};
use crate::vae::{Posterior, ResolutionLevel, keys};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct HunyuanVaeDecoder {
    post_quant_conv: PointConv,
    conv_in: CausalConv,
    mid: HunyuanMiddle,
    up: Vec<ResolutionLevel<HunyuanResidual, UpConv>>,
    head: HunyuanNormConv,
    spatial_factor: i64,
    temporal_factor: i64,
    device: Device,
    kind: Kind,
}

impl HunyuanVaeDecoder {
    /// Takes the decoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &HunyuanVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let root = keys::hunyuan(weights, cfg.block_out_channels.len());
        let w = &root / "decoder";
        let latents = cfg.latent_channels;
        let levels = cfg.block_out_channels.len();
        let up = (0..levels).map(|index| {
            // The names count from the pixels.
            let list = &w / "up" / (levels - 1 - index);
            up_level(&list, index, cfg)
        });
        Ok(Self {
            post_quant_conv: PointConv::new(&(&root / "post_quant_conv"), [latents; 2])?,
            conv_in: CausalConv::new(&(&w / "conv_in" / "conv"), [latents, cfg.widest()])?,
            mid: HunyuanMiddle::new(&(&w / "mid"), cfg)?,
            up: up.collect::<Result<_, _>>()?,
            head: HunyuanNormConv::new(&w, "_out", [cfg.narrowest(), 3], cfg)?,
            spatial_factor: cfg.spatial_factor(),
            temporal_factor: cfg.temporal_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_hunyuan(weights, VaeHalf::Decoder)
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised, anywhere and of any kind. Gives `frames` the video in order, a few
    /// frames at a time, `(1, 3, n, H, W)`, nominally in -1..1, where the weights are and in their kind.
    ///
    /// `tiling`: frames in overlapping squares too, for less memory. As norms see a square alone, it always is as
    /// diffusers' `tiled_decode` has it, whatever the scheme. `None` when cancelled.
    pub fn decode(
        &self,
        latents: &Tensor,
        tiling: Option<Tiling>,
        cancelled: &dyn Fn() -> bool,
        frames: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        let go_on: GoOn<'_> = &|| (!cancelled()).then_some(());
        let len = latents.size()[2];
        let mut give = |video: &Tensor| {
            // t h w c -> 1 c t h w
            frames(video.permute([3, 0, 1, 2]).unsqueeze(0).contiguous());
        };
        let (tiling, factor) = (tiling.map(Tiling::separate), self.spatial_factor);
        let decode = |latents: &Tensor| {
            let tile = |tile: &Tensor| self.decode_tile(tile, go_on);
            in_tiles(latents, 3, tiling, factor, [1, factor], &tile)
        };
        tch::no_grad(|| {
            let Some(tiles) = TimeTiles::of_latents(len, self.temporal_factor) else {
                give(&decode(latents)?);
                return Some(());
            };
            let mut splice = TemporalBlender::new(tiles);
            for (start, len) in tiles.stretches() {
                let video = decode(&latents.narrow(2, start, len))?;
                if let Some(own) = splice.put(&video) {
                    give(&own);
                }
            }
            Some(())
        })
    }

    /// The network: `(1, C, f, h, w)` → `(F, H, W, 3)`
    fn decode_tile(&self, latents: &Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        go_on()?;
        let xs = latents.to_device(self.device).to_kind(self.kind);
        // 1 c t h w -> t h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let xs = self.post_quant_conv.forward(&xs);
        let as_is = |xs: &Tensor| xs.shallow_clone();
        let xs = self.conv_in.forward(&xs, &as_is, go_on)?;
        let mut xs = self.mid.forward(xs, go_on)?;
        for level in &self.up {
            let block = |block: &HunyuanResidual, xs| block.forward(xs, go_on);
            let step = |step: &UpConv, xs: Tensor| step.forward(&xs, go_on);
            xs = level.forward(xs, block, step)?;
        }
        self.head.forward(&xs, go_on)
    }
}

/// `index`: counted from the latents.
fn up_level(
    w: &Weights,
    index: usize,
    cfg: &HunyuanVaeConfig,
) -> Result<ResolutionLevel<HunyuanResidual, UpConv>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let width = |index: usize| widths[widths.len() - 1 - index];
    let (before, own) = (width(index.saturating_sub(1)), width(index));
    let [time, space] = HunyuanVaeConfig::step_behind(index);
    let step = || UpConv::new(&(w / "upsample" / "conv" / "conv"), own, time == 2);
    ResolutionLevel::new(
        cfg.layers_per_block + 1,
        [before, own],
        |i, widths| HunyuanResidual::new(&(w / "block" / i), widths, cfg),
        (space == 2).then(step),
    )
}

#[derive(Debug)]
pub struct HunyuanVaeEncoder {
    conv_in: CausalConv,
    down: Vec<ResolutionLevel<HunyuanResidual, CausalConv>>,
    mid: HunyuanMiddle,
    head: HunyuanNormConv,
    quant_conv: PointConv,
    spatial_factor: i64,
    temporal_factor: i64,
    device: Device,
    kind: Kind,
}

impl HunyuanVaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &HunyuanVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let root = keys::hunyuan(weights, cfg.block_out_channels.len());
        let w = &root / "encoder";
        let moments = 2 * cfg.latent_channels;
        let down = (0..cfg.block_out_channels.len())
            .map(|index| down_level(&(&w / "down" / index), index, cfg));
        Ok(Self {
            conv_in: CausalConv::new(&(&w / "conv_in" / "conv"), [3, cfg.narrowest()])?,
            down: down.collect::<Result<_, _>>()?,
            mid: HunyuanMiddle::new(&(&w / "mid"), cfg)?,
            head: HunyuanNormConv::new(&w, "_out", [cfg.widest(), moments], cfg)?,
            quant_conv: PointConv::new(&(&root / "quant_conv"), [moments; 2])?,
            spatial_factor: cfg.spatial_factor(),
            temporal_factor: cfg.temporal_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_hunyuan(weights, VaeHalf::Encoder)
    }

    /// `pixels`: `(1, 3, F, H, W)` in -1..1, edges multiples of the spatial factor, anywhere and of any kind → latents
    /// `(1, C, f, h, w)`, where the weights are and in their kind. `tiling` as for
    /// [`decode`](super::HunyuanVaeDecoder::decode). `None` when cancelled.
    pub fn encode(
        &self,
        pixels: &Tensor,
        tiling: Option<Tiling>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Posterior> {
        let go_on: GoOn<'_> = &|| (!cancelled()).then_some(());
        let frames = pixels.size()[2];
        let (tiling, factor) = (tiling.map(Tiling::separate), self.spatial_factor);
        let encode = |pixels: &Tensor| {
            let tile = |tile: &Tensor| self.encode_tile(tile, go_on);
            in_tiles(pixels, 3, tiling, factor, [factor, 1], &tile)
        };
        tch::no_grad(|| {
            let moments = match TimeTiles::of_frames(frames, self.temporal_factor) {
                None => encode(pixels)?,
                Some(tiles) => {
                    let mut splice = TemporalBlender::new(tiles);
                    let mut parts = Vec::new();
                    for (start, len) in tiles.stretches() {
                        parts.extend(splice.put(&encode(&pixels.narrow(2, start, len))?));
                    }
                    Tensor::cat(&parts, 0)
                }
            };
            // t h w (2 c) -> 2 × 1 c t h w
            let moments = moments.permute([3, 0, 1, 2]).unsqueeze(0).contiguous();
            Some(Posterior::from_moments(&moments))
        })
    }

    /// The network: `(1, 3, F, H, W)` → `(f, h, w, 2 C)`
    fn encode_tile(&self, pixels: &Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        go_on()?;
        let xs = pixels.to_device(self.device).to_kind(self.kind);
        // 1 c t h w -> t h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let as_is = |xs: &Tensor| xs.shallow_clone();
        let mut xs = self.conv_in.forward(&xs, &as_is, go_on)?;
        for level in &self.down {
            let block = |block: &HunyuanResidual, xs| block.forward(xs, go_on);
            let step = |step: &CausalConv, xs: Tensor| step.forward(&xs, &as_is, go_on);
            xs = level.forward(xs, block, step)?;
        }
        let xs = self.mid.forward(xs, go_on)?;
        Some(self.quant_conv.forward(&self.head.forward(&xs, go_on)?))
    }
}

/// `index`: counted from the pixels.
fn down_level(
    w: &Weights,
    index: usize,
    cfg: &HunyuanVaeConfig,
) -> Result<ResolutionLevel<HunyuanResidual, CausalConv>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let (before, own) = (widths[index.saturating_sub(1)], widths[index]);
    let steps = HunyuanVaeConfig::step_behind(index);
    let conv = w / "downsample" / "conv" / "conv";
    let step = || CausalConv::with_steps(&conv, [own, own], steps);
    ResolutionLevel::new(
        cfg.layers_per_block,
        [before, own],
        |i, widths| HunyuanResidual::new(&(w / "block" / i), widths, cfg),
        (steps[1] == 2).then(step),
    )
}
