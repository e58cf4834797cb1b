//! Image-to-image inside a mask, in models that were not trained to fill.

use tch::{Device, Kind, Tensor};

use super::latents::noised;
use crate::denoise::fits;

/// Original latents, noise and mask, blended back after each step: each in the form of the latents.
pub struct InpaintBlend {
    pub image: Tensor,
    pub noise: Tensor,
    /// 1 for what is denoised; may be one for all images and channels.
    pub mask: Tensor,
}

impl InpaintBlend {
    /// Applies `change` to all three tensors.
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            image: change(&self.image),
            noise: change(&self.noise),
            mask: change(&self.mask),
        }
    }

    /// Returns whether it belongs to latents of this size.
    pub fn fits(&self, size: &[i64]) -> bool {
        let mask = self.mask.size();
        let mut edges = mask.iter().zip(size);
        fits(&self.image, size)
            && fits(&self.noise, size)
            && mask.len() == size.len()
            && edges.all(|(found, wanted)| [1, *wanted].contains(found))
    }

    pub fn to_device(&self, device: Device) -> Self {
        self.map(|xs| xs.to_device(device).to_kind(Kind::Float))
    }

    /// `latents` with the original's outside the mask, noised to `sigma`.
    pub fn blend(&self, latents: &Tensor, sigma: f32) -> Tensor {
        let image = noised(&self.image, &self.noise, sigma);
        (1.0 - &self.mask) * image + &self.mask * latents
    }
}
