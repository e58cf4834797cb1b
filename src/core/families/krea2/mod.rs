//! Krea 2 Turbo and Raw: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_VL_4B, qwen};
use super::single::definition;
use super::table::{
    FamilyTable, FamilyVae, LoraTable, ModelVariant, SingleTransformerFamily, TextEncoder,
    TextNetwork, VariantHints,
};
use super::{FamilyDef, ModelFamily};
use crate::footprint::{PlannedJob, PlannedNetwork, StageFootprint};
use crate::library::names::model_words;
use crate::model::LoraSignature;
use crate::model::choices::SamplerKind;
use crate::model::facts::{SchedulerDefaults, TransformerShape};
use crate::networks::{
    Krea2TransformerConfig, LanguageConfig, LanguageKind, LanguageTap, LanguageUse,
};
use crate::tokens::{PromptTemplate, TextRule};

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
    is_padded: false,
    keeps_end: true,
};

/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of one token.
const PIXELS: f64 = 256.0;
/// The shift of Turbo's schedule for every image size: `exp(1.15)`, as in diffusers' pipeline.
const TURBO_SHIFT: f64 = 3.158_192_909_689_767;

pub(super) static DEF: FamilyDef = definition::<Krea2Family>();

enum Krea2Family {}

impl SingleTransformerFamily for Krea2Family {
    type Config = Krea2TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Krea2TransformerConfig> = FamilyTable {
        pipeline_prefixes: &["Krea2"],
        pipelines: &["Krea2Pipeline"],
        variant: |_, hints| Ok(ModelVariant::new(variant_by(hints))),
        shape: |config| TransformerShape {
            heads: config.num_attention_heads,
            head_dim: config.attention_head_dim,
            layers: config.num_layers,
            channels: config.in_channels,
        },
        vae: FamilyVae::QWEN_IMAGE,
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3 VL",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = (config.text_hidden_dim, "text_hidden_dim");
                qwen(QWEN3_VL_4B, LANGUAGE, width)
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen3_4b(LANGUAGE.tap))),
            tokens: |_| PROMPT.length() as f64,
            weights: 4_000_000_000,
        }],
        complete: |_, _, facts| {
            if facts.variant == "Turbo" {
                facts.schedule = Some(SchedulerDefaults {
                    sampler: SamplerKind::Euler,
                    shift: Some(TURBO_SHIFT),
                });
            }
            Ok(())
        },
        transformer_need,
        lora: LoraTable {
            network: |_| lora::NETWORK,
            signs: &[
                sign("blocks_#_attn_w"),
                sign("blocks_#_attn_gate"),
                sign("blocks_#_mlp_gate"),
                sign("blocks_#_mlp_up"),
                sign("blocks_#_mlp_down"),
                sign("txtfusion_"),
                sign("text_fusion_"),
                sign("transformer_blocks_#_attn_to_gate"),
                sign("transformer_blocks_#_ff_gate"),
                sign("transformer_blocks_#_ff_up"),
                sign("transformer_blocks_#_ff_down"),
            ],
            origins: &["krea2"],
            has_musubi: true,
            has_text_encoders: false,
        },
        ..FamilyTable::DEFAULT
    };
}

const fn sign(start: &'static str) -> LoraSignature {
    LoraSignature::of("krea2", "Krea 2", start)
}

/// LoRAs for Krea 2.
pub mod lora {
    use crate::lora::{ExtraNames, LoraTarget, of_transformer};
    use crate::networks::Krea2TransformerConfig;

    /// The transformer, in the names that readers ask with.
    pub const NETWORK: LoraTarget = LoraTarget::transformer("krea2", |_| {
        let config = Krea2TransformerConfig::default();
        of_transformer(&config, true, ExtraNames::default())
    });
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

/// The engine's `Block::forward`: the worst moment is in the feed-forward part (hidden states, what goes in, and both wide layers), in the attention
/// (hidden states, what goes in, the four products of that, keys and values for each head, and what comes of them), or
/// where a text's states become one.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<Krea2TransformerConfig>(PlannedNetwork::Transformer)?;
    let size = job.number_bytes() as f64;
    let block = config.block();
    let [dim, wide] = [block.dim, block.wide].map(|it| it as f64);
    let [heads, shared] = block.heads.map(|it| it as f64);
    let images = f64::from(job.request.batch_size.max(1));
    let tokens = f64::from(job.request.width) * f64::from(job.request.height) / PIXELS;
    let room = PROMPT.room as f64;
    let one = tokens + room;
    // On the CPU one goes after the other.
    let at_once = if job.is_on_gpu() { images } else { 1.0 };
    let hidden = at_once * one * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    // Hidden states, what goes in, queries, gates, what comes of them, and keys and values before and after their
    // being made as many as the queries.
    let attention =
        (7.0 + 2.0 * shared / heads) * hidden + (at_once * one * heads * 4.0).max(expanded);
    let feed_forward = 2.0 * hidden + 2.0 * at_once * one * wide * size + expanded;
    let fusion = fusion(config) * size + expanded;
    let passes = if job.request.is_guided() { 2 } else { 1 };
    let texts = f64::from(passes);
    let calls = f64::from(job.calls(1)).min(CALLS_AT_ONCE);
    // In f32: of each block, and of the last layer.
    let modulations = calls * (6.0 * config.num_layers as f64 + 2.0) * dim * 4.0;
    let angles = texts * one * (block.head_dim as f64 / 2.0) * 8.0;
    let states = config.num_text_layers as f64 * config.text_hidden_dim as f64;
    let text = texts * room * (dim + states) * size;
    let latents = images * tokens * config.in_channels as f64 * 4.0 * 8.0;
    let moment = attention.max(feed_forward).max(fusion);
    let kept = job.step_cache_bytes(images * one * dim * size, texts);
    let bytes = moment + modulations + angles + text + latents + kept;
    let shape = (dim, config.num_layers as f64);
    Some(StageFootprint {
        calls: job.calls(passes),
        operations: images * job.operations(PlannedNetwork::Transformer, one, shape),
        ..job.need(PlannedNetwork::Transformer, bytes)
    })
}

/// Numbers of the worst moment among all states of a text: states, what goes in, and both wide layers, or the four
/// products of an attention with what comes of them.
fn fusion(config: &Krea2TransformerConfig) -> f64 {
    let shape = config.text_block();
    let rows = PROMPT.room as f64 * config.num_text_layers as f64;
    let [dim, wide] = [shape.dim, shape.wide].map(|it| it as f64);
    rows * (2.0 * dim + 2.0 * wide).max(8.0 * dim)
}
