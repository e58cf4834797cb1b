//! Z-Image Turbo and Base: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::{QWEN3_4B, language_model};
use crate::families::prelude::*;
use crate::footprint::streams::modulated_calls;
use crate::networks::{ZImageControlConfig, ZImageTransformerConfig};

pub const FAMILY: ModelFamily = ModelFamily::Z_IMAGE;

/// The text encoder: Qwen 3, of whose last layer and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::BeforeLast(1),
};

pub const PROMPT: PromptTemplate = QWEN_CHAT;

/// Turbo's published shift is 3, Base's 6.
const SHIFT_OF_BASE_FROM: f64 = 4.5;
const OMNI: &str = "a Z-Image Omni model";
const CONTROL: &str = "a Z-Image ControlNet";

pub(super) struct ZImageFamily;

impl SingleTransformerFamily for ZImageFamily {
    type Config = ZImageTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<ZImageTransformerConfig> = FamilyTable {
        pipelines: &[
            "ZImagePipeline",
            "ZImageImg2ImgPipeline",
            "ZImageInpaintPipeline",
        ],
        refused: &[
            ("ZImageOmniPipeline", OMNI),
            ("ZImageControlNet", CONTROL),
            ("ZImage", OTHER_PIPELINE),
            ("siglip_", OMNI),
            ("control_", CONTROL),
        ],
        variant: |config, hints| {
            if config.siglip_feat_dim.is_some() {
                return Err(OMNI.to_owned());
            }
            Ok(ModelVariant {
                controls: ControlUse::NETWORKS,
                ..ModelVariant::new(variant_by_names(hints))
            })
        },
        vae: FamilyVae::FLUX,
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                language_model(QWEN3_4B, LANGUAGE, (config.cap_feat_dim, "cap_feat_dim"))
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen3_4b(LANGUAGE.tap))),
            tokens: |_| PROMPT.room as f64,
            weights: 4_000_000_000,
        }],
        complete: |config, _, facts| {
            complete(config, facts);
            Ok(())
        },
        needs: |job, stage| (stage == Stage::Denoise).then(|| [transformer_need(job), None]),
        // alibaba-pai's union, whose versions the header shows.
        control_nets: Some(ControlNets {
            find: |weights, place| {
                control_net(weights, place, |_: &ZImageControlConfig| ControlNetwork {
                    family: FAMILY,
                    label: "Z-Image ControlNet",
                    kinds: &[],
                    takes_masks: false,
                })
            },
            footprint: NetworkFootprint::read::<ZImageControlConfig>,
        }),
        lora: LoraTable {
            signs: lora_signatures! {
                "z_image" "Z-Image": "layers_#_attention_", "layers_#_feed_forward_", "layers_#_adaLN_modulation_",
                    "noise_refiner_#_", "context_refiner_#_";
            },
            accepts: |origin, _| origin == "z_image",
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// The first name that shows a variant: `z_image_turbo_bf16`, `Z-Image-Base`, or the published name of Base, `z_image`
/// alone. Turbo where none does, as most finetunes are.
fn variant_by_names(hints: &VariantHints<'_>) -> &'static str {
    let said_by = |name: &str| {
        let lower = name.to_lowercase();
        let words = model_words(name);
        let is_bare = words == ["image", "z"] || words == ["zimage"];
        if lower.contains("turbo") {
            Some("Turbo")
        } else {
            (lower.contains("base") || is_bare).then_some("Base")
        }
    };
    hints.first(said_by).unwrap_or("Turbo")
}

/// A folder's own scheduler decides the variant before names do, and the transformer's tables of positions limit edges.
fn complete(config: &ZImageTransformerConfig, facts: &mut ModelFacts) {
    if let Some(shift) = facts.schedule.and_then(|schedule| schedule.shift) {
        let is_base = shift >= SHIFT_OF_BASE_FROM;
        facts.variant.name = if is_base { "Base" } else { "Turbo" };
    }
    let [_, rows, columns] = config.axes_lens;
    let most = u32::try_from(rows.min(columns)).unwrap_or(u32::MAX);
    facts.limits.max_edge = most.saturating_mul(facts.limits.size_multiple);
}

/// Blocks that read the text alone modulate nothing; ControlNets add bytes and blocks.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<ZImageTransformerConfig>(PlannedNetwork::Transformer)?;
    let (dim, size) = (config.dim as f64, job.number_bytes() as f64);
    let layers = (config.n_layers + config.n_refiner_layers) as f64;
    let mut sequence = JointSequence {
        // Those of the padding are few.
        text: PROMPT.room as f64,
        image: job.image_tokens(0.0),
        channels: config.token_numbers() as f64,
        dim,
        wide: config.ffn_dim() as f64,
        head_dim: config.head_dim() as f64,
        heads: config.n_heads as f64,
        repeated_heads: 0.0,
        layers,
        modulations: layers * 4.0 + 2.0,
    };
    let hidden = sequence.hidden(job);
    let mut added = 0.0;
    for (_, control) in job.weights.controls::<ZImageControlConfig>() {
        let blocks = control.control_layers_places.len() as f64 + control.n_refiner_layers as f64;
        let modulations = modulated_calls(job) * blocks * 4.0 * dim * 4.0;
        // Its own hidden states go along with the transformer's; the image's tokens stay.
        added += hidden + sequence.image * dim * size + modulations;
        // Each of them has a layer of its width squared more.
        sequence.layers += blocks;
    }
    if added > 0.0 {
        // The output of a control block before it is added, and the hidden states before the noise refiner.
        added += hidden;
    }
    Some(joint(job, network, &sequence, [0.0, added]))
}
