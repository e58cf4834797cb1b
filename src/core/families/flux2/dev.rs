//! FLUX.2 dev, of 32 billion numbers with distilled guidance: images from text, from an image, inside a mask, and with
//! reference images.

use std::sync::Arc;

use super::{STATES, transformer_need};
use crate::families::parts::{MISTRAL_SMALL, language_model};
use crate::families::prelude::*;
use crate::networks::Flux2TransformerConfig;

pub const FAMILY: ModelFamily = ModelFamily::FLUX2_DEV;

/// The text encoder: Mistral Small 3, of which three hidden states are read side by side.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Mistral,
    tap: LanguageTap::States(&[10, 20, 30]),
};

/// The template around a prompt: `format_input` and `SYSTEM_MESSAGE` of diffusers' `Flux2Pipeline`, in Mistral's chat
/// template. The model was trained with the padding before it.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<s>[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured responses focusing on object relationships, object\nattribution and actions without speculation.[/SYSTEM_PROMPT][INST]",
    behind: "[/INST]",
    dropped: 0,
    ids_behind: 1,
    room: 512,
    padding: PromptPadding::Before,
    keeps_end: false,
    removed: "[IMG]",
};

/// Reference images at most, as the authors say.
const MAX_REFERENCES: u32 = 10;

pub(in crate::families) struct Flux2DevFamily;

impl SingleTransformerFamily for Flux2DevFamily {
    type Config = Flux2TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Flux2TransformerConfig> = FamilyTable {
        pipelines: &["Flux2Pipeline"],
        refused: &[("control", "a FLUX.2 ControlNet")],
        mark: Some("guidance_in.in_layer.weight"),
        variant: |config, _| {
            if !config.guidance_embeds {
                return Err("a FLUX.2 klein model".to_owned());
            }
            Ok(ModelVariant {
                guidance: GuidanceMode::Distilled,
                max_references: MAX_REFERENCES,
                ..ModelVariant::new("dev")
            })
        },
        vae: FamilyVae::FLUX2,
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Mistral",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = config.joint_attention_dim / STATES;
                language_model(MISTRAL_SMALL, LANGUAGE, (width, "joint_attention_dim / 3"))
            },
            published: |_| Some(Arc::new(LanguageConfig::mistral_small(LANGUAGE.tap))),
            tokens: |_| PROMPT.room as f64,
            // Of the thirty layers that are read.
            weights: 17_300_000_000,
        }],
        needs: |job, stage| {
            (stage == Stage::Denoise).then(|| [transformer_need(job, PROMPT.room), None])
        },
        lora: LoraTable {
            // Its layers are called as those of klein and, under the trainers' names, of FLUX.1: shapes tell them apart.
            accepts: |origin, _| matches!(origin, "flux2" | "flux"),
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}
