//! Networks of LTX-2.3, video with sound: the transformer of two streams, the connectors in front of it, the autoencoders
//! of video and sound, the vocoder, and the latent upscaler.
//!
//! Readers ask with the authors' names.

mod connectors;
mod sound;
mod transformer;
mod upscaler;
mod vae;

pub use connectors::{Ltx2Connector, Ltx2ConnectorsConfig};
pub use sound::{Ltx2AudioVaeConfig, Ltx2VocoderConfig, VocoderShape};
pub use transformer::{Ltx2Attention, Ltx2Stream, Ltx2TransformerConfig, Ltx2TransformerKeys};
pub use upscaler::LatentUpscalerConfig;
pub use vae::{Ltx2VaeConfig, Ltx2VaeLevel, Ltx2VaeStep};
