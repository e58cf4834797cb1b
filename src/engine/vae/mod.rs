//! Autoencoders: pixels to latents and back, one folder per autoencoder.
//!
//! Knows neither prompts nor transformers nor files of pictures, and does not choose where a model lives.

mod causal;
mod doubling;
pub mod hunyuan;
pub mod kl;
mod pointwise;
pub(crate) mod slices;
mod tiles;
pub mod tiny;
mod toom;
mod trial;
pub mod wan;

use std::path::PathBuf;

use tch::Tensor;
use thiserror::Error;

use crate::weights::WeightsError;

pub use self::causal::ConvForm;
pub use self::hunyuan::{HunyuanVaeConfig, HunyuanVaeDecoder, HunyuanVaeEncoder};
pub use self::kl::{Bands, KlVaeConfig, KlVaeDecoder, KlVaeEncoder};
pub use self::tiles::{TileScheme, Tiling};
pub use self::tiny::TinyDecoder;
pub use self::trial::{TRIAL_LAYERS, Trial, TrialLayer, TrialRun};
pub use self::wan::{WanVaeConfig, WanVaeDecoder, WanVaeEncoder, denormalize, normalize};

/// What an encoder says about the latents, both of their size: a normal distribution for each number.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    /// The logarithm of the variance.
    pub logvar: Tensor,
}

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
