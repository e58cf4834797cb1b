//! Networks of sound: latents to a mel spectrogram, and that to a waveform.
//!
//! After diffusers' `AutoencoderKLLTX2Audio` and `LTX2VocoderWithBWE` (0.42.1). Sounds are short, and are computed whole.

mod mel;
#[cfg(test)]
mod tests;
mod vocoder;

pub use mel::MelDecoder;
pub use vocoder::{MelVocoder, SAMPLE_RATE};
