//! SDXL and its finetunes.

use super::info::{FamilyInfo, TinyDecoderRules, readable_files};
use crate::model::{DetectionRule, PartKind, StepCacheKind};

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "sdxl",
    label: "SDXL",
    models: "SDXL base and inpainting, and finetunes such as Illustrious, NoobAI and Pony",
    names: &[
        "sdxl",
        "illustrious",
        "noobai",
        "ponydiffusion",
        "animagine",
    ],
    other_names: &["refiner"],
    has_shift: false,
    has_prompt_weights: true,
    has_prompt_chunks: true,
    floors_steps: true,
    // Blocks are no list of one width, whose first could tell of a step.
    step_caches: |_| &[StepCacheKind::TaylorSeer],
    // By the width of the last level, residual blocks included.
    matrices_a_block: |_| 22.4,
    kinds: &[
        DetectionRule::new(
            "sdxl",
            "transformer",
            "an SDXL U-Net in the original layout",
            &[
                "label_emb.0.0.weight",
                "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight",
            ],
        ),
        DetectionRule::new(
            "sdxl",
            "transformer",
            "an SDXL U-Net",
            &[
                "add_embedding.linear_1.weight",
                "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight",
            ],
        ),
        DetectionRule {
            size: Some(("decoder.conv_in.weight", 1, 4)),
            part: Some(PartKind::KlVae),
            ..DetectionRule::new(
                "sdxl",
                "vae",
                "an SDXL or Stable Diffusion VAE",
                &["decoder.conv_in.weight"],
            )
        },
    ],
    instead: readable_files! {
        "vae": "sdxl_vae.safetensors from stabilityai/sdxl-vae";
        "transformer": "sd_xl_base_1.0.safetensors from stabilityai/stable-diffusion-xl-base-1.0";
    },
    tiny_decoder: TinyDecoderRules::of(&["taesdxl", "sdxl"]),
    ..FamilyInfo::IMAGES
};
