//! Mixtures of image and noise that latents can be.

use safelight_core::networks::PredictionType;
use tch::Tensor;

/// Mixture of image and noise at a sigma. Samplers step in the velocity, the change of the latents with sigma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoiseSpace {
    /// `(1 - sigma) image + sigma noise`. Models predict the velocity.
    #[default]
    Flow,
    /// `image + sigma noise` (variance exploding). Models read latents of variance 1.
    Exploding(PredictionType),
}

impl NoiseSpace {
    /// Weight of the image at `sigma`; that of the noise is `sigma`.
    pub fn image_weight(self, sigma: f64) -> f64 {
        match self {
            Self::Flow => 1.0 - sigma,
            Self::Exploding(_) => 1.0,
        }
    }

    /// Ratio of noise to image.
    pub(super) fn ratio(self, sigma: f64) -> f64 {
        sigma / self.image_weight(sigma)
    }

    pub fn noised(self, image: &Tensor, noise: &Tensor, sigma: f32) -> Tensor {
        let sigma = f64::from(sigma);
        noise * sigma + image * self.image_weight(sigma)
    }

    /// Latents as the model reads them.
    pub fn model_latents(self, latents: &Tensor, sigma: f32) -> Tensor {
        match self {
            Self::Flow => latents.shallow_clone(),
            Self::Exploding(_) => latents / deviation(sigma),
        }
    }

    /// Velocity of a model's `prediction` for `latents`.
    pub fn velocity(self, prediction: Tensor, latents: &Tensor, sigma: f32) -> Tensor {
        match self {
            Self::Flow | Self::Exploding(PredictionType::Epsilon) => prediction,
            Self::Exploding(PredictionType::V) => {
                let deviation = deviation(sigma);
                prediction / deviation + latents * (f64::from(sigma) / deviation.powi(2))
            }
        }
    }
}

/// Standard deviation of exploding latents whose image has a variance of 1.
pub(super) fn deviation(sigma: f32) -> f64 {
    f64::from(sigma).hypot(1.0)
}
