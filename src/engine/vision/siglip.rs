//! SigLIP vision transformer: image encoder of FramePack (so400m, 384 pixels, patches of 14).
//!
//! Reads the names of `transformers`' `SiglipVisionModel` below any prefix; the other parts of a whole SigLIP are
//! ignored, including the pooling head: FramePack reads every patch. Reads images of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.
//!
//! Shapes: `N` images, `L` patches of each, `C` width, `H` heads of `D`.

use safelight_core::networks::{SiglipConfig, clip_vision, siglip};
use tch::Tensor;

use super::tower::VisionTower;
use crate::encoder_prefix;
use crate::hooks::Hooks;
use crate::weights::{Weights, WeightsError};

pub struct SiglipVisionEncoder(VisionTower);

impl SiglipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &SiglipConfig, w: &Weights) -> Result<Self, WeightsError> {
        VisionTower::new(config, &position(w)).map(Self)
    }

    /// Keys of the file that an image encoder does not have. Other parts of a whole SigLIP are expected; anything
    /// outside its prefix is ignored.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "logit_scale",
            "logit_bias",
            "vision_model.head.",
            "head.",
        ];
        let whole = prefix(weights).trim_end_matches(clip_vision::USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
    }

    /// Hidden states after the last layer and its norm, which FramePack reads.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, from a [processor](super::SiglipImageProcessor) that
    /// [fits](super::SiglipImageProcessor::check). Returns `(N, L, C)`; `None` when cancelled.
    pub fn encode_pictures(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let xs = self.0.encode(pixel_values, 0, hooks)?;
        Some(self.0.normed(&xs))
    }
}

/// The position from which a SigLIP's names count.
pub(super) fn position(w: &Weights) -> Weights {
    encoder_prefix::behind(prefix(w), w)
}

/// Prefix of the names, including `vision_model.`.
fn prefix(w: &Weights) -> &str {
    siglip::prefix(&w.keys()).unwrap_or(clip_vision::USUAL_PREFIX)
}
