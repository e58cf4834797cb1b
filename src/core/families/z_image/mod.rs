//! Z-Image Turbo and Base: pictures from text, from a picture, and inside a mask.

mod control;
mod files;
pub mod lora;
mod memory;
mod parts;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use super::def::recipe_of_pictures;
use super::files::rules;
use super::{Family, FamilyDef, FileRules, TimeConvolutions, TinyDecoderRules};
use crate::formats::weights::WeightSet;
use crate::job::StepCacheKind;
use crate::networks::{KindRule, LanguageKind, LanguageTap, LanguageUse};
use crate::tokens::{PromptTemplate, QWEN_CHAT, TextReader, TextRule};
use files::ZImage;

pub const FAMILY: Family = Family::new(&DEF);

/// The text encoder: Qwen 3, of whose last layer and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::BeforeLast(1),
};

/// What stands around a prompt.
pub const PROMPT: PromptTemplate = QWEN_CHAT;

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "z_image",
    label: "Z-Image",
    models: "Z-Image Turbo or Base",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: false,
    guidance_is_cfg: true,
    step_caches: |_| StepCacheKind::OF_ANY_MODEL,
    token_limit: |_| None,
    time_convolutions: TimeConvolutions::None,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe: recipe_of_pictures,
    text_readers: |spec| {
        let (tokens, rule) = (PROMPT.room as u32, TextRule::Within(&PROMPT));
        vec![TextReader::first(spec, "Qwen 3", tokens, rule)]
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // Qwen 3 of 4 billion.
    text_encoder_weights: [4_000_000_000, 0],
    // Those of the four blocks that come before are shared out among the thirty.
    matrices_a_block: |_| 13.9,
    is_named: |name| name.contains("zimage"),
    wan2gp_types: &[],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("ZImage"),
        kinds: &[
            KindRule::transformer(
                "z_image",
                "a Z-Image transformer",
                &["cap_pad_token", "all_x_embedder.2-1.weight"],
            ),
            KindRule::transformer(
                "z_image",
                "a Z-Image transformer in the original layout",
                &["cap_pad_token", "x_embedder.weight"],
            ),
            KindRule::new(
                "z_image",
                "controlnet",
                "a Z-Image ControlNet",
                &["control_layers.0.attention_norm1.weight"],
            ),
        ],
        published_name,
        instead: |kind| {
            Some(match kind.role {
                "transformer" if kind.family == "z_image" => {
                    "z_image_turbo_bf16.safetensors from Comfy-Org/z_image_turbo, or z_image_bf16.safetensors from Comfy-Org/z_image"
                }
                _ => return None,
            })
        },
        // FLUX.1's, whose latents these are.
        tiny_decoder: TinyDecoderRules {
            words: &["taef1", "flux"],
            is_f16: false,
        },
        control_network: control::network,
        control_weights: Some(control::weights),
        ..rules::<ZImage>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size; Turbo and Base are told apart by name alone.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["x_embedder.weight", "all_x_embedder.2-1.weight"])?;
    (shape.first()? == &3840).then_some("Z-Image 6B")
}
