//! FLUX.1: images from text, from an image, inside a mask, along a depth map or edges, and as a prompt says next to a
//! reference image.

pub mod control;
pub mod lora;
mod redux;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use std::sync::Arc;

use super::parts::{clip_l, t5_xxl};
use crate::families::prelude::*;
use crate::footprint::text::seen_tokens;
use crate::model::{LoraSignature, SharedLoraNames};
use crate::networks::{ClipTextConfig, FluxControlConfig, FluxTransformerConfig};

pub const FAMILY: ModelFamily = ModelFamily::FLUX;

/// Tokens of a prompt that T5 reads.
pub fn text_tokens(guidance: GuidanceMode) -> u32 {
    (FAMILY.token_limit)(guidance).unwrap_or_default()
}

pub(super) struct FluxFamily;

impl SingleTransformerFamily for FluxFamily {
    type Config = FluxTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<FluxTransformerConfig> = FamilyTable {
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
        refused: &[
            ("FluxPriorReduxPipeline", "a Flux Redux model"),
            ("FluxControlNet", "a Flux ControlNet model"),
            // FLUX.2's are tried before.
            ("Flux", OTHER_PIPELINE),
            ("distilled_guidance_layer", "a Chroma model"),
            ("individual_token_refiner", "a HunyuanVideo model"),
            ("controlnet_", "a Flux ControlNet"),
            ("pulid_ca", "a Flux model with PuLID in it"),
        ],
        variant: variant::variant,
        vae: FamilyVae::FLUX,
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
        needs: |job, stage| (stage == Stage::Denoise).then(|| [transformer_need(job), None]),
        image_prompts: Some(redux::image_prompts),
        control_nets: Some(ControlNets {
            find: control::find,
            footprint: NetworkFootprint::read::<FluxControlConfig>,
        }),
        lora: LoraTable {
            signs: SIGNS,
            accepts: |origin, _| origin == "flux",
            control: Some(("img_in", lora::with_control)),
            has_text_encoders: true,
            shared_names: Some(&SHARED_LORA_NAMES),
            objection: lora::objection,
            ..LoraTable::NONE
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

const SIGNS: &[LoraSignature] = lora_signatures! {
    "hunyuan" "HunyuanVideo": "double_blocks_#_" ["_mlp_fc1", "_mlp_fc2", "_mod_linear"],
        "single_blocks_#_" ["modulation_linear"];
    // Names that Flux has as well, in blocks that it does not have.
    "hunyuan" "HunyuanVideo or another model with more blocks than Flux":
        "double_blocks_#_" from 19, "transformer_blocks_#_" from 19,
        "single_blocks_#_" from 38, "single_transformer_blocks_#_" from 38;
    "flux" "Flux": "double_blocks_#_", "single_blocks_#_", "single_transformer_blocks_#_", "transformer_blocks_#_";
};

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

fn text_length(job: &PlannedJob<'_>) -> f64 {
    if let Some(wanted) = job.request.options.max_sequence_length {
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
    let references = job.request.references.len() as f64 * REFERENCE_PIXELS;
    let text = text_length(job) + seen_tokens(job);
    let tokens = [text, job.image_tokens(references)];
    let sequence = TokenSequence::of_images(job, tokens, config.in_channels, config.streams());
    let mut need = streams(job, network, &sequence);
    let controls = job.weights.controls::<FluxControlConfig>();
    let controls = controls.map(|(_, control)| control.blocks.streams());
    add_controls(job, &sequence, controls, &mut need);
    Some(need)
}
