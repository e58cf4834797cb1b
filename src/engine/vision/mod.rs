//! Pictures to embeddings.
//!
//! Encoders here know nothing of the model that reads their embeddings, and nothing of files with pictures in them.

mod clip;
mod processor;

pub use clip::{ClipVisionConfig, ClipVisionEncoder, Finished};
pub use processor::{ClipImageProcessor, pixel_values};

#[cfg(test)]
mod tests;
