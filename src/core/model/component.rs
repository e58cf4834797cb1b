//! The components that a model consists of, as its folders and its parts in other programs are called.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

labelled! {
    /// Component of a model.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ModelComponent {
        Transformer = "transformer",
        Vae = "VAE",
        TextEncoder = "text encoder",
        #[serde(rename = "text_encoder_2")]
        TextEncoder2 = "second text encoder",
        ImageEncoder = "image encoder",
        TextConnectors = "text connectors",
        TextProjection = "text projection",
        AudioVae = "audio VAE",
        Vocoder = "vocoder",
        LatentUpscaler = "latent upscaler",
    }
}

impl ModelComponent {
    /// Returns true if models run without it.
    pub(crate) fn is_optional(self) -> bool {
        self == Self::LatentUpscaler
    }
}
