//! Safelight's inference engine: everything with tensors.

pub mod vae;
pub mod weights;
