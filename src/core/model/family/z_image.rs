//! Z-Image.

use super::comfy::ComfyNodes;
use super::info::{FamilyInfo, TinyDecoderRules, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "z_image",
    label: "Z-Image",
    models: "Z-Image Turbo or Base",
    names: &["zimage"],
    // Those of the four blocks before are spread over the thirty.
    matrices_a_block: |_| 13.9,
    kinds: detection_rules! {
        "z_image" "transformer" "a Z-Image transformer": "cap_pad_token", "all_x_embedder.2-1.weight";
        "z_image" "transformer" "a Z-Image transformer in the original layout": "cap_pad_token", "x_embedder.weight";
        "z_image" "controlnet" "a Z-Image ControlNet": "control_layers.0.attention_norm1.weight";
    },
    // Turbo and Base differ only in name.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["x_embedder.weight", "all_x_embedder.2-1.weight"])?;
        (shape.first()? == &3840).then_some("Z-Image 6B")
    },
    instead: readable_files! {
        "transformer": "z_image_turbo_bf16.safetensors from Comfy-Org/z_image_turbo, or z_image_bf16.safetensors from Comfy-Org/z_image";
    },
    tiny_decoder: TinyDecoderRules::FLUX,
    comfy: Some(&ComfyNodes {
        clip_type: "lumina2",
        text_encoders: &["qwen_3_4b.safetensors"],
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};
