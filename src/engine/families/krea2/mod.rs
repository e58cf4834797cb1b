//! Krea 2 Turbo and Raw: text to image, image to image, inside a mask.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. a given picture and a mask of it, and at the end latents to pictures, as [every picture](crate::stages::stills),
//! 3. [`denoise()`]: noise to latents, by [the steps of every picture](crate::stages::stills::walk_still).
//!
//! The reference is `Krea2Pipeline` of diffusers 0.42.1, but for three things: a guidance of 5.5 here is 4.5 there, so
//! that it means what it means for other models; texts have no padding, which nothing there looks at; and that pipeline
//! begins with noise alone: what becomes of a given picture and of a mask is the arithmetic of the other picture models.
//!
//! Shapes: `B` pictures of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod denoise;
mod stages;
mod text;
mod transformer;

pub(crate) use cases::CASES;
pub use denoise::denoise;
pub(crate) use stages::Krea2;
pub use text::encode_text;
pub use transformer::{Context, Krea2Transformer, Modulations};

use safelight_core::families::krea2::lora;
use safelight_core::job::Lora;
use safelight_core::lora::Expert;
use safelight_core::networks::Krea2TransformerKeys;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`Krea2Transformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = Krea2TransformerKeys::of(|key| weights.has(key));
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, lora::NETWORK, &named)
}

#[cfg(test)]
pub(crate) mod tests;
