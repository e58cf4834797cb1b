//! FramePack, original and F1: an image becomes a video, section by section, in little memory.
//!
//! Stages of a job:
//!
//! 1. prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. start and end image to [`GivenImages`],
//! 3. SigLIP's hidden states of the start image,
//! 4. for each section [`denoise()`] and `decode`.
//!
//! The reference is `HunyuanVideoFramepackPipeline` of diffusers 0.42.1, and the authors' code for what it lacks
//! (<https://github.com/lllyasviel/FramePack>).
//!
//! Shapes: `C` latent channels; `F`, `H`, `W` frames and pixels; `f`, `h`, `w` the same in latents.

mod decode;
mod denoise;
mod layout;
mod measured;
mod stages;
mod transformer;

use crate::{Weights, WeightsError};
use safelight_core::families::{ModelFamily, lora_target};
use safelight_core::job::LoraChoice;
use safelight_core::lora::Expert;
use safelight_core::networks::FramePackTransformerKeys;

pub use denoise::{SectionInputs, denoise};
pub use layout::{SectionHistory, SectionLayout, history, layout, sections};
pub(crate) use stages::FramePackFamily;
pub use stages::{GivenImages, overlap_file};
pub use transformer::{
    FramePackContext, FramePackModulations, FramePackTransformer, SectionTokens,
};

/// A transformer's weights in the file's own names, with what LoRAs do to them, for [`FramePackTransformer::new`].
pub fn with_loras(weights: &Weights, loras: &[LoraChoice]) -> Result<Weights, WeightsError> {
    let keys = FramePackTransformerKeys::of(|key| weights.has(key));
    let network = lora_target(ModelFamily::FRAMEPACK, keys.is_diffusers);
    let named = weights.translated(move |name| keys.file_key(name));
    weights.with_loras(loras, Expert::Only, network, &named)
}

#[cfg(test)]
mod tests;
