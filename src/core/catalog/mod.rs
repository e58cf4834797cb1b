//! Which models there are: what `models.toml` says, what is on disk, and what is missing.
//!
//! Reads headers and configs only; weights are the engine's.

mod spec;

pub use spec::{Defaults, Family, LatentRgb, Limits, ModelSpec};

#[cfg(test)]
pub(crate) use spec::test_spec;
