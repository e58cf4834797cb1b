//! Mean and deviation of each latent channel, and the way to and from the latents of the transformer.

use tch::{Kind, Tensor};

use super::config::WanVaeConfig;

/// Of Wan 2.1: what diffusers takes when a config does not say it.
pub(super) const WAN21_MEAN: [f64; 16] = [
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517,
    -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
];

/// Of Wan 2.1, as above.
pub(super) const WAN21_STD: [f64; 16] = [
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
    1.6382, 1.1253, 2.8251, 1.9160,
];

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
