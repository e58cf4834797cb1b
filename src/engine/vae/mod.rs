//! Autoencoders: pixels to latents and back, one folder per autoencoder.

mod attention;
mod causal;
mod doubling;
pub mod hunyuan;
mod keys;
pub mod kl;
mod layer_trial;
pub mod ltx2;
mod pixel_patches;
mod pointwise;
pub(crate) mod slices;
mod tiles;
pub mod tiny;
mod toom;
pub mod wan;

use tch::{Kind, Tensor};

use crate::capture::StageCapture;
use crate::weights::WeightsError;

pub use self::causal::ConvForm;
pub use self::hunyuan::{HunyuanVaeDecoder, HunyuanVaeEncoder};
pub(crate) use self::kl::norm::GroupNorm;
pub use self::kl::{KlVaeDecoder, KlVaeEncoder, KlWay, RowBands};
pub use self::layer_trial::{LayerTrial, TRIAL_LAYERS, TrialLayer};
pub use self::ltx2::{LatentScaling, LatentUpscaler, Ltx2VaeDecoder, Ltx2VaeEncoder};
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

    /// In f32, and recorded as that of a job's `number`-th image.
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

#[derive(Debug)]
struct ResolutionLevel<B, S> {
    blocks: Vec<B>,
    step: Option<S>,
}

impl<B, S> ResolutionLevel<B, S> {
    /// `count` blocks, the first of which is as wide as what comes `before`, and all the others as the level itself.
    fn new(
        count: i64,
        [before, own]: [i64; 2],
        block: impl Fn(i64, [i64; 2]) -> Result<B, WeightsError>,
        step: Option<Result<S, WeightsError>>,
    ) -> Result<Self, WeightsError> {
        let blocks = (0..count).map(|i| block(i, [if i == 0 { before } else { own }, own]));
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            step: step.transpose()?,
        })
    }

    /// `xs` through `block` with each block and `step` with the step; `None` when cancelled.
    fn forward<X>(
        &self,
        mut xs: X,
        block: impl Fn(&B, X) -> Option<X>,
        step: impl FnOnce(&S, X) -> Option<X>,
    ) -> Option<X> {
        for own in &self.blocks {
            xs = block(own, xs)?;
        }
        match &self.step {
            Some(own) => step(own, xs),
            None => Some(xs),
        }
    }
}
