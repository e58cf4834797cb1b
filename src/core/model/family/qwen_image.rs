//! Qwen-Image and Qwen-Image-Edit.

use super::comfy::{ComfyNodes, ComfyReferences};
use super::info::{FamilyInfo, TemporalConvPolicy, TinyDecoderRules, readable_files};
use crate::model::{StepCacheKind, detection_rules};

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "qwen_image",
    label: "Qwen-Image",
    models: "Qwen-Image or Qwen-Image-Edit",
    names: &["qwenimage", "qwenedit"],
    other_names: &["qwenimage21", "layered"],
    wan2gp_types: &["qwen_image"],
    has_dynamic_shift: true,
    step_caches: |_| StepCacheKind::WITH_MAGNITUDES,
    matrices_a_block: |_| 36.1,
    kinds: detection_rules! {
        "qwen_image" "controlnet" "a Qwen-Image ControlNet": "controlnet_x_embedder.weight", "txt_norm.weight";
        "qwen_image" "controlnet" "a Qwen-Image ControlNet": "controlnet_blocks.0.x_rms.weight";
        "qwen_image" "transformer" "a Qwen-Image transformer":
            "txt_norm.weight", "transformer_blocks.0.img_mod.1.weight";
    },
    // Published transformers of full size differ only in name.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["img_in.weight"])?;
        (shape.first()? == &3072).then_some("Qwen-Image 20B")
    },
    instead: readable_files! {
        "transformer": "qwen_image_2512_fp8_e4m3fn.safetensors from Comfy-Org/Qwen-Image_ComfyUI";
    },
    // Those of Wan 2.1, which has the same latents.
    tiny_decoder: TinyDecoderRules::of(&["taew", "wan"]),
    time_convolutions: TemporalConvPolicy::Fastest,
    comfy: Some(&ComfyNodes {
        clip_type: "qwen_image",
        text_encoders: &["qwen_2.5_vl_7b_fp8_scaled.safetensors"],
        vae: "qwen_image_vae.safetensors",
        // From 0.5 at 256 tokens to 0.9 at 8192.
        dynamic_shift: Some([0.5, 0.693_548]),
        schedule_note: Some("Its noise levels end at 0.02, and ComfyUI's at a lower one"),
        references: ComfyReferences::TextEncoder("TextEncodeQwenImageEditPlus"),
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};
