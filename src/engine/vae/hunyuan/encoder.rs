//! Pixels to the mean and log variance of their latents.
//!
//! Does not resize or check pictures, draws nothing and does not normalise.

use safelight_core::networks::{HunyuanVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{HunyuanMiddle, HunyuanNormConv, HunyuanResidual};
use super::conv::{CausalConv, GoOn, PointConv};
use super::time_tiles::{TemporalBlender, TimeTiles};
use crate::vae::level::ResolutionLevel;
use crate::vae::tiles::{Tiling, in_tiles};
use crate::vae::{Posterior, keys};
use crate::weights::{Weights, WeightsError};

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

    pub fn kind(&self) -> Kind {
        self.kind
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
