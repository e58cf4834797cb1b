//! FLUX.2 klein, distilled and base: text to image, reference pictures, image to image, inside a mask.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. given pictures and a mask, and at the end latents to pictures, as [every picture](crate::stages::stills),
//! 3. [`denoise()`]: noise to latents, by [the steps of every picture](crate::stages::stills::walk_still).
//!
//! The reference is `Flux2KleinPipeline` and `Flux2KleinInpaintPipeline` of diffusers 0.42.1, but for three things: the
//! negative prompt may be another than the empty one, a distilled model obeys a guidance above 1, and what a mask keeps is
//! the picture's own. A picture without a mask is as one with a mask that is white all over.
//!
//! Shapes: `B` pictures of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod denoise;
mod prepare;
mod stages;
mod text;
mod transformer;

pub(crate) use cases::CASES;
pub use denoise::denoise;
pub use prepare::{image_ids, mu, seen_ids, seen_picture, text_ids};
pub(crate) use stages::Flux2;
pub use text::encode_text;
pub use transformer::{Context, Flux2Transformer};

use safelight_core::families::flux2::lora;
use safelight_core::job::Lora;
use safelight_core::lora::Expert;
use safelight_core::networks::Flux2TransformerKeys;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`Flux2Transformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = Flux2TransformerKeys::of(|key| weights.has(key));
    let network = lora::network(keys.is_diffusers);
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, network, &named)
}

#[cfg(test)]
pub(crate) mod tests;
