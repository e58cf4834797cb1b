//! The components that a model consists of, as its folders and its parts in other programs are called.

use serde::{Deserialize, Serialize};

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    Transformer,
    Vae,
    TextEncoder,
    #[serde(rename = "text_encoder_2")]
    TextEncoder2,
    ImageEncoder,
}

impl Component {
    /// What it is called in lists.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Vae => "autoencoder",
            Self::TextEncoder => "text encoder",
            Self::TextEncoder2 => "second text encoder",
            Self::ImageEncoder => "image encoder",
        }
    }
}
