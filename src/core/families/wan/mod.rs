//! Wan 2.1 and 2.2: videos from text, from images, from other videos, and after control videos.

mod experts;
mod files;
pub mod lora;
mod memory;
mod names;
mod parts;
#[cfg(test)]
mod tests;
mod transformer;
mod variant;

use variant::WanVariant;

use crate::families::prelude::*;
use crate::networks::TransformerKeys;
use crate::tokens::TextReader;

pub const FAMILY: ModelFamily = ModelFamily::WAN;

/// Tokens of a prompt, padding included.
pub const TEXT_TOKENS: u32 = 512;

pub(super) static DEF: FamilyDef = FamilyDef {
    family: FAMILY,
    text_readers: |spec| {
        vec![TextReader::first(
            spec,
            "UMT5",
            TEXT_TOKENS,
            TextRule::CleanedForWan,
        )]
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // The encoder half of UMT5.
    text_encoder_weights: [5_700_000_000, 0],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Wan"),
        check_folder: files::check_folder,
        has_transformer: |weights| TransformerKeys::detect(|key| weights.has(key)).is_some(),
        assemble: |place, _, companions, library| experts::assemble(place, companions, library),
        variant_at: transformer::variant_at,
        are_experts: experts::are_experts,
        boundary_of: |name| {
            let is_i2v = name.contains("i2v");
            let experts = [WanVariant::T2V_A14B, WanVariant::I2V_A14B];
            experts[usize::from(is_i2v)].boundary_ratio
        },
        is_published_part: files::is_published_part,
        ships_tokenizers: false,
        image_prompts: None,
        control_network: |_, _| None,
        control_weights: None,
        control_lora: None,
    },
    lora: lora::RULES,
};
