//! Autoencoders: pixels to latents and back, one folder per autoencoder.
//!
//! Knows neither prompts nor transformers nor files of pictures, and does not choose where a model lives.

mod attention;
mod bias;
mod causal;
mod doubling;
pub mod hunyuan;
mod keys;
pub mod kl;
mod layer_trial;
mod level;
mod pointwise;
pub(crate) mod slices;
mod tiles;
pub mod tiny;
mod toom;
pub mod wan;

use tch::{Kind, Tensor};

use crate::capture::StageCapture;

pub use self::causal::ConvForm;
pub use self::hunyuan::{HunyuanVaeDecoder, HunyuanVaeEncoder};
pub use self::kl::{KlVaeDecoder, KlVaeEncoder, KlWay, RowBands};
pub use self::layer_trial::{LayerTrial, TRIAL_LAYERS, TrialLayer};
pub use self::tiles::{TileScheme, Tiling};
pub use self::tiny::TinyDecoder;
pub use self::wan::{WanVaeDecoder, WanVaeEncoder};

/// Normal distribution of the latents from the encoder; both tensors have the size of the latents.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    /// The logarithm of the variance.
    pub logvar: Tensor,
}

impl Posterior {
    /// `moments`: `(B, 2 C, ..)`, the means first
    fn from_moments(moments: &Tensor) -> Self {
        let channels = moments.size()[1] / 2;
        Self {
            mean: moments.narrow(1, 0, channels),
            // As diffusers limits it.
            logvar: moments.narrow(1, channels, channels).clamp(-30.0, 20.0),
        }
    }

    /// In f32, and recorded as that of a job's `number`-th picture.
    pub fn recorded(&self, number: usize, capture: &mut StageCapture) -> Self {
        let [mean, logvar] = [&self.mean, &self.logvar].map(|xs| xs.to_kind(Kind::Float));
        capture.put(format!("vae.encode.{number}.mean"), &mean);
        capture.put(format!("vae.encode.{number}.logvar"), &logvar);
        Self { mean, logvar }
    }

    /// Latents around the mean. `draws`: of the normal distribution, one for each of them
    pub fn sample(&self, draws: &Tensor) -> Tensor {
        let deviation = (&self.logvar * 0.5).exp();
        &self.mean + deviation * draws.to_device(self.mean.device())
    }
}
