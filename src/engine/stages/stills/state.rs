//! What the encoding of a given picture leaves for the stages behind it, on disk between processes.

use std::path::Path;

use tch::Tensor;

use crate::error::EngineError;
use crate::store::{self, Named};

/// A given picture in latents as the transformer has them, in f32.
#[derive(Debug)]
pub struct GivenImage {
    /// `(B, C, h, w)`, one for each picture that is made, or `(1, C, h', w')` in models that only see it
    pub latents: Tensor,
    /// What is made anew, 1 or 0 for each pixel: `(1, 1, H, W)`
    pub mask: Option<Tensor>,
    /// What the mask leaves of the picture, grey elsewhere: `(B, C, h, w)`
    pub masked: Option<Tensor>,
}

impl GivenImage {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("image_latents", &self.latents)];
        tensors.extend(self.mask.iter().map(|mask| ("mask", mask)));
        let masked = self.masked.iter();
        tensors.extend(masked.map(|masked| ("masked_image_latents", masked)));
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        Ok(Self {
            latents: stored.take("image_latents")?,
            mask: stored.find("mask"),
            masked: stored.find("masked_image_latents"),
        })
    }
}
