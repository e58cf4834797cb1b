//! How one half of the autoencoder goes over pictures: one after the other, whole, in bands, or in tiles.
//!
//! Norms are over one picture, so pictures never go through together. Knows no layer.

use safelight_core::networks::KlVaeConfig;
use tch::{Device, Kind, Tensor};

use super::canvas::{Bands, Pass};
use crate::vae::tiles::{Grid, Tiling};
use crate::weights::Weights;

/// What the half makes of one picture, `(1, C, H, W)`; `None` when cancelled.
pub(super) type One<'a> = &'a dyn Fn(&Tensor, &Pass<'_>) -> Option<Tensor>;

/// Sizes of the autoencoder, and where it computes.
#[derive(Debug)]
pub(super) struct Half {
    /// Channels at the pixels.
    width: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    /// How many numbers stand for a latent along an edge, in what goes in and in what comes out.
    cells: [i64; 2],
    device: Device,
    kind: Kind,
}

impl Half {
    pub(super) fn encoder(cfg: &KlVaeConfig, weights: &Weights) -> Self {
        Self::with(cfg, weights, [cfg.spatial_factor(), 1])
    }

    pub(super) fn decoder(cfg: &KlVaeConfig, weights: &Weights) -> Self {
        Self::with(cfg, weights, [1, cfg.spatial_factor()])
    }

    fn with(cfg: &KlVaeConfig, weights: &Weights, cells: [i64; 2]) -> Self {
        Self {
            width: cfg.narrowest(),
            spatial_factor: cfg.spatial_factor(),
            cells,
            device: weights.device(),
            kind: weights.kind(),
        }
    }

    /// `pictures`: `(B, C, H, W)` → what `one` gives of all.
    pub(super) fn whole(
        &self,
        pictures: &Tensor,
        one: One<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        self.each(pictures, &self.pass(cancelled), one)
    }

    pub(super) fn in_bands(
        &self,
        pictures: &Tensor,
        bands: Bands,
        one: One<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let pass = self.pass(cancelled).in_bands(bands, self.width);
        self.each(pictures, &pass, one)
    }

    pub(super) fn tiled(
        &self,
        pictures: &Tensor,
        tiling: Tiling,
        one: One<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let [cell, result_cell] = self.cells;
        let latents = [2, 3].map(|dim| pictures.size()[dim] / cell);
        if tiling.is_seamless() {
            let pixels = latents.iter().product::<i64>() * self.spatial_factor.pow(2);
            let bands = Bands::of_tiles(tiling, pixels, self.width, &self.pass(cancelled));
            return self.in_bands(pictures, bands, one, cancelled);
        }
        let Some(grid) = Grid::new(tiling, self.spatial_factor, latents) else {
            return self.whole(pictures, one, cancelled);
        };
        self.each(pictures, &self.pass(cancelled), &|picture, pass| {
            let whole = grid.put_together(result_cell, &|tile| {
                let ys = one(&tile.cut(picture, 2, cell), pass)?;
                Some(ys.permute([0, 2, 3, 1]).contiguous())
            });
            Some(whole?.permute([0, 3, 1, 2]).contiguous())
        })
    }

    fn pass<'a>(&self, cancelled: &'a dyn Fn() -> bool) -> Pass<'a> {
        Pass::new(self.device, self.kind, cancelled)
    }

    fn each(&self, pictures: &Tensor, pass: &Pass<'_>, one: One<'_>) -> Option<Tensor> {
        tch::no_grad(|| {
            let pictures = pictures.split(1, 0).into_iter();
            let results = pictures.map(|picture| Some(one(&picture, pass)?.to_device(self.device)));
            match results.collect::<Option<Vec<_>>>()?.as_slice() {
                [one] => Some(one.shallow_clone()),
                all => Some(Tensor::cat(all, 0)),
            }
        })
    }
}
