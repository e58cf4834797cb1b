//! Results of stages for later ones, on disk between processes: given images, and the frames shared by two sections.

use std::path::{Path, PathBuf};

use tch::Tensor;

use crate::error::EngineError;
use crate::tensor_files::{self, TensorFile};

/// Given pictures in latents as the transformer has them, `(1, C, 1, h, w)` each, in f32.
#[derive(Debug)]
pub struct GivenImages {
    pub start: Tensor,
    pub end: Option<Tensor>,
    /// The last frames of a clip that is gone on from, `(1, C, f, h, w)`.
    pub clip: Option<Tensor>,
}

impl GivenImages {
    /// Latents before the first section: this number of latent frames of the extended video, or the start.
    pub fn lead(&self, frames: i64) -> Tensor {
        match &self.clip {
            Some(clip) if (1..=clip.size()[2]).contains(&frames) => {
                clip.narrow(2, clip.size()[2] - frames, frames)
            }
            _ => self.start.shallow_clone(),
        }
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("image_latents", &self.start)];
        tensors.extend(self.end.iter().map(|end| ("last_image_latents", end)));
        tensors.extend(self.clip.iter().map(|clip| ("clip_latents", clip)));
        tensor_files::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = TensorFile::read(path)?;
        Ok(Self {
            start: stored.take("image_latents")?,
            end: stored.find("last_image_latents"),
            clip: stored.find("clip_latents"),
        })
    }
}

/// File of a section's frames that the next one is blended with: `(1, 3, n, H, W)`, as decoded.
pub fn overlap_file(folder: &Path, section: u32) -> PathBuf {
    folder.join(format!("overlap.{section:03}.safetensors"))
}
