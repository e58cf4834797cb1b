//! FramePack.

use super::info::{FamilyInfo, RecipeKind, TemporalConvPolicy, TinyDecoderRules, readable_files};
use crate::model::{StepCacheKind, detection_rules};

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "framepack",
    label: "FramePack",
    models: "FramePack or FramePack F1",
    names: &["framepack"],
    has_dynamic_shift: true,
    guidance_is_cfg: false,
    step_caches: |_| &StepCacheKind::ALL,
    // Twenty double blocks and forty single ones.
    matrices_a_block: |_| 22.3,
    has_prompt_weights: true,
    kinds: detection_rules! {
        "framepack" "transformer" "a FramePack transformer": "clean_x_embedder.proj.weight";
        "hunyuan" "transformer" "a HunyuanVideo transformer":
            "context_embedder.time_text_embed.timestep_embedder.linear_1.weight";
        "hunyuan" "transformer" "a HunyuanVideo transformer":
            "txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight";
        "hunyuan" "transformer" "a HunyuanVideo transformer":
            "txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight";
        "hunyuan" "vae" "a HunyuanVideo VAE" as VideoVae: "decoder.conv_in.conv.weight";
        "hunyuan" "vae" "a HunyuanVideo VAE" as VideoVae: "encoder.conv_in.conv.weight";
    },
    instead: readable_files! {
        "transformer": "FramePackI2V_HY_fp8_e4m3fn.safetensors from Kijai/HunyuanVideo_comfy";
    },
    tiny_decoder: TinyDecoderRules {
        words: &["taehv", "taehy", "hunyuan", "framepack"],
        is_f16: true,
    },
    makes_images: false,
    has_second_pass: false,
    time_convolutions: TemporalConvPolicy::FrameByFrame,
    // bf16 would lose two bits of every pixel, and no value in it exceeds f16.
    vae_in_f16: true,
    trained_sizes: &TRAINED_SIZES,
    recipe: RecipeKind::Sections,
    ..FamilyInfo::IMAGES
};

/// Trained sizes, width and height: about 640 × 640 in all shapes.
const TRAINED_SIZES: [(u32, u32); 14] = [
    (960, 416),
    (864, 448),
    (832, 480),
    (768, 512),
    (704, 544),
    (672, 576),
    (640, 608),
    (608, 640),
    (576, 672),
    (544, 704),
    (512, 768),
    (480, 832),
    (448, 864),
    (416, 960),
];
