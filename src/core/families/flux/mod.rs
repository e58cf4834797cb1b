//! FLUX.1: images from text, from an image, inside a mask, along a depth map or edges, and as a prompt says next to a
//! reference image.

pub mod control;
pub mod lora;
mod redux;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use std::sync::Arc;

use super::def::{LoraSignature, SharedLoraNames, TinyDecoderRules};
use super::parts::{clip_l, t5_xxl};
use super::single::definition;
use super::table::{
    FamilyTable, FamilyVae, LoraTable, SingleTransformerFamily, TextEncoder, stream_shape,
};
use super::{FamilyDef, FileRules, LoraRules, ModelFamily};
use crate::formats::weights::WeightSet;
use crate::job::{Stage, StepCacheKind};
use crate::memory::streams::{TokenSequence, add_controls, streams};
use crate::memory::text::{redux, seen_tokens, siglip};
use crate::memory::{NetworkFootprint, PlannedJob, PlannedNetwork, StageFootprint};
use crate::model::{GuidanceMode, ModelComponent};
use crate::networks::{
    ClipTextConfig, DetectionRule, FluxControlConfig, FluxTransformerConfig, PartKind, ReduxConfig,
    SiglipConfig,
};

pub const FAMILY: ModelFamily = ModelFamily::new(&DEF);

/// Pixels of a reference image, about.
const REFERENCE_PIXELS: f64 = 1048576.0;
/// Pixels of one token.
const PIXELS: f64 = 256.0;

/// Tokens of a prompt that T5 reads: 512 in guidance-distilled models, 256 in schnell, which was distilled to few
/// steps and to short prompts.
pub fn text_tokens(guidance: GuidanceMode) -> u32 {
    match guidance {
        GuidanceMode::None => 256,
        GuidanceMode::Cfg | GuidanceMode::Distilled => 512,
    }
}

pub(super) static DEF: FamilyDef = FamilyDef {
    files: FileRules {
        picture_prompts: Some(redux::picture_prompts),
        control_network: control::network,
        control_weights: Some(NetworkFootprint::read::<FluxControlConfig>),
        control_lora: Some(lora::with_control),
        ..definition::<FluxFamily>().files
    },
    lora: LoraRules {
        objection: lora::objection,
        shared_names: Some(&SHARED_LORA_NAMES),
        ..definition::<FluxFamily>().lora
    },
    ..definition::<FluxFamily>()
};

enum FluxFamily {}

impl SingleTransformerFamily for FluxFamily {
    type Config = FluxTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<FluxTransformerConfig> = FamilyTable {
        id: "flux",
        label: "Flux",
        models: "FLUX.1 dev, schnell, Fill, Kontext, Depth or Canny",
        names: &["flux"],
        // FLUX.2 and Chroma Radiance are other networks, of which nothing can be restored.
        other_names: &["flux2", "chroma"],
        has_dynamic_shift: true,
        guidance_is_cfg: false,
        step_caches: &StepCacheKind::ALL,
        token_limit: |guidance| Some(text_tokens(guidance)),
        // Nineteen double blocks and thirty-eight single ones.
        matrices_a_block: 22.3,
        // FLUX.2's are tried before.
        pipeline_prefixes: &["Flux"],
        pipelines: &[
            "FluxPipeline",
            "FluxImg2ImgPipeline",
            "FluxInpaintPipeline",
            "FluxFillPipeline",
            "FluxControlPipeline",
            "FluxControlImg2ImgPipeline",
            "FluxKontextPipeline",
            "FluxKontextInpaintPipeline",
        ],
        refused_pipelines: &[
            ("FluxPriorReduxPipeline", "a Flux Redux model"),
            ("FluxControlNet", "a Flux ControlNet model"),
        ],
        foreign_parts: &[
            ("distilled_guidance_layer", "a Chroma model"),
            ("individual_token_refiner", "a HunyuanVideo model"),
            ("controlnet_", "a Flux ControlNet"),
            ("pulid_ca", "a Flux model with PuLID in it"),
        ],
        kinds: KINDS,
        published_name,
        instead: &[
            (
                "transformer",
                "flux1-dev-fp8.safetensors from Comfy-Org/flux1-dev, or flux1-schnell-fp8.safetensors from Comfy-Org/flux1-schnell",
            ),
            (
                "vae",
                "ae.safetensors from black-forest-labs/FLUX.1-schnell",
            ),
        ],
        tiny_decoder: TinyDecoderRules::FLUX,
        variant: variant::variant,
        shape: |config| stream_shape(&config.streams(), config.in_channels),
        vae: FamilyVae::FLUX,
        vae_class: Some("AutoencoderKL"),
        text_encoders: &[
            TextEncoder::clip_l(
                |config| clip_l(ModelComponent::TextEncoder, config.pooled_projection_dim),
                |config| {
                    Some(Arc::new(ClipTextConfig {
                        hidden_size: config.pooled_projection_dim,
                        intermediate_size: 4 * config.pooled_projection_dim,
                        num_attention_heads: 12,
                        ..ClipTextConfig::default()
                    }))
                },
            ),
            TextEncoder::t5_xxl(
                |config| t5_xxl(ModelComponent::TextEncoder2, config.joint_attention_dim),
                text_tokens,
                text_length,
            ),
        ],
        // All have the same blocks; those that fill have wider tokens.
        published: |shape| FluxTransformerConfig {
            in_channels: shape.channels,
            out_channels: Some(variant::NOISE),
            guidance_embeds: true,
            ..FluxTransformerConfig::default()
        },
        more_networks: |files, reader| {
            if let Some(prompts) = &files.picture_prompts {
                reader
                    .read::<SiglipConfig>(PlannedNetwork::ImageEncoder, &prompts.image_encoder)?;
                reader.read::<ReduxConfig>(PlannedNetwork::ImageEmbedder, &prompts.embedder)?;
            }
            Ok(())
        },
        transformer_need,
        other_needs: |job, stage| {
            // SigLIP is unloaded before Redux.
            let needs = || [siglip(job), redux(job)].into_iter().flatten().collect();
            (stage == Stage::EncodeVision).then(needs)
        },
        lora: LoraTable {
            network: lora::network,
            has_text_encoders: true,
            signs: SIGNS,
            origins: &["flux"],
            has_musubi: false,
        },
        lora_models: || {
            let config = FluxTransformerConfig {
                guidance_embeds: true,
                ..FluxTransformerConfig::default()
            };
            vec![("", config)]
        },
        ..FamilyTable::DEFAULT
    };
}

const KINDS: &[DetectionRule] = &[
    DetectionRule::new(
        "flux",
        "controlnet",
        "a Flux ControlNet",
        &["controlnet_x_embedder.weight", "context_embedder.weight"],
    ),
    DetectionRule::new(
        "flux",
        "adapter",
        "a Flux Redux adapter",
        &["redux_up.weight", "redux_down.weight"],
    )
    .of(PartKind::Redux),
    DetectionRule::transformer(
        "flux",
        "a Flux transformer in the original layout",
        &["double_blocks.0.img_attn.qkv.weight"],
    ),
    DetectionRule::transformer(
        "flux",
        "a Flux transformer",
        &[
            "single_transformer_blocks.0.proj_mlp.weight",
            "x_embedder.weight",
        ],
    ),
    DetectionRule::transformer(
        "flux",
        "a Flux transformer",
        &[
            "single_transformer_blocks.0.mlp_fc1.weight",
            "x_embedder.weight",
        ],
    ),
    DetectionRule::new(
        "flux",
        "vae",
        "an image VAE in the original layout",
        &["decoder.mid.block_1.conv1.weight"],
    )
    .of(PartKind::KlVae),
];

const SIGNS: &[LoraSignature] = &[
    LoraSignature::ending(
        "hunyuan",
        "HunyuanVideo",
        "double_blocks_#_",
        &["_mlp_fc1", "_mlp_fc2", "_mod_linear"],
    ),
    LoraSignature::ending(
        "hunyuan",
        "HunyuanVideo",
        "single_blocks_#_",
        &["modulation_linear"],
    ),
    deeper("double_blocks_#_", 19),
    deeper("transformer_blocks_#_", 19),
    deeper("single_blocks_#_", 38),
    deeper("single_transformer_blocks_#_", 38),
    LoraSignature::of("flux", "Flux", "double_blocks_#_"),
    LoraSignature::of("flux", "Flux", "single_blocks_#_"),
    LoraSignature::of("flux", "Flux", "single_transformer_blocks_#_"),
    LoraSignature::of("flux", "Flux", "transformer_blocks_#_"),
];

/// HunyuanVideo's blocks have the same sizes and nearly the same names.
const SHARED_LORA_NAMES: SharedLoraNames = SharedLoraNames {
    other: ("hunyuan", "HunyuanVideo"),
    other_parts: &[".img_attn_", ".txt_attn_"],
    own_parts: &[".img_attn.", ".txt_attn.", ".processor.", "lora_te1_"],
    own_ends: &["_mlp_0", "_mlp_2", "_lin"],
    own_blocks: &[
        "double_blocks_18_",
        "transformer_blocks_18_",
        "single_blocks_37_",
        "single_transformer_blocks_37_",
    ],
};

/// Names that Flux has as well, in a block that it does not have.
const fn deeper(start: &'static str, first_block: usize) -> LoraSignature {
    LoraSignature {
        first_block,
        ..LoraSignature::of(
            "hunyuan",
            "HunyuanVideo or another model with more blocks than Flux",
            start,
        )
    }
}

/// Published transformers of full size; dev and Kontext differ only in name.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["img_in.weight", "x_embedder.weight"])?;
    let is_distilled = weights
        .shape_by_end(&[
            "guidance_in.in_layer.weight",
            "time_text_embed.guidance_embedder.linear_1.weight",
        ])
        .is_some();
    Some(match (shape.first()?, shape.get(1)?) {
        (3072, 64) if is_distilled => "FLUX.1 dev",
        (3072, 64) => "FLUX.1 schnell",
        (3072, 384) => "FLUX.1 Fill",
        (3072, 128) => "FLUX.1 control (Canny or Depth)",
        (3072, 196) => "Flex.2",
        _ => return None,
    })
}

fn text_length(job: &PlannedJob<'_>) -> f64 {
    if let Some(wanted) = job.request.max_sequence_length {
        return f64::from(wanted);
    }
    let transformer = job.configured::<FluxTransformerConfig>(PlannedNetwork::Transformer);
    let is_distilled = transformer.is_some_and(|(_, config)| config.guidance_embeds);
    f64::from(text_tokens(if is_distilled {
        GuidanceMode::Distilled
    } else {
        GuidanceMode::None
    }))
}

fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) = job.configured::<FluxTransformerConfig>(PlannedNetwork::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let references = job.request.references.len() as f64 * REFERENCE_PIXELS;
    let tokens = [
        text_length(job) + seen_tokens(job),
        pixels / PIXELS + references / PIXELS,
    ];
    let sequence = TokenSequence::of_pictures(job, tokens, config.in_channels, config.streams());
    let mut need = streams(job, network, &sequence);
    let controls = job.weights.controls::<FluxControlConfig>();
    let controls = controls.map(|(_, control)| control.blocks.streams());
    add_controls(job, &sequence, controls, &mut need);
    Some(need)
}
