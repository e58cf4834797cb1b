//! The networks that a model may have, as plans and reports name them.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

labelled! {
    /// A network of a model; the halves of an autoencoder are two.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PlannedNetwork {
        Transformer = "transformer",
        #[serde(rename = "transformer_2")]
        Transformer2 = "low-noise transformer",
        VaeEncoder = "VAE",
        VaeDecoder = "VAE",
        TextEncoder = "text encoder",
        #[serde(rename = "text_encoder_2")]
        TextEncoder2 = "text encoder",
        ImageEncoder = "image encoder",
        ImageEmbedder = "image encoder",
        TextConnectors = "text connectors",
        /// Audio VAE and vocoder.
        AudioDecoder = "audio VAE",
        LatentUpscaler = "latent upscaler",
        /// Upscaler or RIFE.
        Finisher = "network",
    }
}

impl PlannedNetwork {
    pub fn is_transformer(self) -> bool {
        matches!(self, Self::Transformer | Self::Transformer2)
    }
}
