//! CLIP vision transformer: image encoder of Wan 2.1 (ViT-H/14).
//!
//! Reads the names of `transformers`' `CLIPVisionModel` below any prefix; the other parts of a whole CLIP are ignored.
//! Has no projection and no dropout, and reads images of one size only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/clip/modeling_clip.py>.
//!
//! Shapes: `N` images, `P` patches of each, `L` = `P` + 1 tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::{ClipVisionConfig, clip_vision};
use tch::Tensor;

use super::tower::VisionTower;
use crate::encoder_prefix;
use crate::hooks::Hooks;
use crate::weights::{Weights, WeightsError};

pub struct ClipVisionEncoder(VisionTower);

/// Output of the whole network. Wan reads none of it.
pub struct ClipVisionOutput {
    /// `(N, L, C)`
    pub last_hidden_state: Tensor,
    /// `(N, C)`
    pub pooler_output: Tensor,
}

impl ClipVisionEncoder {
    /// `config` has been read, or is as sound.
    pub fn new(config: &ClipVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        VisionTower::new(config, &encoder_prefix::behind(prefix(w), w)).map(Self)
    }

    /// The keys of a file that an image encoder should not have. The other parts of a whole CLIP are expected.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = [
            "text_model.",
            "text_projection.",
            "visual_projection.",
            "logit_scale",
        ];
        let whole = prefix(weights).trim_end_matches(clip_vision::USUAL_PREFIX);
        encoder_prefix::left_over(whole, weights, &others)
    }

    /// Penultimate hidden states, which Wan reads.
    ///
    /// `pixel_values`: `(N, 3, image_size, image_size)`, from [`pixel_values`](super::pixel_values) with a processor
    /// that
    /// [fits](super::ClipImageProcessor::check). Returns `(N, L, C)`; `None` when cancelled.
    pub fn encode_pictures(&self, pixel_values: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        self.0.encode(pixel_values, 1, hooks)
    }

    /// The rest of the network, for the record. `xs`: what [`Self::encode_pictures`] gave
    pub fn finish(&self, xs: &Tensor) -> ClipVisionOutput {
        let (last_hidden_state, pooler_output) = self.0.last(xs);
        ClipVisionOutput {
            last_hidden_state,
            pooler_output,
        }
    }
}

/// Prefix of the names, including `vision_model.`.
fn prefix(w: &Weights) -> &str {
    clip_vision::prefix(w.keys()).unwrap_or(clip_vision::USUAL_PREFIX)
}
