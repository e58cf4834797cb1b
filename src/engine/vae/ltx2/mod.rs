//! The video autoencoder of LTX-2.3, 32 × 32 × 8 pixels to one latent, and the upscaler of its latents.
//!
//! After diffusers' `AutoencoderKLLTX2Video` and `LTX2LatentUpsamplerModel` (0.42.1). The encoder is causal over time, the
//! decoder sees one frame ahead in each convolution. Frames go through both a few at a time: each convolution keeps the last
//! two frames that it saw, and the last chunk brings what is still held back, again a few frames at a time. The result is
//! that of the whole video, in memory that does not grow with it.
//!
//! Shapes: one video at a time. Inside, frames are `(T, H, W, C)`, contiguous. At the border, tensors are `(1, C, F, H, W)`.

mod halves;
mod layers;
mod network;
#[cfg(test)]
mod tests;
mod upscaler;

use safelight_core::networks::ltx2::Ltx2VaeConfig;
use tch::{Kind, Tensor};

use crate::encoder_prefix::behind;
use crate::weights::{Weights, WeightsError};

pub use self::halves::{Ltx2VaeDecoder, Ltx2VaeEncoder};
pub use self::upscaler::LatentUpscaler;

/// Mean and deviation of the latents' channels, which either half's file has.
#[derive(Debug)]
pub struct LatentScaling {
    /// `(1, C, 1, 1, 1)` in f32, as is the deviation
    mean: Tensor,
    deviation: Tensor,
}

impl LatentScaling {
    fn new(config: &Ltx2VaeConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = w.with_kind(Kind::Float);
        let [mean, deviation] = Ltx2VaeConfig::STATISTICS.map(|name| {
            let values = w.tensor(name, &[config.latent_channels])?;
            Ok::<_, WeightsError>(values.view([1, -1, 1, 1, 1]))
        });
        Ok(Self {
            mean: mean?,
            deviation: deviation?,
        })
    }

    /// Reads them from the file of an autoencoder.
    pub fn open(config: &Ltx2VaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        Self::new(
            config,
            &behind(Ltx2VaeConfig::prefix(weights.keys()), weights),
        )
    }

    /// The transformer's latents of the encoder's, `(1, C, f, h, w)`
    pub fn normalize(&self, latents: &Tensor) -> Tensor {
        (latents - &self.mean) / &self.deviation
    }

    /// The way back.
    pub fn denormalize(&self, latents: &Tensor) -> Tensor {
        latents * &self.deviation + &self.mean
    }
}
