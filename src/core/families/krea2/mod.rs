//! Krea 2 Turbo and Raw: pictures from text, from a picture, and inside a mask.

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
use crate::tokens::{PromptTemplate, TextReader, TextRule};
use files::Krea2;

pub const FAMILY: Family = Family::new(&DEF);

/// The text encoder: twelve states of Qwen 3 VL, of whose last layer and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::States(&[2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35]),
};

/// What stands around a prompt. diffusers pads between the prompt and the words behind it, and hides the padding from
/// everything; here there is none.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, \
        spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    behind: "<|im_end|>\n<|im_start|>assistant\n",
    dropped: 34,
    ids_behind: 5,
    room: 512,
    is_padded: false,
    keeps_end: true,
};

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "krea2",
    label: "Krea 2",
    models: "Krea 2 Turbo or Raw",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: true,
    guidance_is_cfg: true,
    step_caches: |_| StepCacheKind::OF_ANY_MODEL,
    token_limit: |_| None,
    time_convolutions: TimeConvolutions::Fastest,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe: recipe_of_pictures,
    text_readers: |spec| {
        let (tokens, rule) = (PROMPT.room as u32, TextRule::Within(&PROMPT));
        vec![TextReader::first(spec, "Qwen 3 VL", tokens, rule)]
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // Qwen 3 VL of 4 billion.
    text_encoder_weights: [4_000_000_000, 0],
    // Those that read text and timestep are shared out among the twenty-eight.
    matrices_a_block: |_| 12.1,
    is_named: |name| name.contains("krea2"),
    wan2gp_types: &[],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Krea2"),
        kinds: &[
            KindRule::transformer(
                "krea2",
                "a Krea 2 transformer",
                &["text_fusion.projector.weight"],
            ),
            KindRule::transformer(
                "krea2",
                "a Krea 2 transformer in the original layout",
                &["txtfusion.projector.weight"],
            ),
        ],
        published_name,
        instead: |kind| {
            Some(match kind.role {
                "transformer" if kind.family == "krea2" => {
                    "krea2_turbo_fp8_scaled.safetensors or krea2_turbo_bf16.safetensors from Comfy-Org/Krea-2"
                }
                _ => return None,
            })
        },
        // Those of Wan 2.1, whose latents these are.
        tiny_decoder: TinyDecoderRules {
            words: &["taew2_1", "taew", "wan"],
            is_f16: false,
        },
        ..rules::<Krea2>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size; Turbo and Raw are told apart by name alone.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["tproj.1.weight", "time_mod_proj.weight"])?;
    (shape.get(1)? == &6144).then_some("Krea 2 12B")
}
