//! Z-Image Turbo and Base: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::Arc;

use super::parts::{QWEN3_4B, qwen};
use super::single::definition;
use super::table::{
    FamilyTable, FamilyVae, LoraTable, ModelVariant, SingleTransformerFamily, TextEncoder,
    TextNetwork, VariantHints,
};
use super::{FamilyDef, FileRules, ModelFamily};
use crate::footprint::{NetworkFootprint, PlannedJob, PlannedNetwork, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::library::ControlNetwork;
use crate::library::names::model_words;
use crate::model::facts::{ModelFacts, TransformerShape};
use crate::model::{CatalogError, ControlUse, LoraSignature};
use crate::networks::{
    LanguageConfig, LanguageKind, LanguageTap, LanguageUse, NetworkConfig as _, SchedulerConfig,
    ZImageControlConfig, ZImageControlKeys, ZImageTransformerConfig,
};
use crate::tokens::{PromptTemplate, QWEN_CHAT, TextRule};

pub const FAMILY: ModelFamily = ModelFamily::Z_IMAGE;

/// The text encoder: Qwen 3, of whose last layer and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::BeforeLast(1),
};

pub const PROMPT: PromptTemplate = QWEN_CHAT;

/// Turbo's published shift is 3, Base's 6.
const SHIFT_OF_BASE_FROM: f64 = 4.5;
/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of one token.
const PIXELS: f64 = 256.0;
const OMNI: &str = "a Z-Image Omni model";
const CONTROL: &str = "a Z-Image ControlNet";

pub(super) static DEF: FamilyDef = FamilyDef {
    files: FileRules {
        control_network,
        control_weights: Some(NetworkFootprint::read::<ZImageControlConfig>),
        ..definition::<ZImageFamily>().files
    },
    ..definition::<ZImageFamily>()
};

enum ZImageFamily {}

impl SingleTransformerFamily for ZImageFamily {
    type Config = ZImageTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<ZImageTransformerConfig> = FamilyTable {
        pipeline_prefixes: &["ZImage"],
        pipelines: &[
            "ZImagePipeline",
            "ZImageImg2ImgPipeline",
            "ZImageInpaintPipeline",
        ],
        refused_pipelines: &[("ZImageOmniPipeline", OMNI), ("ZImageControlNet", CONTROL)],
        foreign_parts: &[("siglip_", OMNI), ("control_", CONTROL)],
        variant: |config, hints| {
            if config.siglip_feat_dim.is_some() {
                return Err(OMNI.to_owned());
            }
            Ok(ModelVariant {
                controls: ControlUse::NETWORKS,
                ..ModelVariant::new(variant_by_names(hints))
            })
        },
        shape: |config| TransformerShape {
            heads: config.n_heads,
            head_dim: config.head_dim(),
            layers: config.n_layers,
            channels: config.in_channels,
        },
        vae: FamilyVae::FLUX,
        vae_class: Some("AutoencoderKL"),
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Qwen 3",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| qwen(QWEN3_4B, LANGUAGE, (config.cap_feat_dim, "cap_feat_dim")),
            published: |_| Some(Arc::new(LanguageConfig::qwen3_4b(LANGUAGE.tap))),
            tokens: |_| PROMPT.room as f64,
            weights: 4_000_000_000,
        }],
        shift: SchedulerConfig::stated_shift,
        complete: |config, _, facts| {
            complete(config, facts);
            Ok(())
        },
        transformer_need,
        lora: LoraTable {
            network: |_| lora::NETWORK,
            signs: &[
                sign("layers_#_attention_"),
                sign("layers_#_feed_forward_"),
                sign("layers_#_adaLN_modulation_"),
                sign("noise_refiner_#_"),
                sign("context_refiner_#_"),
            ],
            origins: &["z_image"],
            has_musubi: false,
            has_text_encoders: false,
        },
        ..FamilyTable::DEFAULT
    };
}

const fn sign(start: &'static str) -> LoraSignature {
    LoraSignature::of("z_image", "Z-Image", start)
}

/// LoRAs for Z-Image.
pub mod lora {
    use crate::lora::{ExtraNames, LoraTarget, RowShare, of_transformer};
    use crate::networks::ZImageTransformerConfig;

    /// The transformer, in the authors' names.
    pub const NETWORK: LoraTarget = LoraTarget::transformer("z_image", |_| {
        let extra = ExtraNames {
            // Some tools leave out the number of diffusers' name.
            layers: &[("attention.out", "attention.to_out", RowShare::All)],
            has_bare_norms: false,
        };
        of_transformer(&ZImageTransformerConfig::default(), true, extra)
    });
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
        facts.variant = if is_base { "Base" } else { "Turbo" };
    }
    let [_, rows, columns] = config.axes_lens;
    let most = u32::try_from(rows.min(columns)).unwrap_or(u32::MAX);
    facts.limits.max_edge = most.saturating_mul(facts.limits.size_multiple);
}

/// Checks a ControlNet at a place: alibaba-pai's union, whose versions the header shows.
fn control_network(
    weights: &WeightSet,
    place: &Path,
) -> Option<Result<ControlNetwork, CatalogError>> {
    let read = || {
        ZImageControlConfig::read(place)?.check_weights(weights)?;
        Ok(ControlNetwork {
            family: FAMILY,
            label: "Z-Image ControlNet",
            kinds: &[],
            takes_masks: false,
        })
    };
    let keys = ZImageControlKeys::detect(|key| weights.has(key));
    keys.is_some().then(read)
}

/// Memory and time that a ControlNet adds to a step.
struct ControlCost {
    bytes: f64,
    /// Blocks as wide as the transformer's.
    layers: f64,
}

/// Tokens of a text at most.
fn text_length() -> f64 {
    PROMPT.room as f64
}

/// The worst moment is in the feed-forward part (hidden states, what goes in, and both wide layers) or in the attention
/// (hidden states, what goes in, queries, keys, values and what comes of them).
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<ZImageTransformerConfig>(PlannedNetwork::Transformer)?;
    let size = job.number_bytes() as f64;
    let [dim, wide, heads] = [config.dim, config.ffn_dim(), config.n_heads].map(|it| it as f64);
    let images = f64::from(job.request.batch_size.max(1));
    let tokens = f64::from(job.request.width) * f64::from(job.request.height) / PIXELS;
    // Those of the padding are few.
    let one = tokens + text_length();
    // On the CPU one goes after the other.
    let at_once = if job.is_on_gpu() { images } else { 1.0 };
    let hidden = at_once * one * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let attention = 7.0 * hidden + (at_once * one * heads * 4.0).max(expanded);
    let feed_forward = 2.0 * hidden + 2.0 * at_once * one * wide * size + expanded;
    let passes = if job.request.is_guided() { 2 } else { 1 };
    let texts = f64::from(passes);
    let calls = f64::from(job.calls(1)).min(CALLS_AT_ONCE);
    let told = (config.n_layers + config.n_refiner_layers) as f64;
    let modulations = calls * (told * 4.0 + 2.0) * dim * 4.0;
    let angles = texts * one * (config.head_dim() as f64 / 2.0) * 8.0;
    let text = texts * text_length() * dim * size;
    let latents = images * tokens * config.token_numbers() as f64 * 4.0 * 8.0;
    let kept = job.step_cache_bytes(images * one * dim * size, texts);
    let moment = attention.max(feed_forward);
    let controls = job.weights.controls::<ZImageControlConfig>();
    let controls: Vec<ControlCost> = controls
        .map(|(_, control)| {
            let layers = control.control_layers_places.len() as f64;
            let refiners = control.n_refiner_layers as f64;
            ControlCost {
                // Its own hidden states go along with the transformer's; the image's tokens stay.
                bytes: hidden + tokens * dim * size + calls * (layers + refiners) * 4.0 * dim * 4.0,
                // Each of them has a layer of its width squared more.
                layers: layers + refiners,
            }
        })
        .collect();
    // The output of a control block before it is added, and the hidden states before the noise refiner.
    let joined = if controls.is_empty() { 0.0 } else { hidden };
    let control = joined + controls.iter().map(|it| it.bytes).sum::<f64>();
    let bytes = moment + modulations + angles + text + latents + kept + control;
    let beside: f64 = controls.iter().map(|it| it.layers).sum();
    let shape = (
        dim,
        (config.n_layers + config.n_refiner_layers) as f64 + beside,
    );
    Some(StageFootprint {
        calls: job.calls(passes),
        operations: images * job.operations(PlannedNetwork::Transformer, one, shape),
        ..job.need(PlannedNetwork::Transformer, bytes)
    })
}
