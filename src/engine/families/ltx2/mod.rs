//! Networks of LTX-2.3, video with sound.
//!
//! The arithmetic is that of diffusers 0.42.1 (`models/transformers/transformer_ltx2.py`, `pipelines/ltx2`); names are the
//! authors'.
//!
//! Shapes: `S` tokens of a video, `L` tokens of its sound, 25 a second, `T` tokens of text; `D` width of a stream, `H` heads.

mod attention;
mod connectors;
mod denoise;
mod positions;
mod stages;
#[cfg(test)]
mod tests;
mod transformer;

pub use connectors::Ltx2TextConnectors;
pub use denoise::{JointShape, Ltx2Denoiser, renoised};
pub use positions::{Ltx2Positions, audio_tokens};
pub(crate) use stages::Ltx2Family;
pub use transformer::{Ltx2Inputs, Ltx2Transformer};
