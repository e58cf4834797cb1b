//! Safelight's inference engine: everything with tensors.

pub mod weights;
