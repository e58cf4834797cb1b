//! FLUX.3 klein, distilled and base: images from text, from an image, inside a mask, and with reference images.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_VL_4B, language_model};
use crate::families::prelude::*;
use crate::networks::Flux3TransformerConfig;

pub const FAMILY: ModelFamily = ModelFamily::FLUX3;

/// The text encoder: Qwen 3 VL, of which eight hidden states are read side by side.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::States(&[4, 8, 12, 16, 20, 24, 28, 32]),
};

/// The template around a prompt. The model was trained with the padding after it.
pub const PROMPT: PromptTemplate = PromptTemplate {
    room: 8192,
    padding: PromptPadding::ToMultiple(80),
    ..QWEN_CHAT
};

/// Shift of the schedule for every image size.
pub const SHIFT: f64 = 6.93;

/// Pixels of a single reference image at most; of several each has at most a megapixel.
pub const SINGLE_REFERENCE_PIXELS: f64 = 4.0 * 1024.0 * 1024.0;

/// Hidden states of the text encoder in one token.
const STATES: i64 = 8;
/// Reference images at most, as the authors say.
const MAX_REFERENCES: u32 = 10;
const VIDEO: &str = "a FLUX.3 video model";

pub(super) struct Flux3Family;

impl SingleTransformerFamily for Flux3Family {
    type Config = Flux3TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Flux3TransformerConfig> = FamilyTable {
        pipelines: &["Flux3ModularPipeline", "Flux3DistilledModularPipeline"],
        refused: &[
            ("Flux3", OTHER_PIPELINE),
            ("video", VIDEO),
            ("control", "a FLUX.3 ControlNet"),
        ],
        variant: |config, _| {
            let name = if config.flow_map {
                "klein"
            } else {
                "klein base"
            };
            Ok(ModelVariant {
                max_references: MAX_REFERENCES,
                ..ModelVariant::new(name)
            })
        },
        vae: FamilyVae::FLUX2,
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3 VL",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = config.joint_attention_dim / STATES;
                let width = (width, "joint_attention_dim / 8");
                language_model(QWEN3_VL_4B, LANGUAGE, width)
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen3_4b(LANGUAGE.tap))),
            tokens: text_length,
            weights: 4_000_000_000,
        }],
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
                "flux3" "FLUX.3": "content_mode_blocks_image_", "mode_blocks_image_", "txt_mode_blocks_",
                    "single_blocks_#_" ["q_proj", "k_proj", "v_proj", "attn_out", "mlp_in", "mlp_out"],
                    "single_transformer_blocks_#_ff_" ["linear_in", "linear_out"];
            },
            accepts: |origin, _| origin == "flux3",
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// Tokens of the longer text with its padding, about: few texts have more than one for two bytes.
fn text_length(job: &PlannedJob<'_>) -> f64 {
    let request = job.request;
    let bytes = request.prompt.len().max(request.negative_prompt.len());
    PROMPT.padded(bytes / 2 + PROMPT.ids_behind) as f64
}

/// The worst moment is in a block, whose product is of queries, keys, values, gates and values of the feed-forward part:
/// hidden states, that product, what comes of the attention, and what goes out.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<Flux3TransformerConfig>(PlannedNetwork::Transformer)?;
    let references = match job.request.references.len() {
        1 => SINGLE_REFERENCE_PIXELS,
        several => several as f64 * REFERENCE_PIXELS,
    };
    let sequence = JointSequence {
        text: text_length(job),
        image: job.image_tokens(references),
        channels: config.in_channels as f64,
        dim: config.dim() as f64,
        wide: config.mlp_dim() as f64,
        head_dim: config.attention_head_dim as f64,
        heads: config.num_attention_heads as f64,
        repeated_heads: 0.0,
        layers: (config.num_layers + config.num_single_layers) as f64,
        // Three vectors of each mode for both kinds of blocks, and two of the last norm.
        modulations: 20.0,
    };
    let widths = 6.0 + 2.0 * config.mlp_ratio;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let moment = widths * sequence.hidden(job) + expanded;
    Some(joint(job, network, &sequence, [moment, 0.0]))
}
