//! Qwen-Image 2.1.

use super::info::{FamilyInfo, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "qwen_image_21",
    label: "Qwen-Image 2.1",
    models: "Qwen-Image 2.1",
    names: &["qwenimage21"],
    wan2gp_types: &["qwen_image_21"],
    has_dynamic_shift: true,
    matrices_a_block: |_| 13.0,
    kinds: detection_rules! {
        "qwen_image_21" "transformer" "a Qwen-Image 2.1 transformer": "txt_in.text_norm.weight";
    },
    // Published transformers differ only in name.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["img_in.weight"])?;
        (shape.first()? == &4096).then_some("Qwen-Image 2.1 7B")
    },
    instead: readable_files! {
        "vae": "qwen_image_2.1_vae_bf16.safetensors from Comfy-Org/Qwen-Image-2.1";
        "transformer": "qwen_image_2.1_bf16.safetensors or qwen_image_2.1_int8_convrot.safetensors from Comfy-Org/Qwen-Image-2.1";
    },
    ..FamilyInfo::IMAGES
};
