//! Anima.

use super::comfy::ComfyNodes;
use super::info::{FamilyInfo, TemporalConvPolicy, TinyDecoderRules, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "anima",
    label: "Anima",
    models: "Anima base, aesthetic or Turbo",
    names: &["anima"],
    other_names: &["animagine", "animal", "animat"],
    has_prompt_weights: true,
    matrices_a_block: |_| 16.7,
    kinds: detection_rules! {
        "anima" "transformer" "an Anima transformer": "llm_adapter.blocks.0.cross_attn.q_proj.weight";
    },
    // Published transformers differ only in name.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["x_embedder.proj.1.weight"])?;
        (shape == [2048, 68]).then_some("Anima 2B")
    },
    instead: readable_files! {
        "transformer": "anima-base-v1.0.safetensors from circlestone-labs/Anima";
    },
    // Those of Wan 2.1, which has the same latents.
    tiny_decoder: TinyDecoderRules::of(&["taew2_1", "taew", "wan"]),
    time_convolutions: TemporalConvPolicy::Fastest,
    comfy: Some(&ComfyNodes {
        clip_type: "stable_diffusion",
        text_encoders: &["qwen_3_06b_base.safetensors"],
        vae: "qwen_image_vae.safetensors",
        latents: "EmptyLatentImage",
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};
