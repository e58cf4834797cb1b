//! Anima: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::Arc;

use super::parts::{QWEN3_06B, language_model};
use crate::families::prelude::*;
use crate::networks::dialects::TensorKeys;
use crate::networks::{AnimaAdapterConfig, AnimaTransformerConfig};

pub const FAMILY: ModelFamily = ModelFamily::ANIMA;

/// The language model, whose last hidden state is read after its norm.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::Last,
};

/// The bare prompt.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "",
    behind: "",
    ids_behind: 0,
    ..QWEN_CHAT
};

/// Shift of the schedule for every image size.
pub const SHIFT: f64 = 3.0;

/// A tensor of the text adapter.
const ADAPTER: &str = "llm_adapter.blocks.0.cross_attn.q_proj.weight";
const FILE: &str = "anima-base-v1.0.safetensors from circlestone-labs/Anima";

pub(super) struct AnimaFamily;

impl SingleTransformerFamily for AnimaFamily {
    type Config = AnimaTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<AnimaTransformerConfig> = FamilyTable {
        pipelines: &["AnimaModularPipeline"],
        refused: &[
            ("Anima", "an {family} model for {class}"),
            ("lllite", "an Anima ControlNet-LLLite"),
        ],
        mark: Some(ADAPTER),
        variant: |_, hints| Ok(ModelVariant::new(variant_by_names(hints))),
        vae: FamilyVae::QWEN_IMAGE,
        text_encoders: &[
            TextEncoder {
                network: TextNetwork::Language(LANGUAGE),
                name: "Qwen 3",
                limit: |_| PROMPT.room as u32,
                rule: TextRule::Within(&PROMPT),
                wanted: |config| {
                    let width = (config.text_embed_dim, "text_embed_dim");
                    language_model(QWEN3_06B, LANGUAGE, width)
                },
                published: |_| Some(Arc::new(LanguageConfig::qwen3_06b(LANGUAGE.tap))),
                tokens: |_| PROMPT.room as f64,
                weights: 600_000_000,
            },
            TextEncoder {
                network: TextNetwork::AnimaAdapter,
                name: "T5",
                limit: |_| PROMPT.room as u32,
                rule: TextRule::Plain,
                wanted: |config| adapter(config.text_embed_dim),
                published: |_| Some(Arc::new(AnimaAdapterConfig::default())),
                tokens: |_| PROMPT.room as f64,
                weights: 135_000_000,
            },
        ],
        complete: |_, _, facts| {
            facts.schedule.get_or_insert(SchedulerDefaults {
                sampler: SamplerKind::Euler,
                shift: Some(SHIFT),
            });
            Ok(())
        },
        needs: |job, stage| (stage == Stage::Denoise).then(|| [transformer_need(job), None]),
        lora: LoraTable {
            signs: lora_signatures! {
                "anima" "Anima": "llm_adapter_blocks_#_", "text_conditioner_blocks_#_",
                    "blocks_#_self_attn_" ["q_proj", "k_proj", "v_proj", "output_proj"],
                    "blocks_#_cross_attn_" ["q_proj", "k_proj", "v_proj", "output_proj"],
                    "blocks_#_adaln_modulation_", "blocks_#_mlp_layer";
            },
            // In diffusers' names the layers of blocks are called as in LTX-Video.
            accepts: |origin, _| matches!(origin, "anima" | "LTX-Video or a similar model"),
            has_text_encoders: true,
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// A model that a name calls Turbo is distilled to few steps.
fn variant_by_names(hints: &VariantHints<'_>) -> &'static str {
    let is_turbo = |name: &str| name.to_lowercase().contains("turbo").then_some("Turbo");
    hints.first(is_turbo).unwrap_or("Base")
}

/// The text adapter, which reads the language model's hidden states and gives embeddings, both of `width`.
fn adapter(width: i64) -> ComponentQuery<'static> {
    let what = "the text adapter of Anima";
    ComponentQuery {
        component: ModelComponent::TextEncoder2,
        part: PartKind::AnimaAdapter,
        what: what.to_owned(),
        kind: what,
        example: FILE,
        usual: &[],
        word: "anima",
        is_in: |weights| TensorKeys::<AnimaAdapterConfig>::detect(|key| weights.has(key)).is_some(),
        fits: Box::new(move |weights, place| {
            let config = AnimaAdapterConfig::read(place)?;
            for (key, found) in [
                ("source_dim", config.source_dim),
                ("target_dim", config.target_dim),
            ] {
                check_width([what, key], "text_embed_dim", [width, found], FILE, place)?;
            }
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of T5",
            example: "the folder t5_tokenizer of circlestone-labs/Anima-Base-v1.0-Diffusers",
            folders: &["t5_tokenizer", "tokenizer_2", "t5-xxl", "tokenizers/t5-xxl"],
            bundled: Some("t5-xxl"),
            form: TokenizerForm::Pieces,
            vocab_size: |place: &Path| Ok(AnimaAdapterConfig::read(place)?.target_vocab_size),
        }),
    }
}

/// The worst moment is in the feed-forward part or the attention of [`joint`] blocks without a gate, whose sequence is an
/// image alone; keys and values of a text are made in each block.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<AnimaTransformerConfig>(PlannedNetwork::Transformer)?;
    let sequence = JointSequence {
        text: 0.0,
        image: job.image_tokens(0.0),
        // Of two by two latents, and of the mask of padding.
        channels: 4.0 * (config.in_channels + 1) as f64,
        dim: config.dim() as f64,
        // One layer, where gated parts have two.
        wide: config.mlp_dim() as f64 / 2.0,
        head_dim: config.attention_head_dim as f64,
        heads: config.num_attention_heads as f64,
        repeated_heads: 0.0,
        layers: config.num_layers as f64,
        modulations: 9.0 * config.num_layers as f64 + 2.0,
    };
    let widths = f64::from(job.passes()) * config.text_embed_dim as f64 + 2.0 * sequence.dim;
    let text = PROMPT.room as f64 * widths * job.number_bytes() as f64;
    Some(joint(job, network, &sequence, [0.0, text]))
}
