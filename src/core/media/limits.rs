//! Limits of written files.

/// The frame rates that every format can keep.
pub(crate) const MIN_FPS: f64 = 0.01;
pub(crate) const MAX_FPS: f64 = 240.0;
/// Larger settings are neither written nor read.
pub const MAX_SETTINGS_BYTES: u64 = 8 << 20;
