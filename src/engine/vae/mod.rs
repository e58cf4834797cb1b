//! Autoencoders: pixels to latents and back, one folder per autoencoder.
//!
//! Knows neither prompts nor transformers nor files of pictures, and does not choose where a model lives.

mod causal;
mod doubling;
mod pointwise;
mod slices;
mod team;
mod toom;
pub mod wan;

use std::path::PathBuf;

use thiserror::Error;

use crate::weights::WeightsError;

pub use self::causal::ConvForm;
pub use self::wan::{
    Posterior, TileScheme, Tiling, WanVaeConfig, WanVaeDecoder, WanVaeEncoder, denormalize,
    normalize,
};

/// Why an autoencoder could not be built from a folder or file.
#[derive(Debug, Error)]
pub enum VaeError {
    #[error("cannot read the autoencoder's configuration: {source}: {}", path.display())]
    Io {
        source: std::io::Error,
        path: PathBuf,
    },
    #[error("the autoencoder's configuration is not sound: {reason}: {}", path.display())]
    Config { reason: String, path: PathBuf },
    #[error(transparent)]
    Weights(#[from] WeightsError),
}
