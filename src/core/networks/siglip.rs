//! SigLIP's vision transformer (so400m, 384 pixels, patches of 14): the image encoder of FramePack.
//!
//! Its pooling head is not read: every patch is. What it shares with CLIP's is in `vision`.

use std::marker::PhantomData;

use super::clip_text::ClipActivation;
use super::clip_vision;
use super::vision::{VisionConfig, VisionKind};
use crate::formats::weights::WeightSet;

pub type SiglipConfig = VisionConfig<Siglip>;

/// The kind of [`SiglipConfig`].
#[derive(Clone, Copy, Debug)]
pub enum Siglip {}

impl VisionKind for Siglip {
    const NAME: &'static str = "SigLIP image encoder";
    const MODEL_TYPE: &'static str = "siglip_vision_model";
    const HEAD_DIM: i64 = 72;
    const HAS_CLASS_TOKEN: bool = false;
    const READS_LAST_LAYER: bool = true;

    fn published() -> SiglipConfig {
        VisionConfig {
            model_type: String::new(),
            hidden_size: 1152,
            intermediate_size: 4304,
            num_hidden_layers: 27,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 384,
            patch_size: 14,
            layer_norm_eps: 1e-6,
            hidden_act: ClipActivation::GeluTanh,
            kind: PhantomData,
        }
    }

    fn prefix(weights: &WeightSet) -> Option<&str> {
        prefix(&weights.names())
    }
}

/// Prefix of a file's SigLIP, including `vision_model.`; `None` without one, and for CLIP, which has a class token.
pub fn prefix<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
    let prefix = clip_vision::prefix(keys.clone())?;
    let of_video = ["embeddings.class_embedding", "pre_layrnorm.weight"];
    let of_video = of_video.map(|name| format!("{prefix}{name}"));
    let is_video = keys
        .clone()
        .any(|key| of_video.iter().any(|name| name == key));
    (!is_video).then_some(prefix)
}
