//! Z-Image Turbo and Base: text to image, image to image, inside a mask.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. a given picture and a mask of it, and at the end latents to pictures, as [every picture](crate::stages::stills),
//! 3. [`denoise()`]: noise to latents, by [the steps of every picture](crate::stages::stills::walk_still).
//!
//! The reference is `ZImagePipeline`, `ZImageImg2ImgPipeline` and `ZImageInpaintPipeline` of diffusers 0.42.1, but for
//! two things: a guidance of 5 here is 4 there, so that it means what it means for other models, and what a mask keeps
//! is the picture's own.
//!
//! Shapes: `B` pictures of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod control;
mod denoise;
mod stages;
mod text;
mod transformer;

pub(crate) use cases::CASES;
pub use control::{Acting, ControlModulations, ZImageControl};
pub use denoise::denoise;
pub(crate) use stages::ZImage;
pub use text::encode_text;
pub use transformer::{Context, Modulations, ZImageTransformer};

use safelight_core::families::z_image::lora;
use safelight_core::job::Lora;
use safelight_core::lora::Expert;
use safelight_core::networks::ZImageTransformerKeys;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`ZImageTransformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = ZImageTransformerKeys::of(|key| weights.has(key));
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, lora::NETWORK, &named)
}

#[cfg(test)]
pub(crate) mod tests;
