//! FLUX.2 klein of 4 and of 9 billion numbers, distilled and base: pictures from text, from a picture, and inside a mask.

mod files;
pub mod lora;
mod memory;
mod parts;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use super::def::recipe_of_pictures;
use super::files::rules;
use super::{Family, FamilyDef, FileRules, TimeConvolutions};
use crate::formats::weights::WeightSet;
use crate::job::StepCacheKind;
use crate::networks::{KindRule, LanguageKind, LanguageTap, LanguageUse, PartKind};
use crate::tokens::{PromptTemplate, QWEN_CHAT, TextReader, TextRule};
use files::Flux2;

pub const FAMILY: Family = Family::new(&DEF);

/// The text encoder: Qwen 3, of which three states are read side by side.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::States(&[9, 18, 27]),
};

/// What stands around a prompt: an answer that begins without a thought. The model was trained with the padding behind.
pub const PROMPT: PromptTemplate = PromptTemplate {
    behind: "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ids_behind: 9,
    is_padded: true,
    ..QWEN_CHAT
};

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "flux2",
    label: "FLUX.2",
    models: "FLUX.2 klein 4B or 9B",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: true,
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
    // Qwen 3 of 4 billion; the larger models have one of 8.
    text_encoder_weights: [4_000_000_000, 0],
    // 26 in a block of two streams, 13 in one of one; what all share is shared out among them.
    matrices_a_block: |_| 16.5,
    is_named: |name| name.contains("klein"),
    wan2gp_types: &["flux2_klein"],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Flux2"),
        is_published_part: parts::is_published,
        kinds: &[
            KindRule::transformer(
                "flux2",
                "a FLUX.2 transformer in the original layout",
                &["double_stream_modulation_img.lin.weight"],
            ),
            KindRule::transformer(
                "flux2",
                "a FLUX.2 transformer",
                &["double_stream_modulation_img.linear.weight"],
            ),
            KindRule::new(
                "flux2",
                "vae",
                "a FLUX.2 VAE",
                &["bn.running_mean", "decoder.conv_in.weight"],
            )
            .of(PartKind::KlVae),
        ],
        published_name,
        instead: |kind| {
            (kind.family == "flux2").then_some(match kind.role {
                "vae" => parts::FLUX2_VAE,
                _ => {
                    "flux-2-klein-4b.safetensors from black-forest-labs/FLUX.2-klein-4B, or flux-2-klein-9b.safetensors from black-forest-labs/FLUX.2-klein-9B"
                }
            })
        },
        ..rules::<Flux2>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size; distilled and base are told apart by name alone.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["txt_in.weight", "context_embedder.weight"])?;
    Some(match (shape.first()?, shape.get(1)?) {
        (3072, 7680) => "FLUX.2 klein 4B",
        (4096, 12_288) => "FLUX.2 klein 9B",
        (6144, 15_360) => "FLUX.2 dev",
        _ => return None,
    })
}
