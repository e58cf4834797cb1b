//! The networks that a model may have, as plans and reports name them.

use serde::{Deserialize, Serialize};

/// A network of a model; the halves of an autoencoder are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    Transformer,
    #[serde(rename = "transformer_2")]
    Transformer2,
    VaeEncoder,
    VaeDecoder,
    TextEncoder,
    #[serde(rename = "text_encoder_2")]
    TextEncoder2,
    ImageEncoder,
}

impl PartName {
    pub const ALL: [Self; 7] = [
        Self::Transformer,
        Self::Transformer2,
        Self::VaeEncoder,
        Self::VaeDecoder,
        Self::TextEncoder,
        Self::TextEncoder2,
        Self::ImageEncoder,
    ];

    /// What it is called in sentences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Transformer2 => "low-noise transformer",
            Self::VaeEncoder | Self::VaeDecoder => "VAE",
            Self::TextEncoder | Self::TextEncoder2 => "text encoder",
            Self::ImageEncoder => "image encoder",
        }
    }
}
