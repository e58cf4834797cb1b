//! FramePack, original and F1: a picture becomes a video, section by section, in little memory.
//!
//! The reference is `HunyuanVideoFramepackPipeline` of diffusers 0.42.1.

mod config;
mod keys;
mod layout;
mod refiner;
mod transformer;

pub use config::TransformerConfig;
pub use keys::TransformerKeys;
pub use layout::{History, Layout};
pub use transformer::{Context, FramePackTransformer, Modulations, Section};

#[cfg(test)]
mod tests;
