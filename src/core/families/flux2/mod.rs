//! FLUX.2 klein of 4 and of 9 billion numbers, distilled and base: images from text, from an image, inside a mask, and
//! with reference images.

pub mod dev;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_4B, QWEN3_8B, language_model};
use crate::families::prelude::*;
use crate::networks::Flux2TransformerConfig;

pub const FAMILY: ModelFamily = ModelFamily::FLUX2;

/// The text encoder: Qwen 3, of which three hidden states are read side by side.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::States(&[9, 18, 27]),
};

/// The template around a prompt: an answer that begins without a thought. The model was trained with the padding after it.
pub const PROMPT: PromptTemplate = PromptTemplate {
    behind: "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ids_behind: 9,
    padding: PromptPadding::After,
    ..QWEN_CHAT
};

/// Hidden states of the text encoder in one token.
const STATES: i64 = 3;
/// Width of the larger text encoder, and of the hidden states of the larger transformer.
const LARGE_FROM: i64 = 4096;
/// Reference images at most, as the authors say.
const MAX_REFERENCES: u32 = 4;
const DEV: &str = "a FLUX.2 dev model";
const KV: &str =
    "a FLUX.2 klein KV model, which keeps what it made of reference images (get FLUX.2 klein 9B)";

pub(super) struct Flux2Family;

impl SingleTransformerFamily for Flux2Family {
    type Config = Flux2TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Flux2TransformerConfig> = FamilyTable {
        pipelines: &["Flux2KleinPipeline", "Flux2KleinInpaintPipeline"],
        refused: &[
            ("Flux2KleinKVPipeline", KV),
            ("Flux2", OTHER_PIPELINE),
            ("guidance_in", DEV),
            ("guidance_embedder", DEV),
            ("control", "a FLUX.2 ControlNet"),
        ],
        variant,
        vae: FamilyVae::FLUX2,
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = config.joint_attention_dim / STATES;
                let is_large = width >= LARGE_FROM;
                let model = if is_large { QWEN3_8B } else { QWEN3_4B };
                language_model(model, LANGUAGE, (width, "joint_attention_dim / 3"))
            },
            published: |config| {
                let small = LanguageConfig::qwen3_4b(LANGUAGE.tap);
                if config.joint_attention_dim == STATES * small.hidden_size {
                    return Some(Arc::new(small));
                }
                Some(Arc::new(LanguageConfig::qwen3_8b(LANGUAGE.tap)))
            },
            tokens: |_| PROMPT.room as f64,
            // Of the smaller one; the larger models have one of 8 billion.
            weights: 4_000_000_000,
        }],
        published: |shape| {
            let small = Flux2TransformerConfig::klein_4b();
            if shape.heads <= small.num_attention_heads {
                return small;
            }
            Flux2TransformerConfig::klein_9b()
        },
        needs: |job, stage| {
            (stage == Stage::Denoise).then(|| [transformer_need(job, PROMPT.room), None])
        },
        lora: LoraTable {
            signs: lora_signatures! {
                "flux2" "FLUX.2": "double_stream_modulation", "single_stream_modulation",
                    "single_transformer_blocks_#_" ["to_qkv_mlp_proj"], "transformer_blocks_#_" ["linear_in", "linear_out"];
            },
            // Under the trainers' names its layers are called as FLUX.1's; shapes tell those apart.
            accepts: |origin, _| matches!(origin, "flux2" | "flux"),
            ..LoraTable::NONE
        },
        lora_models: || {
            vec![
                ("FLUX.2 klein 4B", Flux2TransformerConfig::klein_4b()),
                ("FLUX.2 klein 9B", Flux2TransformerConfig::klein_9b()),
            ]
        },
        ..FamilyTable::DEFAULT
    };
}

/// The variant: its size by the width, and distilled or base by the pipeline, else by the word `base` in a name. Distilled
/// where none shows it, as most finetunes are.
fn variant(
    config: &Flux2TransformerConfig,
    hints: &VariantHints<'_>,
) -> Result<ModelVariant, String> {
    if config.guidance_embeds {
        return Err(DEV.to_owned());
    }
    let has_word = |word: &str| {
        let mut all = hints.names.iter().flat_map(|name| model_words(name));
        all.any(|own| own == word)
    };
    if has_word("kv") {
        return Err(KV.to_owned());
    }
    let is_base = match hints.is_distilled {
        Some(is_distilled) => !is_distilled,
        None => has_word("base"),
    };
    let name = match (config.dim() >= LARGE_FROM, is_base) {
        (false, false) => "klein 4B",
        (false, true) => "klein 4B base",
        (true, false) => "klein 9B",
        (true, true) => "klein 9B base",
    };
    Ok(ModelVariant {
        max_references: MAX_REFERENCES,
        ..ModelVariant::new(name)
    })
}

/// Needs of the transformer after a text of `room` tokens.
fn transformer_need(job: &PlannedJob<'_>, room: usize) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<Flux2TransformerConfig>(PlannedNetwork::Transformer)?;
    let request = job.request;
    // A start image is in the sequence, as references are.
    let pixels = f64::from(request.width) * f64::from(request.height);
    let given = f64::from(u8::from(request.image.is_some())) * pixels;
    let references = request.references.len() as f64 * REFERENCE_PIXELS;
    let tokens = [room as f64, job.image_tokens(given + references)];
    let sequence = TokenSequence::of_images(job, tokens, config.in_channels, config.streams());
    Some(streams(job, network, &sequence))
}
