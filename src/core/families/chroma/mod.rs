//! Chroma 1 HD, Base and Flash: pictures from text, from a picture, and inside a mask.

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
use crate::networks::KindRule;
use crate::networks::chroma_transformer::APPROXIMATOR;
use crate::tokens::{TextReader, TextRule};
use files::Chroma;
pub use memory::CALLS_AT_ONCE;

pub const FAMILY: Family = Family::new(&DEF);

/// Tokens of a prompt that T5 reads, padding included.
pub const TEXT_TOKENS: u32 = 512;

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "chroma",
    label: "Chroma",
    models: "Chroma1 HD, Base or Flash",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: false,
    guidance_is_cfg: true,
    step_caches: |_| StepCacheKind::OF_ANY_MODEL,
    token_limit: |_| Some(TEXT_TOKENS),
    time_convolutions: TimeConvolutions::None,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe: recipe_of_pictures,
    text_readers: |spec| vec![TextReader::first(spec, "T5", TEXT_TOKENS, TextRule::Plain)],
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // The encoder half of T5.
    text_encoder_weights: [4_800_000_000, 0],
    // FLUX.1's blocks without what makes their modulations, and one network that makes all of them.
    matrices_a_block: |_| 16.5,
    // Chroma 2 is built upon other models, and Radiance has no autoencoder.
    is_named: |name| {
        let others = ["radiance", "chroma2", "zetachroma"];
        name.contains("chroma") && !others.iter().any(|other| name.contains(other))
    },
    wan2gp_types: &[],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Chroma") || class.starts_with("ZetaChroma"),
        kinds: &[
            KindRule::transformer(
                "chroma",
                "a Chroma transformer in the original layout",
                &[APPROXIMATOR, "double_blocks.0.img_attn.qkv.weight"],
            ),
            KindRule::transformer("chroma", "a Chroma transformer", &[APPROXIMATOR]),
        ],
        published_name,
        instead: |kind| {
            let is_own = kind.role == "transformer" && kind.family == "chroma";
            is_own.then_some("Chroma1-HD.safetensors from lodestones/Chroma1-HD")
        },
        // FLUX.1's, whose latents these are.
        tiny_decoder: TinyDecoderRules {
            words: &["taef1", "flux"],
            is_f16: false,
        },
        ..rules::<Chroma>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size; they are told apart by name alone.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&[APPROXIMATOR])?;
    (shape.first()? == &5120).then_some("Chroma 8.9B")
}
