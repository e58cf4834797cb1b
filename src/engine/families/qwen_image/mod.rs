//! Qwen-Image: text to image, image to image, inside a mask; Qwen-Image-Edit: what a text says of some pictures.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt, with the pictures that they speak of, to
//!    [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. a given picture and a mask of it, or pictures that are seen, and at the end latents to pictures, as [every picture](crate::stages::stills),
//! 3. [`denoise()`]: noise to latents, by [the steps of every picture](crate::stages::stills::walk_still).
//!
//! The reference is `QwenImagePipeline`, `QwenImageImg2ImgPipeline`, `QwenImageInpaintPipeline` and
//! `QwenImageEditPlusPipeline` of diffusers 0.42.1, but that what a mask keeps is the picture's own, and that tokens of
//! pictures have their places in a text as the text encoder was trained to have them.
//!
//! Shapes: `B` pictures of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod control;
mod denoise;
mod measured;
mod stages;
mod text;
mod transformer;
mod trunk;

pub(crate) use cases::CASES;
pub use control::{ControlText, QwenImageControl};
pub use denoise::denoise;
pub(crate) use stages::QwenImage;
pub use text::encode_text;
pub use transformer::{Context, Modulations, QwenImageTransformer, Reference};

use safelight_core::families::qwen_image::lora;
use safelight_core::job::Lora;
use safelight_core::lora::Expert;
use safelight_core::networks::QwenImageTransformerKeys;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`QwenImageTransformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = QwenImageTransformerKeys::of(|key| weights.has(key));
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, lora::NETWORK, &named)
}

#[cfg(test)]
pub(crate) mod tests;
