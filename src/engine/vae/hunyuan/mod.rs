//! The video autoencoder of HunyuanVideo, which FramePack uses: causal over time, 8 × 8 × 4 pixels to one latent of 16
//! channels.
//!
//! After diffusers' `AutoencoderKLHunyuanVideo`:
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_hunyuan_video.py>.
//! Its norms take their statistics from all frames that go through together, so that a video cannot go through a few
//! frames at a time with the borders remembered: it is cut into tiles of time, which overlap and are blended, always
//! and as diffusers does it. Within a tile each layer goes over a few frames at a time.
//!
//! Shapes: one video at a time. Inside, frames are `(T, H, W, C)`, contiguous: channels innermost is what oneDNN and
//! cuDNN want, and each frame is one image of a batch. At the border, tensors are `(1, C, F, H, W)` as in diffusers.

mod blocks;
mod conv;
mod halves;
#[cfg(test)]
mod tests;
mod time_tiles;

use safelight_core::networks::HunyuanVaeConfig;
use tch::Tensor;

pub use self::halves::{HunyuanVaeDecoder, HunyuanVaeEncoder};

/// The latents that a diffusion model takes, from those that the encoder gives.
pub fn normalize(cfg: &HunyuanVaeConfig, latents: &Tensor) -> Tensor {
    latents * cfg.scaling_factor
}

/// The latents that the decoder takes, from those that a diffusion model gives.
pub fn denormalize(cfg: &HunyuanVaeConfig, latents: &Tensor) -> Tensor {
    latents / cfg.scaling_factor
}
