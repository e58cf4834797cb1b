//! The video autoencoders of Wan, causal over time: Wan 2.1's, 8 × 8 × 4 pixels to one latent, which Wan 2.2's large
//! models use too, and that of Wan 2.2 TI2V-5B, 16 × 16 × 4.
//!
//! After diffusers' `AutoencoderKLWan`:
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_wan.py>.
//! One implementation: what sets the two apart is configuration, and shows in core's `WanVaeLevel`. Frames go through a few
//! at a time, each convolution keeping the last two frames it saw, so that memory does not grow with the video.
//!
//! Shapes: one video at a time. Inside, frames are `(T, H, W, C)`, contiguous: channels innermost is what oneDNN and
//! cuDNN want, and each frame is one image of a batch. At the border, tensors are `(1, C, F, H, W)` as in diffusers.

mod blocks;
mod decoder;
mod encoder;
mod resample;
#[cfg(test)]
mod tests;

use safelight_core::networks::WanVaeConfig;
use tch::{Kind, Tensor};

pub use self::decoder::WanVaeDecoder;
pub use self::encoder::WanVaeEncoder;

/// The transformer's latents of the encoder's `mean`, `(1, C, f, h, w)`: centred and scaled, in f32.
///
/// diffusers computes this in f32 whatever the autoencoder's own precision is.
pub fn normalize(cfg: &WanVaeConfig, mean: &Tensor) -> Tensor {
    let mean = mean.to_kind(Kind::Float);
    let (centre, scale) = statistics(cfg, &mean);
    (mean - centre) * scale
}

/// Decoder input of the transformer's `latents`, `(1, C, f, h, w)`, computed in their kind.
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
    (column(cfg.mean()), column(cfg.std()).reciprocal())
}
