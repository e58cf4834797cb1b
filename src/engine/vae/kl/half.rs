//! Passes of one half of the autoencoder over images, one after the other, by the selected strategy.
//!
//! Norms are per image, so images are never batched.

use safelight_core::networks::KlVaeConfig;
use tch::{Device, Kind, Tensor};

use super::canvas::{ImagePass, RowBands};
use crate::vae::tiles::{Tiling, in_tiles};
use crate::weights::Weights;

/// Strategy of one half's pass over an image.
#[derive(Debug, Clone, Copy)]
pub enum KlWay {
    /// At once.
    Whole,
    /// Equal up to rounding with less memory: each layer runs on one band at a time.
    Bands(RowBands),
    /// With [`TileScheme::Seamless`](crate::vae::TileScheme::Seamless): bands with the pixels of one tile, with feature
    /// maps off the device if it has no room for them; nothing is cut, so there are no seams. With
    /// [`TileScheme::Separate`](crate::vae::TileScheme::Separate): the result of diffusers' `tiled_decode` and
    /// `tiled_encode` with an overlap of a quarter.
    Tiles(Tiling),
}

/// Pass of the half over one image, `(1, C, H, W)`; `None` when cancelled.
pub(super) type ImageStep<'a> = &'a dyn Fn(&Tensor, &ImagePass<'_>) -> Option<Tensor>;

/// Sizes of the autoencoder, and where it computes.
#[derive(Debug)]
pub(super) struct KlHalf {
    width: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    /// Elements per latent along an edge, of input and output.
    cells: [i64; 2],
    device: Device,
    kind: Kind,
}

impl KlHalf {
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
    pub(super) fn over(
        &self,
        pictures: &Tensor,
        way: KlWay,
        one: ImageStep<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let pass = ImagePass::new(self.device, self.kind, cancelled);
        let bands = match way {
            KlWay::Whole => None,
            KlWay::Bands(bands) => Some(bands),
            KlWay::Tiles(tiling) if tiling.is_seamless() => {
                let edges = [2, 3].map(|dim| pictures.size()[dim] / self.cells[0]);
                let pixels = edges.iter().product::<i64>() * self.spatial_factor.pow(2);
                Some(RowBands::of_tiles(tiling, pixels, self.width, &pass))
            }
            KlWay::Tiles(tiling) => {
                return self.each(pictures, &pass, &|picture, pass| {
                    let tile = |tile: &Tensor| {
                        let ys = one(tile, pass)?;
                        Some(ys.permute([0, 2, 3, 1]).contiguous())
                    };
                    let (tiling, factor) = (Some(tiling), self.spatial_factor);
                    let whole = in_tiles(picture, 2, tiling, factor, self.cells, &tile)?;
                    Some(whole.permute([0, 3, 1, 2]).contiguous())
                });
            }
        };
        match bands {
            None => self.each(pictures, &pass, one),
            Some(bands) => self.each(pictures, &pass.in_bands(bands, self.width), one),
        }
    }

    fn each(&self, pictures: &Tensor, pass: &ImagePass<'_>, one: ImageStep<'_>) -> Option<Tensor> {
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
