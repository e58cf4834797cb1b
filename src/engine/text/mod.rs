//! Texts to embeddings.
//!
//! Tokenization is in `core` ([`safelight_core::tokens`]). Encoders here are independent of the model that reads their
//! embeddings; rules of one family are named after it.

mod clip;
mod clip_prompt;
mod embeds;
mod encode;
mod language;
mod t5;
mod token_batch;
mod weighting;

use safelight_core::job::LoraChoice;
use safelight_core::lora::{Expert, LoraTarget};

use crate::weights::{Weights, WeightsError};

pub use clip::{ClipTextEmbeds, ClipTextEncoder};
pub use clip_prompt::sdxl_embeds;
pub use embeds::{PromptEmbeds, TextEmbeds};
pub use encode::{
    EncodedText, EncoderFiles, PaddingMode, TextImages, embeds_of, language_embeds, read_clip,
    read_language, read_t5, read_with_images,
};
pub use language::{LanguageEncoder, SeenImages};
pub use t5::T5Encoder;
pub use token_batch::{TokenBatch, within_template};

/// A text encoder's weights with what LoRAs do to them, for [`ClipTextEncoder::new`] or [`T5Encoder::new`].
pub fn with_loras(
    weights: &Weights,
    loras: &[LoraChoice],
    network: LoraTarget,
) -> Result<Weights, WeightsError> {
    weights.with_loras(loras, Expert::Only, network, weights)
}

#[cfg(test)]
pub(crate) mod tests;
