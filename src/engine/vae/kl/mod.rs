//! The autoencoder of FLUX.1: pictures, 8 × 8 pixels to one latent of 16 channels; with other numbers in its
//! configuration that of any latent diffusion model in diffusers' `AutoencoderKL`, and `AutoencoderKLFlux2`, whose latents
//! are normed and not scaled.
//!
//! After <https://github.com/black-forest-labs/flux/blob/v0.0.1/src/flux/modules/autoencoder.py>, whose names the fields
//! follow, and
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl.py>.
//! Group norms take their statistics from the whole picture, so a tile that knows only itself comes out different. A
//! picture that is too large goes through each layer in bands of rows instead: `canvas` says how.
//!
//! Shapes: inside, a picture is `(1, H, W, C)`, contiguous: channels innermost is what oneDNN and cuDNN want. At the
//! border, tensors are `(B, C, H, W)` as in diffusers.

mod blocks;
mod canvas;
mod decoder;
mod encoder;
mod half;
pub(super) mod norm;
mod pixels;
mod statistics;
#[cfg(test)]
pub(super) mod tests;

use safelight_core::networks::KlVaeConfig;
use tch::Tensor;

pub use self::canvas::RowBands;
pub use self::decoder::KlVaeDecoder;
pub use self::encoder::KlVaeEncoder;
pub use self::half::KlWay;
pub use self::statistics::LatentStatistics;

/// The latents that a diffusion model takes, from those that the encoder gives, where they are scaled.
pub fn normalize(cfg: &KlVaeConfig, latents: &Tensor) -> Tensor {
    (latents - cfg.shift()) * cfg.scaling_factor
}

/// The latents that the decoder takes, from those that a diffusion model gives.
pub fn denormalize(cfg: &KlVaeConfig, latents: &Tensor) -> Tensor {
    latents / cfg.scaling_factor + cfg.shift()
}
