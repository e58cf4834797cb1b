//! FLUX.2 dev, of 32 billion numbers with distilled guidance: images from text, from an image, inside a mask, and with
//! reference images.

use std::sync::Arc;

use super::transformer_need;
use crate::families::prelude::*;
use crate::networks::{Flux2TransformerConfig, LanguageKeys};

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

/// Hidden states of the text encoder in one token.
const STATES: i64 = 3;
/// Reference images at most, as the authors say.
const MAX_REFERENCES: u32 = 10;
const MISTRAL: &str = "mistral_3_small_flux2_fp8.safetensors from Comfy-Org/flux2-dev";

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
            wanted: |config| mistral(config.joint_attention_dim / STATES),
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

/// The text encoder, with hidden states of `width` numbers.
fn mistral(width: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::TextEncoder,
        part: PartKind::Llama,
        what: "a Mistral Small 3 text encoder".to_owned(),
        kind: "a Mistral text encoder",
        example: MISTRAL,
        usual: &[
            "mistral_3_small_flux2_bf16",
            "mistral_3_small_flux2_fp8",
            "Mistral-Small-3.2-24B-Instruct-2506",
            "text_encoder",
        ],
        word: "mistral",
        is_in: |weights| {
            let found = LanguageKeys::of(&weights.names());
            found.is_some_and(|keys| keys.kind == LanguageKind::Llama)
        },
        fits: Box::new(move |weights, place| {
            let config = LANGUAGE.read(place)?;
            let what = ["a Mistral text encoder", "hidden_size"];
            let widths = [width, config.hidden_size];
            check_width(what, "joint_attention_dim / 3", widths, MISTRAL, place)?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of Mistral Small 3",
            example: "the folder tokenizer from black-forest-labs/FLUX.2-dev",
            folders: &["tokenizer", "mistral", "tokenizers/mistral"],
            bundled: None,
            form: TokenizerForm::Tekken,
            vocab_size: |place| Ok(LANGUAGE.read(place)?.vocab_size),
        }),
    }
}
