//! Latents to pixels, a stretch of time after the other, each handed out as soon as it exists.
//!
//! Does not undo the normalisation of the latents, does not clamp the pixels, and keeps no frame that it handed out.

use safelight_core::networks::{HunyuanVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{Middle, NormedConv, Pass, ResidualBlock};
use super::conv::{CausalConv, PointConv, UpConv};
use super::time_tiles::{Splice, TimeTiles};
use crate::vae::keys;
use crate::vae::level::Level;
use crate::vae::tiles::{Grid, Tiling};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct HunyuanVaeDecoder {
    post_quant_conv: PointConv,
    conv_in: CausalConv,
    mid: Middle,
    /// From latents to pixels.
    up: Vec<Level<ResidualBlock, UpConv>>,
    /// `norm_out` and `conv_out`
    head: NormedConv,
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
            mid: Middle::new(&(&w / "mid"), cfg)?,
            up: up.collect::<Result<_, _>>()?,
            head: NormedConv::new(
                &(&w / "norm_out"),
                &(&w / "conv_out"),
                [cfg.narrowest(), 3],
                cfg,
            )?,
            spatial_factor: cfg.spatial_factor(),
            temporal_factor: cfg.temporal_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    /// The keys of the decoder's half that nobody asked for.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_hunyuan(weights, VaeHalf::Decoder)
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised, anywhere and of any kind. Gives `frames` the clip in order, a few
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
        let pass = Pass { cancelled };
        let len = latents.size()[2];
        let mut give = |clip: &Tensor| {
            // t h w c -> 1 c t h w
            frames(clip.permute([3, 0, 1, 2]).unsqueeze(0).contiguous());
        };
        tch::no_grad(|| {
            let Some(tiles) = TimeTiles::of_latents(len, self.temporal_factor) else {
                give(&self.decode_stretch(latents, tiling, &pass)?);
                return Some(());
            };
            let mut splice = Splice::new(tiles);
            for (start, len) in tiles.stretches() {
                let stretch = latents.narrow(2, start, len);
                let clip = self.decode_stretch(&stretch, tiling, &pass)?;
                if let Some(own) = splice.put(&clip) {
                    give(&own);
                }
            }
            Some(())
        })
    }

    /// `(1, C, f, h, w)` → `(F, H, W, 3)`
    fn decode_stretch(
        &self,
        latents: &Tensor,
        tiling: Option<Tiling>,
        pass: &Pass<'_>,
    ) -> Option<Tensor> {
        let size = latents.size();
        let cell = self.spatial_factor;
        let grid = tiling.and_then(|tiling| Grid::new(tiling.separate(), cell, [size[3], size[4]]));
        match grid {
            None => self.decode_tile(latents, pass),
            Some(grid) => grid.put_together(cell, &|tile| {
                self.decode_tile(&tile.cut(latents, 3, 1), pass)
            }),
        }
    }

    /// The network: `(1, C, f, h, w)` → `(F, H, W, 3)`
    fn decode_tile(&self, latents: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let xs = latents.to_device(self.device).to_kind(self.kind);
        // 1 c t h w -> t h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let xs = self.post_quant_conv.forward(&xs);
        let as_is = |xs: &Tensor| xs.shallow_clone();
        let xs = self.conv_in.forward(&xs, &as_is, &|| pass.go_on())?;
        let mut xs = self.mid.forward(xs, pass)?;
        for level in &self.up {
            let block = |block: &ResidualBlock, xs| block.forward(xs, pass);
            let step = |step: &UpConv, xs: Tensor| step.forward(&xs, &|| pass.go_on());
            xs = level.forward(xs, block, step)?;
        }
        self.head.forward(&xs, pass)
    }

    /// What it computes in.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// `index`: counted from the latents.
fn up_level(
    w: &Weights,
    index: usize,
    cfg: &HunyuanVaeConfig,
) -> Result<Level<ResidualBlock, UpConv>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let width = |index: usize| widths[widths.len() - 1 - index];
    let (before, own) = (width(index.saturating_sub(1)), width(index));
    let [time, space] = HunyuanVaeConfig::step_behind(index);
    let step = || UpConv::new(&(w / "upsample" / "conv" / "conv"), own, time == 2);
    Level::new(
        cfg.layers_per_block + 1,
        [before, own],
        |i, widths| ResidualBlock::new(&(w / "block" / i), widths, cfg),
        (space == 2).then(step),
    )
}
