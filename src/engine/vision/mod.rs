//! Pictures to embeddings.
//!
//! Encoders here know nothing of the model that reads their embeddings, and nothing of files with pictures in them.

mod clip;
mod processor;
mod qwen;
mod redux;
mod siglip;
mod siglip_head;
mod siglip_processor;
mod tower;

pub use clip::{ClipVisionEncoder, ClipVisionOutput};
pub use processor::{ClipImageProcessor, pixel_values};
pub use qwen::{QwenVisionTower, TowerOutput, patches_of, resized_to_area};
pub use redux::ReduxEmbedder;
pub use siglip::SiglipVisionEncoder;
pub use siglip_head::SiglipHead;
pub use siglip_processor::SiglipImageProcessor;

#[cfg(test)]
mod tests;
