//! Mean and deviation of each latent channel, and the way to and from the latents of the transformer.

use safelight_core::networks::WanVaeConfig;
use tch::{Kind, Tensor};

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
