//! Wan 2.1 and 2.2.

use super::comfy::{ComfyNodes, ComfyVideoNodes};
use super::info::{FamilyInfo, RecipeKind, TemporalConvPolicy, TinyDecoderRules, readable_files};
use crate::formats::weights::WeightSet;
use crate::model::{StepCacheKind, detection_rules};

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "wan",
    label: "Wan",
    models: "Wan 2.1 or 2.2 text-to-video, image-to-video or VACE",
    makes_images: false,
    // As in diffusers' video-to-video pipeline, which is for models of text alone.
    video_strength: |variant| matches!(variant, "T2V" | "T2V-A14B" | "TI2V").then_some(0.8),
    // Those with published numbers.
    step_caches: |variant| match variant {
        "T2V" | "I2V" => &StepCacheKind::ALL,
        "T2V-A14B" | "I2V-A14B" | "TI2V" => StepCacheKind::WITH_MAGNITUDES,
        _ => StepCacheKind::OF_ANY_MODEL,
    },
    time_convolutions: TemporalConvPolicy::Fastest,
    recipe: RecipeKind::Videos,
    matrices_a_block: |width| {
        if width > 4000.0 {
            13.4
        } else if width > 2500.0 {
            17.3
        } else {
            19.7
        }
    },
    names: &[
        "wan2", "wanv2", "wanvideo", "want2v", "wani2v", "wanti2v", "wanmoe",
    ],
    // Relatives with inputs of their own, which no model of this family replaces.
    other_names: &[
        "alpha", "animate", "ati14b", "bernini", "camera", "control", "dancer", "humo", "i2vati",
        "mocha", "move", "phantom", "recam", "s2v", "scail", "talk", "void",
    ],
    wan2gp_types: &["t2v", "i2v", "ti2v_2_2", "flf2v", "fun_inp", "vace"],
    has_prompt_weights: true,
    kinds: detection_rules! {
        "wan" "transformer" "a Wan transformer": "condition_embedder.time_proj.weight", "patch_embedding.weight";
        "wan" "transformer" "a Wan transformer in the original layout":
            "time_projection.1.weight", "patch_embedding.weight";
        "wan" "transformer" "a Wan transformer in the original layout":
            "blocks.0.self_attn.q.weight", "patch_embedding.weight";
        "wan" "vae" "a Wan VAE" as WanVae: "decoder.norm_out.gamma";
        "wan" "vae" "a Wan VAE in the original layout" as WanVae: "decoder.middle.0.residual.0.gamma";
    },
    published_name,
    instead: readable_files! {
        "transformer" "VACE 1.3B": "wan2.1_vace_1.3B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
        "transformer" "VACE 14B": "wan2.1_vace_14B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
        "transformer" "T2V 1.3B": "wan2.1_t2v_1.3B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
        "transformer" "2.1 I2V": "wan2.1_i2v_480p_14B_fp8_scaled.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
        "transformer" "I2V A14B": "wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors and its low_noise from Comfy-Org/Wan_2.2_ComfyUI_Repackaged";
        "transformer" "TI2V 5B": "wan2.2_ti2v_5B_fp16.safetensors from Comfy-Org/Wan_2.2_ComfyUI_Repackaged";
        "transformer": "wan2.1_t2v_14B_fp8_scaled.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
        "vae": "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
    },
    tiny_decoder: TinyDecoderRules::of(&["taew", "wan"]),
    comfy: Some(&ComfyNodes {
        clip_type: "wan",
        text_encoders: &["umt5_xxl_fp8_e4m3fn_scaled.safetensors"],
        vae: "wan_2.1_vae.safetensors",
        latents: "EmptyHunyuanLatentVideo",
        shift: "ModelSamplingSD3",
        video: Some(ComfyVideoNodes {
            start_image: "WanImageToVideo",
            end_image: "WanFirstLastFrameToVideo",
            start_latents: "Wan22ImageToVideoLatent",
            start_latents_vae: "wan2.2_vae.safetensors",
            image_encoder: "clip_vision_h.safetensors",
        }),
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};

/// Published transformers differ in width and channels; two experts differ only in name.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["patch_embedding.weight"])?;
    let has_image_embedding = weights
        .tensors
        .keys()
        .any(|key| key.contains("img_emb.") || key.contains("image_embedder."));
    let has_control = weights
        .shape_by_end(&["vace_patch_embedding.weight"])
        .is_some();
    Some(match (shape.first()?, shape.get(1)?) {
        (1536, 16) if has_control => "Wan 2.1 VACE 1.3B",
        (5120, 16) if has_control => "Wan VACE 14B",
        (1536, 16) => "Wan 2.1 T2V 1.3B",
        (5120, 16) => "Wan T2V 14B",
        (5120, 36) if has_image_embedding => "Wan 2.1 I2V 14B",
        (5120, 36) => "Wan 2.2 I2V A14B",
        (3072, 48) => "Wan 2.2 TI2V 5B",
        _ => return None,
    })
}
