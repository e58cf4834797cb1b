//! Autoencoders: pixels to latents and back, one folder per autoencoder.
//!
//! Knows neither prompts nor transformers nor files of pictures, and does not choose where a model lives.

mod attention;
mod causal;
mod doubling;
pub mod hunyuan;
mod keys;
pub mod kl;
mod level;
mod pointwise;
pub(crate) mod slices;
mod tiles;
pub mod tiny;
mod toom;
mod trial;
pub mod wan;

use tch::Tensor;

pub use self::causal::ConvForm;
pub use self::hunyuan::{HunyuanVaeDecoder, HunyuanVaeEncoder};
pub use self::kl::{Bands, KlVaeDecoder, KlVaeEncoder};
pub use self::tiles::{TileScheme, Tiling};
pub use self::tiny::TinyDecoder;
pub use self::trial::{TRIAL_LAYERS, Trial, TrialLayer, TrialRun};
pub use self::wan::{WanVaeDecoder, WanVaeEncoder};

/// What an encoder says about the latents, both of their size: a normal distribution for each number.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    /// The logarithm of the variance.
    pub logvar: Tensor,
}

impl Posterior {
    /// `moments`: `(B, 2 C, ..)`, the means first
    fn of(moments: &Tensor) -> Self {
        let channels = moments.size()[1] / 2;
        Self {
            mean: moments.narrow(1, 0, channels),
            // As diffusers limits it.
            logvar: moments.narrow(1, channels, channels).clamp(-30.0, 20.0),
        }
    }
}
