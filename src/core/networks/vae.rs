//! Common parts of autoencoders: two halves, latents that are scaled, and sizes that a header shows.
//!
//! The tensors of the halves are in each network's file.

use super::config::check_within;

/// The scales of published latents are between 0.1 and 10; beyond this range latents overflow or vanish.
const SCALES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// Those of normed latents are both halves'.
const STATISTICS: &str = "bn.";

/// Jobs load one half at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VaeHalf {
    Encoder,
    Decoder,
}

impl VaeHalf {
    pub const BOTH: [Self; 2] = [Self::Encoder, Self::Decoder];

    /// Beginning of nearly all its tensors' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
        }
    }

    /// Returns true if a tensor belongs to this half. `own`: its name without a prefix.
    pub fn has(self, own: &str) -> bool {
        // The convolution between a half and the latents; Wan's authors call it conv1 and conv2.
        let starts = match self {
            Self::Encoder => ["encoder.", "quant_conv.", "conv1.", STATISTICS],
            Self::Decoder => ["decoder.", "post_quant_conv.", "conv2.", STATISTICS],
        };
        starts.iter().any(|start| own.starts_with(start))
    }
}

pub(super) fn check_scale(name: &str, found: f64) -> Result<(), String> {
    check_within(name, found, SCALES)
}

pub(super) fn check_shift(name: &str, found: f64) -> Result<(), String> {
    check_within(name, found, -SCALES.end()..=*SCALES.end())
}

#[cfg(test)]
mod tests;
