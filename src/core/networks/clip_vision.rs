//! CLIP's vision transformer (ViT-H/14): the image encoder of Wan 2.1.
//!
//! Has no projection. What it shares with SigLIP's is in `vision`.

use std::marker::PhantomData;

use super::clip_text::ClipActivation;
use super::header::prefix_before;
pub use super::vision::USUAL_PREFIX;
use super::vision::{PATCHES, VisionConfig, VisionKind};
use crate::formats::weights::WeightSet;

pub type ClipVisionConfig = VisionConfig<ClipVision>;

/// The kind of [`ClipVisionConfig`].
#[derive(Clone, Copy, Debug)]
pub enum ClipVision {}

impl VisionKind for ClipVision {
    const NAME: &'static str = "CLIP image encoder";
    const MODEL_TYPE: &'static str = "clip_vision_model";
    const HEAD_DIM: i64 = 80;
    const HAS_CLASS_TOKEN: bool = true;
    const READS_LAST_LAYER: bool = false;

    fn published() -> ClipVisionConfig {
        VisionConfig {
            model_type: String::new(),
            hidden_size: 1280,
            intermediate_size: 5120,
            num_hidden_layers: 32,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 224,
            patch_size: 14,
            layer_norm_eps: 1e-5,
            hidden_act: ClipActivation::Gelu,
            kind: PhantomData,
        }
    }

    fn prefix(weights: &WeightSet) -> Option<&str> {
        prefix(weights.names())
    }
}

/// Prefix of the names of a file's vision transformer, `vision_model.` included; `None` where there is none.
pub fn prefix<'a>(keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    prefix_before(keys, &[PATCHES])
}
