//! The components that a model consists of, as its folders and its parts in other programs are called.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

labelled! {
    /// Component of a model.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ModelComponent {
        Transformer = "transformer",
        Vae = "VAE",
        TextEncoder = "text encoder",
        #[serde(rename = "text_encoder_2")]
        TextEncoder2 = "second text encoder",
        ImageEncoder = "image encoder",
    }
}
