//! Pixels to the mean and log variance of their latents.
//!
//! Does not resize or check pictures, draws nothing and does not normalise.

use safelight_core::networks::{HunyuanVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{Middle, NormedConv, Pass, ResidualBlock};
use super::conv::{CausalConv, PointConv};
use super::time_tiles::{Splice, TimeTiles};
use crate::vae::level::Level;
use crate::vae::tiles::{Grid, Tiling};
use crate::vae::{Posterior, keys};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct HunyuanVaeEncoder {
    conv_in: CausalConv,
    /// From pixels to latents.
    down: Vec<Level<ResidualBlock, CausalConv>>,
    mid: Middle,
    /// `norm_out` and `conv_out`
    head: NormedConv,
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
            mid: Middle::new(&(&w / "mid"), cfg)?,
            head: NormedConv::new(
                &(&w / "norm_out"),
                &(&w / "conv_out"),
                [cfg.widest(), moments],
                cfg,
            )?,
            quant_conv: PointConv::new(&(&root / "quant_conv"), [moments; 2])?,
            spatial_factor: cfg.spatial_factor(),
            temporal_factor: cfg.temporal_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    /// The keys of the encoder's half that nobody asked for.
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
        let pass = Pass { cancelled };
        let frames = pixels.size()[2];
        tch::no_grad(|| {
            let moments = match TimeTiles::of_frames(frames, self.temporal_factor) {
                None => self.encode_stretch(pixels, tiling, &pass)?,
                Some(tiles) => {
                    let mut splice = Splice::new(tiles);
                    let mut parts = Vec::new();
                    for (start, len) in tiles.stretches() {
                        let stretch = pixels.narrow(2, start, len);
                        parts.extend(splice.put(&self.encode_stretch(&stretch, tiling, &pass)?));
                    }
                    Tensor::cat(&parts, 0)
                }
            };
            // t h w (2 c) -> 2 × 1 c t h w
            let moments = moments.permute([3, 0, 1, 2]).unsqueeze(0).contiguous();
            Some(Posterior::of(&moments))
        })
    }

    /// `(1, 3, F, H, W)` → `(f, h, w, 2 C)`
    fn encode_stretch(
        &self,
        pixels: &Tensor,
        tiling: Option<Tiling>,
        pass: &Pass<'_>,
    ) -> Option<Tensor> {
        let size = pixels.size();
        let factor = self.spatial_factor;
        let latents = [size[3] / factor, size[4] / factor];
        let grid = tiling.and_then(|tiling| Grid::new(tiling.separate(), factor, latents));
        match grid {
            None => self.encode_tile(pixels, pass),
            Some(grid) => grid.put_together(1, &|tile| {
                self.encode_tile(&tile.cut(pixels, 3, factor), pass)
            }),
        }
    }

    /// The network: `(1, 3, F, H, W)` → `(f, h, w, 2 C)`
    fn encode_tile(&self, pixels: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let xs = pixels.to_device(self.device).to_kind(self.kind);
        // 1 c t h w -> t h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let as_is = |xs: &Tensor| xs.shallow_clone();
        let mut xs = self.conv_in.forward(&xs, &as_is, &|| pass.go_on())?;
        for level in &self.down {
            let block = |block: &ResidualBlock, xs| block.forward(xs, pass);
            let step = |step: &CausalConv, xs: Tensor| step.forward(&xs, &as_is, &|| pass.go_on());
            xs = level.forward(xs, block, step)?;
        }
        let xs = self.mid.forward(xs, pass)?;
        Some(self.quant_conv.forward(&self.head.forward(&xs, pass)?))
    }

    /// What it computes in.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// `index`: counted from the pixels.
fn down_level(
    w: &Weights,
    index: usize,
    cfg: &HunyuanVaeConfig,
) -> Result<Level<ResidualBlock, CausalConv>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let (before, own) = (widths[index.saturating_sub(1)], widths[index]);
    let steps = HunyuanVaeConfig::step_behind(index);
    let conv = w / "downsample" / "conv" / "conv";
    let step = || CausalConv::with_steps(&conv, [own, own], steps);
    Level::new(
        cfg.layers_per_block,
        [before, own],
        |i, widths| ResidualBlock::new(&(w / "block" / i), widths, cfg),
        (steps[1] == 2).then(step),
    )
}
