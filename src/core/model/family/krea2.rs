//! Krea 2.

use super::comfy::ComfyNodes;
use super::info::{FamilyInfo, TemporalConvPolicy, TinyDecoderRules, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "krea2",
    label: "Krea 2",
    models: "Krea 2 Turbo or Raw",
    names: &["krea2"],
    has_dynamic_shift: true,
    // Blocks that read text and timestep are spread over the twenty-eight.
    matrices_a_block: |_| 12.1,
    kinds: detection_rules! {
        "krea2" "transformer" "a Krea 2 transformer": "text_fusion.projector.weight";
        "krea2" "transformer" "a Krea 2 transformer in the original layout": "txtfusion.projector.weight";
    },
    published_name: |weights| {
        let shape = weights.shape_by_end(&["tproj.1.weight", "time_mod_proj.weight"])?;
        (shape.get(1)? == &6144).then_some("Krea 2 12B")
    },
    instead: readable_files! {
        "transformer": "krea2_turbo_fp8_scaled.safetensors or krea2_turbo_bf16.safetensors from Comfy-Org/Krea-2";
    },
    // Those of Wan 2.1, which has the same latents.
    tiny_decoder: TinyDecoderRules::of(&["taew2_1", "taew", "wan"]),
    time_convolutions: TemporalConvPolicy::Fastest,
    comfy: Some(&ComfyNodes {
        clip_type: "krea2",
        text_encoders: &["qwen3vl_4b_fp8_scaled.safetensors"],
        vae: "qwen_image_vae.safetensors",
        latents: "EmptyLatentImage",
        shift: "ModelSamplingFlux",
        // From 0.5 at 256 tokens to 1.15 at 6400.
        dynamic_shift: Some([0.5, 0.906_25]),
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};
