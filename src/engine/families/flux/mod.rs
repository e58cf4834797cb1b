//! FLUX.1 dev, schnell, Fill and Kontext: text to image, image to image, filling, editing.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. a given picture and a mask of it, and at the end latents to pictures, as [every picture](crate::stages::stills),
//! 3. [`denoise()`]: noise to latents, by [the steps of every picture](crate::stages::stills::walk_still).
//!
//! The reference is `FluxPipeline`, `FluxImg2ImgPipeline`, `FluxInpaintPipeline`, `FluxFillPipeline` and
//! `FluxKontextPipeline` of diffusers 0.42.1, with ControlNets `FluxControlNetPipeline` and those beside it.
//!
//! Shapes: `B` pictures of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod control;
mod denoise;
mod measured;
mod pictures;
mod prepare;
mod stages;
mod text;
mod transformer;

pub(crate) use cases::CASES;
pub use control::{ControlText, FluxControl};
pub use denoise::{FluxModel, Reference, denoise};
pub use pictures::{encode_pictures, with_pictures};
pub use prepare::{SEEING, image_ids, reference_ids, text_ids};
pub(crate) use stages::Flux;
pub use text::encode_text;
pub use transformer::{Context, FluxTransformer, ROPE_THETA, told_times};

use safelight_core::families::flux::lora;
use safelight_core::job::Lora;
use safelight_core::lora::Expert;
use safelight_core::networks::FluxTransformerKeys;

use crate::weights::{Weights, WeightsError};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`FluxTransformer::new`].
pub fn with_loras(weights: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
    let keys = FluxTransformerKeys::of(|key| weights.has(key));
    let network = lora::network(keys.is_diffusers);
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, network, &named)
}

#[cfg(test)]
mod tests;
