//! FramePack's transformer: its numbers, what its tensors are called, and all of them with their shapes.
//!
//! It is HunyuanVideo's with a packed history; the original and F1 are the same network.

mod config;
mod keys;
mod schema;

pub use config::{FramePackTransformerConfig, PATCH};
pub use keys::{FramePackDialect, FramePackTransformerKeys};
pub use schema::schema;
