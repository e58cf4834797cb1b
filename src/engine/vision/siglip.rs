//! SigLIP's vision transformer: the image encoder of FramePack (so400m, 384 pixels, patches of 14).
//!
//! Reads the names of `transformers`' `SiglipVisionModel` behind whatever stands before them; the other parts of a whole
//! SigLIP are left alone, and so is the head that pools: FramePack reads every patch. Reads pictures of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/siglip/modeling_siglip.py>.
//!
//! Shapes: `N` pictures, `L` patches of each, `C` width, `H` heads of `D`.

use safelight_core::networks::{SiglipConfig, clip_vision, siglip};
use tch::Tensor;

use super::tower::VisionTower;
use crate::encoder_home;
use crate::hooks::Hooks;
use crate::weights::{Weights, WeightsError};

pub struct SiglipVisionEncoder(VisionTower);

impl SiglipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &SiglipConfig, w: &Weights) -> Result<Self, WeightsError> {
        VisionTower::new(config, &position(w)).map(Self)
    }

    /// The keys of a file that an image encoder should not have. The other parts of a whole SigLIP are expected, and
    /// what stands before its names belongs to it alone.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "logit_scale",
            "logit_bias",
            "vision_model.head.",
            "head.",
        ];
        let whole = prefix(weights).trim_end_matches(clip_vision::USUAL_PREFIX);
        encoder_home::left_over(whole, weights, &others)
    }

    /// What FramePack reads of pictures: the hidden states behind the last layer and its norm.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, of a [processor](super::SiglipImageProcessor) that
    /// [fits](super::SiglipImageProcessor::check) -> `(N, L, C)`; `None` when cancelled.
    pub fn encode_pictures(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let xs = self.0.encode(pixel_values, 0, hooks)?;
        Some(self.0.normed(&xs))
    }
}

/// The position from which a SigLIP's names count.
pub(super) fn position(w: &Weights) -> Weights {
    encoder_home::behind(prefix(w), w)
}

/// What stands before the names, `vision_model.` too.
fn prefix(w: &Weights) -> &str {
    siglip::prefix(&w.keys()).unwrap_or(clip_vision::USUAL_PREFIX)
}
