//! Chroma 1.

use super::comfy::ComfyNodes;
use super::info::{FamilyInfo, TinyDecoderRules, readable_files};
use crate::model::detection_rules;

/// Tokens of a prompt that T5 reads, padding included.
pub const CHROMA_TOKENS: u32 = 512;
/// Tensor of the approximator, which only Chroma has.
const MARK: &str = "distilled_guidance_layer.in_proj.weight";

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "chroma",
    label: "Chroma",
    models: "Chroma1 HD, Base or Flash",
    names: &["chroma"],
    // Chroma 2 is built upon other models, and Radiance has no autoencoder.
    other_names: &["radiance", "chroma2", "zetachroma"],
    token_limit: |_| Some(CHROMA_TOKENS),
    // FLUX.1's blocks without layers for modulations, and one network that makes all modulations.
    matrices_a_block: |_| 16.5,
    has_prompt_weights: true,
    kinds: detection_rules! {
        "chroma" "transformer" "a Chroma transformer in the original layout":
            MARK, "double_blocks.0.img_attn.qkv.weight";
        "chroma" "transformer" "a Chroma transformer": MARK;
    },
    published_name: |weights| {
        let shape = weights.shape_by_end(&[MARK])?;
        (shape.first()? == &5120).then_some("Chroma 8.9B")
    },
    instead: readable_files! {
        "transformer": "Chroma1-HD.safetensors from lodestones/Chroma1-HD";
    },
    tiny_decoder: TinyDecoderRules::FLUX,
    comfy: Some(&ComfyNodes {
        clip_type: "chroma",
        text_encoders: &["t5xxl_fp16.safetensors"],
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};
