//! FLUX.1 dev, schnell and Fill: the transformer and the way from noise to latents.
//!
//! [`FluxTransformer`] is the network, [`SchedulerConfig::schedule`] the sigmas of a picture, [`denoise()`] the loop,
//! and `prepare.rs` has what goes into it. Text encoders and autoencoder are elsewhere, and so is the order of stages.
//! The reference is `FluxPipeline` and `FluxImg2ImgPipeline` of diffusers 0.42.1.
//!
//! Shapes: `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod config;
mod denoise;
mod keys;
mod prepare;
mod transformer;

pub use config::{SchedulerConfig, TransformerConfig};
pub use denoise::{Conditions, Guidance, TextEmbeds, denoise};
pub use keys::TransformerKeys;
pub use prepare::{Draws, LatentShape, first_step, image_ids, noised, text_ids};
pub use transformer::{Context, FluxTransformer};

use safelight_core::catalog::lora::{LoraExpert, Network};
use safelight_core::job::Lora;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`FluxTransformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = TransformerKeys::detect(weights);
    let network = Network::Flux {
        is_diffusers: keys.is_diffusers(),
    };
    weights.with_loras(loras, LoraExpert::Only, network, &keys.translate(weights))
}

#[cfg(test)]
mod tests;
