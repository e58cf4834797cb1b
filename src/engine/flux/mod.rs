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
pub use transformer::{Context, FluxTransformer, Modulations};

#[cfg(test)]
mod tests;
