//! SigLIP's image preprocessing as in FramePack: values in [0, 1], resized and normalised.
//!
//! FramePack's pipeline passes the image already resized to the video's size, as floats rather than bytes. Bicubic
//! resizing then goes below 0 and above 1 and is not clamped: the model receives these values.

use std::path::Path;

use safelight_core::media::RgbPixels;
use serde_json::json;
use tch::Tensor;

use super::processor::{ClipImageProcessor, pixel_values};
use crate::error::EngineError;

/// Checked content of `preprocessor_config.json`.
#[derive(Clone, Debug)]
pub struct SiglipImageProcessor(ClipImageProcessor);

impl SiglipImageProcessor {
    /// Reads `preprocessor_config.json`, or the folder that has it; without a place, the values published with the
    /// so400m of 384 pixels.
    pub fn read(place: Option<&Path>) -> Result<Self, EngineError> {
        let published = json!({
            "size": {"height": 384, "width": 384},
            "do_center_crop": false,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        });
        ClipImageProcessor::read_over(place, published).map(Self)
    }

    /// As [`ClipImageProcessor::check`].
    pub fn check(&self, image_size: i64, place: &Path) -> Result<(), EngineError> {
        self.0.check(image_size, place)
    }

    /// Preprocesses an opened image, resized as bytes, as in pipelines that receive images.
    pub fn of_bytes(&self, picture: &RgbPixels) -> Result<Tensor, EngineError> {
        pixel_values(&picture.rgb, picture.width, picture.height, &self.0)
    }

    /// `picture`: `(1, 3, H, W)` in [-1, 1], f32 on the CPU, as the autoencoder gets it -> `(1, 3, 384, 384)` (or what
    /// else the processor says), mostly in [-1, 1]
    pub fn pixel_values(&self, picture: &Tensor) -> Result<Tensor, EngineError> {
        self.0.of_numbers((picture + 1.0) / 2.0)
    }
}
