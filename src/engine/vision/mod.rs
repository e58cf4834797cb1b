//! Images to embeddings.
//!
//! Encoders here know nothing of the model that reads their embeddings, and nothing of files with images in them.

mod processor;
mod qwen;
mod qwen3;
#[cfg(test)]
mod tests;
mod tower;

pub use processor::{ClipImageProcessor, SiglipImageProcessor, pixel_values};
pub use qwen::{QwenVisionTower, TowerOutput, patches_of, resized_to_area};
pub use qwen3::{Qwen3VisionTower, TowerFeatures};
pub use tower::{
    ClipVisionEncoder, ClipVisionOutput, ReduxEmbedder, SiglipHead, SiglipVisionEncoder,
};
