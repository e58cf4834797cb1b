//! The video autoencoder of Wan 2.2 (TI2V-5B): 16 × 16 × 4 pixels to one latent, causal over time.
//!
//! After diffusers' `AutoencoderKLWan` with `is_residual`:
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_wan.py>.
//! Frames go through a few at a time, each convolution keeping the last two frames it saw, so that memory does not
//! grow with the clip. Does not tile in space, and does not yet read the autoencoder of Wan 2.1.
//!
//! Shapes: one clip at a time. Inside, frames are `(T, H, W, C)`, contiguous: channels innermost is what oneDNN and
//! cuDNN want, and each frame is one picture of a batch. At the border, tensors are `(1, C, F, H, W)` as in diffusers.

mod blocks;
mod config;
mod decoder;
mod encoder;
mod keys;
mod resample;
#[cfg(test)]
mod tests;

use tch::{Kind, Tensor};

pub use self::config::WanVaeConfig;
pub use self::decoder::WanVaeDecoder;
pub use self::encoder::{Posterior, WanVaeEncoder};

/// The transformer's latents of the encoder's `mean`, `(1, C, f, h, w)`: centred and scaled, in f32.
///
/// diffusers computes this in f32 whatever the autoencoder's own precision is.
pub fn normalize(cfg: &WanVaeConfig, mean: &Tensor) -> Tensor {
    let mean = mean.to_kind(Kind::Float);
    let (centre, scale) = statistics(cfg, &mean);
    (mean - centre) * scale
}

/// What the decoder wants of the transformer's `latents`, `(1, C, f, h, w)`, computed in their own kind.
///
/// diffusers converts latents to the kind and device of the autoencoder first; so must the caller.
pub fn denormalize(cfg: &WanVaeConfig, latents: &Tensor) -> Tensor {
    let (centre, scale) = statistics(cfg, latents);
    latents / scale + centre
}

/// The mean of each channel and the reciprocal of its deviation, rounded where diffusers rounds.
fn statistics(cfg: &WanVaeConfig, like: &Tensor) -> (Tensor, Tensor) {
    let column = |values: &[f64]| {
        Tensor::from_slice(values)
            .to_kind(Kind::Float)
            .to_kind(like.kind())
            .to_device(like.device())
            .view([1, -1, 1, 1, 1])
    };
    (
        column(&cfg.latents_mean),
        column(&cfg.latents_std).reciprocal(),
    )
}
