//! Qwen-Image 2.1, base and Turbo: images from text, from an image, inside a mask, and with reference images.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_VL_8B, language_model};
use crate::families::prelude::*;
use crate::footprint::text::language;
use crate::networks::{Qwen3VisionConfig, QwenImage21TransformerConfig};

pub const FAMILY: ModelFamily = ModelFamily::QWEN_IMAGE_21;

/// The text encoder: Qwen 3 VL, whose last hidden state is read before its norm.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::BeforeLast(0),
};

/// Beginning of [`PROMPT`] that the model does not read.
pub const SYSTEM: &str =
    "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n";

/// The template around a prompt, and around the [`image_words`] before it.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n<|im_start|>user\n",
    dropped: 14,
    room: 1024,
    ..QWEN_CHAT
};

/// Placeholder of an image's tokens.
pub const IMAGE_MARK: &str = "<|image_pad|>";

/// Words before a prompt about a number of reference images.
pub fn image_words(images: usize) -> String {
    let words = |number| format!("<image{number}><|vision_start|>{IMAGE_MARK}<|vision_end|>");
    let all: Vec<String> = (1..=images).map(words).collect();
    all.join(" ")
}

/// Reference images at most, as the authors say.
const MAX_REFERENCES: u32 = 10;
/// Tokens that the text encoder sees of a reference image.
const SEEN_TOKENS: f64 = 1024.0;
/// Sigmas that Turbo was distilled to.
const TURBO_SIGMAS: [f32; 8] = [
    1.0, 0.978_453, 0.954_18, 0.926_626, 0.895_08, 0.845_148, 0.704_534, 0.414_568,
];
const TURBO: &str = "Turbo";
/// The model that Turbo was distilled from.
const BASE: &str = "2.1";

pub(super) struct QwenImage21Family;

impl SingleTransformerFamily for QwenImage21Family {
    type Config = QwenImage21TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<QwenImage21TransformerConfig> = FamilyTable {
        pipelines: &["QwenImage21Pipeline"],
        refused: &[
            ("QwenImage21", OTHER_PIPELINE),
            ("control", "a Qwen-Image 2.1 ControlNet"),
        ],
        variant: |_, hints| Ok(variant(hints)),
        vae: FamilyVae::QWEN_IMAGE_21,
        text_encoders: &[TextEncoder {
            network: TextNetwork::VisionLanguage(LANGUAGE),
            name: "Qwen 3 VL",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = (config.context_in_dim, "context_in_dim");
                language_model(QWEN3_VL_8B, LANGUAGE, width)
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen3_8b(LANGUAGE.tap))),
            tokens: text_length,
            weights: 8_190_000_000,
        }],
        sample_sigmas: |variant| (variant == TURBO).then_some(&TURBO_SIGMAS[..]),
        complete: |_, files, facts| {
            if files.sample_sigmas.is_some() {
                facts.schedule = Some(SchedulerDefaults {
                    sampler: SamplerKind::Euler,
                    shift: Some(1.0),
                });
            }
            Ok(())
        },
        needs: |job, stage| match stage {
            Stage::EncodeText => Some(encode_text(job)),
            Stage::Denoise => Some([transformer_need(job), None]),
            _ => None,
        },
        lora: LoraTable {
            signs: lora_signatures! {
                "qwen_image_21" "Qwen-Image 2.1": "transformer_blocks_#_img_mlp_gate", "transformer_blocks_#_img_mlp_proj",
                    "transformer_blocks_#_img_mlp_out", "txt_in_in_layer", "txt_in_out_layer";
            },
            accepts: |origin, _| origin == "qwen_image_21",
            has_musubi: true,
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// The variant that the pipeline states, else Turbo where a name says so.
fn variant(hints: &VariantHints<'_>) -> ModelVariant {
    let says = |name: &str| name.to_lowercase().contains("turbo").then_some(true);
    let is_turbo = hints.is_distilled.or_else(|| hints.first(says));
    let name = if is_turbo == Some(true) { TURBO } else { BASE };
    ModelVariant {
        max_references: MAX_REFERENCES,
        ..ModelVariant::new(name)
    }
}

fn references(job: &PlannedJob<'_>) -> f64 {
    job.request.references.len() as f64
}

fn text_length(job: &PlannedJob<'_>) -> f64 {
    PROMPT.length() as f64 + references(job) * SEEN_TOKENS
}

/// Looks at reference images first, where there are any, and reads the texts after them.
fn encode_text(job: &PlannedJob<'_>) -> StageNeeds {
    let seen = references(job) * SEEN_TOKENS;
    let looks = job
        .configured::<Qwen3VisionConfig>(PlannedNetwork::ImageEncoder)
        .filter(|_| seen > 0.0)
        .map(|(_, config)| {
            let [width, wide] = [config.hidden_size, config.intermediate_size].map(|it| it as f64);
            let patches = seen * config.merged() as f64;
            let numbers = patches * (8.0 * width + 2.0 * wide);
            let bytes = numbers * job.number_bytes() as f64 + patches * width * 16.0;
            job.need(PlannedNetwork::ImageEncoder, bytes)
        });
    [
        looks,
        language(job, PlannedNetwork::TextEncoder, text_length(job)),
    ]
}

/// The image's tokens see those of text and references by keys and values that every block keeps.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<QwenImage21TransformerConfig>(PlannedNetwork::Transformer)?;
    let size = job.number_bytes() as f64;
    let dim = config.dim() as f64;
    let heads = config.num_attention_heads as f64;
    let reference = job.image_tokens(REFERENCE_PIXELS) - job.image_tokens(0.0);
    let prefix = PROMPT.room as f64 + references(job) * reference;
    let sequence = JointSequence {
        text: prefix,
        image: job.image_tokens(0.0),
        channels: config.in_channels as f64,
        dim,
        wide: config.inner_dim() as f64,
        head_dim: config.attention_head_dim as f64,
        heads,
        repeated_heads: heads,
        layers: config.num_layers as f64,
        modulations: 6.0,
    };
    let kept = f64::from(job.passes()) * 2.0 * prefix * dim * config.num_layers as f64 * size;
    Some(joint(job, network, &sequence, [0.0, kept]))
}
