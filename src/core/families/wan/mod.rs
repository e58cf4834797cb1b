//! Wan 2.1 and 2.2: videos from text, from images, from other videos, and after control videos.

mod experts;
mod files;
mod memory;
mod names;
mod parts;
#[cfg(test)]
mod tests;
mod transformer;
mod variant;

use std::sync::Arc;

use variant::WanVariant;

use crate::families::prelude::*;
use crate::networks::{T5Config, T5Kind, WanTransformerConfig};

pub const FAMILY: ModelFamily = ModelFamily::WAN;

/// Tokens of a prompt, padding included.
pub const TEXT_TOKENS: u32 = 512;

pub(super) struct WanFamily;

impl SingleTransformerFamily for WanFamily {
    type Config = WanTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<WanTransformerConfig> = FamilyTable {
        refused: &[
            ("WanAnimatePipeline", "a Wan Animate model"),
            ("WanSpeechToVideoPipeline", "a Wan S2V model"),
            ("Wan", OTHER_PIPELINE),
            ("face_adapter", "a Wan Animate model"),
            ("pose_patch_embedding", "a Wan Animate model"),
            ("motion_encoder", "a Wan Animate model"),
            ("casual_audio_encoder", "a Wan S2V model"),
            ("audio_injector", "a Wan S2V model"),
            ("audio_proj", "a Wan model that listens to sound"),
            ("audio_cross_attn", "a Wan model that listens to sound"),
            ("control_adapter", "a Wan Fun-Control or camera model"),
            ("ref_conv", "a Wan Fun-Control model"),
            ("cam_", "a Wan camera model"),
            (
                "fps_embedding",
                "a SkyReels model with frames of different noise",
            ),
        ],
        vae: FamilyVae {
            wanted: parts::vae,
            ..FamilyVae::QWEN_IMAGE
        },
        text_encoders: &[TextEncoder {
            network: TextNetwork::T5(T5Kind::Umt5),
            name: "UMT5",
            limit: |_| TEXT_TOKENS,
            rule: TextRule::CleanedForWan,
            wanted: |config| parts::umt5_xxl(config.text_dim),
            published: |_| Some(Arc::new(T5Config::xxl(T5Kind::Umt5))),
            tokens: |_| f64::from(TEXT_TOKENS),
            weights: 5_700_000_000,
        }],
        image_encoder: |config| config.image_dim.map(parts::image_encoder),
        published: memory::published,
        needs: memory::needs,
        experts: Some(ExpertRules {
            check_folder: files::check_folder,
            assemble: experts::assemble,
            variant_at: transformer::variant_at,
            boundary_of: |name| {
                let is_i2v = name.contains("i2v");
                let experts = [WanVariant::T2V_A14B, WanVariant::I2V_A14B];
                experts[usize::from(is_i2v)].boundary_ratio
            },
        }),
        lora: LoraTable {
            signs: lora_signatures! {
                "wan" "Wan": "blocks_#_self_attn_", "blocks_#_cross_attn_", "blocks_#_ffn_", "blocks_#_attn1_", "blocks_#_attn2_";
            },
            accepts: |origin, _| origin == "wan",
            of_images: is_of_images,
            has_musubi: true,
            ..LoraTable::NONE
        },
        lora_models: || {
            let sizes = [
                ("Wan 1.3B", 12, 8960, 30),
                ("Wan 5B", 24, 14_336, 30),
                ("Wan 14B", 40, 13_824, 40),
            ];
            let models = sizes.map(|(label, num_attention_heads, ffn_dim, num_layers)| {
                let config = WanTransformerConfig {
                    num_attention_heads,
                    ffn_dim,
                    num_layers,
                    // Models with an image encoder have all layers of the others.
                    image_dim: Some(1280),
                    added_kv_proj_dim: Some(num_attention_heads * 128),
                    ..WanTransformerConfig::default()
                };
                (label, config)
            });
            models.into()
        },
        ..FamilyTable::DEFAULT
    };
}

/// Returns true if a layer of this name reads images.
fn is_of_images(name: &str) -> bool {
    let ends = [
        "_k_img",
        "_v_img",
        "_add_k_proj",
        "_add_v_proj",
        "_norm_added_k",
    ];
    let starts = ["img_emb_", "condition_embedder_image_embedder_"];
    ends.iter().any(|end| name.ends_with(end)) || starts.iter().any(|start| name.starts_with(start))
}
