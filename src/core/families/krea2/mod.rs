//! Krea 2 Turbo and Raw: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_VL_4B, language_model};
use crate::families::prelude::*;
use crate::networks::Krea2TransformerConfig;

pub const FAMILY: ModelFamily = ModelFamily::KREA2;

/// The text encoder: twelve hidden states of Qwen 3 VL; the last layer and the last norm are not read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::States(&[2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35]),
};

/// The template around a prompt. diffusers pads between the prompt and the words after it, and masks the padding
/// everywhere; here there is none.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, \
        spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    behind: "<|im_end|>\n<|im_start|>assistant\n",
    dropped: 34,
    ids_behind: 5,
    room: 512,
    padding: PromptPadding::None,
    keeps_end: true,
    removed: "",
};

/// The shift of Turbo's schedule for every image size: `exp(1.15)`, as in diffusers' pipeline.
const TURBO_SHIFT: f64 = 3.158_192_909_689_767;

pub(super) struct Krea2Family;

impl SingleTransformerFamily for Krea2Family {
    type Config = Krea2TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Krea2TransformerConfig> = FamilyTable {
        pipelines: &["Krea2Pipeline"],
        refused: &[("Krea2", OTHER_PIPELINE)],
        variant: |_, hints| Ok(ModelVariant::new(variant_by(hints))),
        vae: FamilyVae {
            class: None,
            ..FamilyVae::QWEN_IMAGE
        },
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3 VL",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = (config.text_hidden_dim, "text_hidden_dim");
                language_model(QWEN3_VL_4B, LANGUAGE, width)
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen3_4b(LANGUAGE.tap))),
            tokens: |_| PROMPT.length() as f64,
            weights: 4_000_000_000,
        }],
        complete: |_, _, facts| {
            if facts.variant.name == "Turbo" {
                facts.schedule = Some(SchedulerDefaults {
                    sampler: SamplerKind::Euler,
                    shift: Some(TURBO_SHIFT),
                });
            }
            Ok(())
        },
        needs: |job, stage| (stage == Stage::Denoise).then(|| [transformer_need(job), None]),
        lora: LoraTable {
            signs: lora_signatures! {
                "krea2" "Krea 2": "blocks_#_attn_w", "blocks_#_attn_gate", "blocks_#_mlp_gate", "blocks_#_mlp_up",
                    "blocks_#_mlp_down", "txtfusion_", "text_fusion_", "transformer_blocks_#_attn_to_gate",
                    "transformer_blocks_#_ff_gate", "transformer_blocks_#_ff_up", "transformer_blocks_#_ff_down";
            },
            accepts: |origin, _| origin == "krea2",
            has_musubi: true,
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// The variant that the pipeline of a folder states, else the first name that shows one: `krea2_raw_bf16`, `Krea-2-Base`.
/// Turbo where none does, as most finetunes are.
fn variant_by(hints: &VariantHints<'_>) -> &'static str {
    let said_by = |name: &str| {
        let words = model_words(name);
        let has = |word: &str| words.iter().any(|own| own == word);
        if name.to_lowercase().contains("turbo") {
            Some("Turbo")
        } else {
            (has("raw") || has("base")).then_some("Raw")
        }
    };
    match hints.is_distilled {
        Some(true) => "Turbo",
        Some(false) => "Raw",
        None => hints.first(said_by).unwrap_or("Turbo"),
    }
}

/// Besides the blocks there is the moment in which a text's states become one; the states stay.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<Krea2TransformerConfig>(PlannedNetwork::Transformer)?;
    let (size, block) = (job.number_bytes() as f64, config.block());
    let [heads, repeated_heads] = block.heads.map(|it| it as f64);
    let text = PROMPT.room as f64;
    let sequence = JointSequence {
        text,
        image: job.image_tokens(0.0),
        channels: config.in_channels as f64,
        dim: block.dim as f64,
        wide: block.wide as f64,
        head_dim: block.head_dim as f64,
        heads,
        repeated_heads,
        layers: config.num_layers as f64,
        modulations: 6.0 * config.num_layers as f64 + 2.0,
    };
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let fusion = fusion(config) * size + expanded;
    let states = (config.num_text_layers * config.text_hidden_dim) as f64;
    let states = f64::from(job.passes()) * text * states * size;
    Some(joint(job, network, &sequence, [fusion, states]))
}

/// Numbers of the worst moment among all states of a text: states, what goes in, and both wide layers, or the four
/// products of an attention with what comes of them.
fn fusion(config: &Krea2TransformerConfig) -> f64 {
    let shape = config.text_block();
    let rows = PROMPT.room as f64 * config.num_text_layers as f64;
    let [dim, wide] = [shape.dim, shape.wide].map(|it| it as f64);
    rows * (2.0 * dim + 2.0 * wide).max(8.0 * dim)
}
