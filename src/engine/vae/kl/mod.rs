//! The autoencoder of FLUX.1: images, 8 × 8 pixels to one latent of 16 channels; with other numbers in its
//! configuration that of any latent diffusion model in diffusers' `AutoencoderKL`, and `AutoencoderKLFlux2`, whose latents
//! are normed and not scaled.
//!
//! After <https://github.com/black-forest-labs/flux/blob/v0.0.1/src/flux/modules/autoencoder.py>, whose names the fields
//! follow, and
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl.py>.
//! Group norms take their statistics from the whole image, so a tile that knows only itself comes out different. A
//! image that is too large goes through each layer in bands of rows instead: `canvas` says how.
//!
//! Shapes: inside, an image is `(1, H, W, C)`, contiguous: channels innermost is what oneDNN and cuDNN want. At the
//! border, tensors are `(B, C, H, W)` as in diffusers.

mod blocks;
mod canvas;
mod halves;
pub(super) mod norm;
mod statistics;
#[cfg(test)]
pub(super) mod tests;

use safelight_core::networks::KlVaeConfig;
use tch::{Device, Kind, Tensor};

use self::canvas::ImagePass;
use crate::vae::tiles::{Tiling, in_tiles};
use crate::weights::Weights;

pub use self::canvas::RowBands;
pub use self::halves::{KlVaeDecoder, KlVaeEncoder};
pub use self::statistics::LatentStatistics;

/// The latents that a diffusion model takes, from those that the encoder gives, where they are scaled.
pub fn normalize(cfg: &KlVaeConfig, latents: &Tensor) -> Tensor {
    (latents - cfg.shift()) * cfg.scaling_factor
}

/// The latents that the decoder takes, from those that a diffusion model gives.
pub fn denormalize(cfg: &KlVaeConfig, latents: &Tensor) -> Tensor {
    latents / cfg.scaling_factor + cfg.shift()
}

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
type ImageStep<'a> = &'a dyn Fn(&Tensor, &ImagePass<'_>) -> Option<Tensor>;

/// Sizes of the autoencoder, and where it computes.
#[derive(Debug)]
struct KlHalf {
    width: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    /// Elements per latent along an edge, of input and output.
    cells: [i64; 2],
    device: Device,
    kind: Kind,
}

impl KlHalf {
    fn new(cfg: &KlVaeConfig, weights: &Weights, cells: [i64; 2]) -> Self {
        Self {
            width: cfg.narrowest(),
            spatial_factor: cfg.spatial_factor(),
            cells,
            device: weights.device(),
            kind: weights.kind(),
        }
    }

    /// `images`: `(B, C, H, W)` → what `one` gives of all.
    fn over(
        &self,
        images: &Tensor,
        way: KlWay,
        one: ImageStep<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let pass = ImagePass::new(self.device, self.kind, cancelled);
        let bands = match way {
            KlWay::Whole => None,
            KlWay::Bands(bands) => Some(bands),
            KlWay::Tiles(tiling) if tiling.is_seamless() => {
                let edges = [2, 3].map(|dim| images.size()[dim] / self.cells[0]);
                let pixels = edges.iter().product::<i64>() * self.spatial_factor.pow(2);
                Some(RowBands::of_tiles(tiling, pixels, self.width, &pass))
            }
            KlWay::Tiles(tiling) => {
                return self.each(images, &pass, &|image, pass| {
                    let tile = |tile: &Tensor| {
                        let ys = one(tile, pass)?;
                        Some(ys.permute([0, 2, 3, 1]).contiguous())
                    };
                    let (tiling, factor) = (Some(tiling), self.spatial_factor);
                    let whole = in_tiles(image, 2, tiling, factor, self.cells, &tile)?;
                    Some(whole.permute([0, 3, 1, 2]).contiguous())
                });
            }
        };
        match bands {
            None => self.each(images, &pass, one),
            Some(bands) => self.each(images, &pass.in_bands(bands, self.width), one),
        }
    }

    fn each(&self, images: &Tensor, pass: &ImagePass<'_>, one: ImageStep<'_>) -> Option<Tensor> {
        tch::no_grad(|| {
            let images = images.split(1, 0).into_iter();
            let results = images.map(|image| Some(one(&image, pass)?.to_device(self.device)));
            match results.collect::<Option<Vec<_>>>()?.as_slice() {
                [one] => Some(one.shallow_clone()),
                all => Some(Tensor::cat(all, 0)),
            }
        })
    }
}
