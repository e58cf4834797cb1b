//! SDXL base and inpainting, and their finetunes: images from text, from an image, and inside a mask.

pub mod control;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::clip;
use crate::families::prelude::*;
use crate::networks::sdxl_unet::INPAINT_CHANNELS;
use crate::networks::{
    ClipG, ClipGTextConfig, ClipL, ClipTextConfig, DiscreteScheduleConfig, SdxlControlConfig,
    SdxlUnetConfig,
};

pub const FAMILY: ModelFamily = ModelFamily::SDXL;

/// Latents of an image that cost as many operations as one token of a transformer with as many parameters: a pass of the
/// published network at 1024 × 1024 has about 6 trillion.
const LATENTS_A_TOKEN: f64 = 14.0;

pub(super) struct SdxlFamily;

impl SingleTransformerFamily for SdxlFamily {
    type Config = SdxlUnetConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<SdxlUnetConfig> = FamilyTable {
        pipelines: &[
            "StableDiffusionXLPipeline",
            "StableDiffusionXLImg2ImgPipeline",
            "StableDiffusionXLInpaintPipeline",
        ],
        refused: &[
            ("StableDiffusionXL", OTHER_PIPELINE),
            ("controlnet_cond_embedding", "an SDXL ControlNet"),
            ("input_hint_block", "an SDXL ControlNet"),
            ("encoder_hid_proj", "an SDXL IP-Adapter or a Kolors model"),
        ],
        variant: |config, _| Ok(variant_of(config)),
        vae: FamilyVae::SDXL,
        text_encoders: &[
            TextEncoder {
                rule: TextRule::Chunks,
                ..TextEncoder::clip_l(
                    |config| {
                        let width = (config.first_text_width(), "cross_attention_dim");
                        clip::<ClipL>(ModelComponent::TextEncoder, width)
                    },
                    |_| {
                        Some(Arc::new(ClipTextConfig {
                            hidden_size: 768,
                            intermediate_size: 3072,
                            num_attention_heads: 12,
                            ..ClipTextConfig::default()
                        }))
                    },
                )
            },
            TextEncoder {
                network: TextNetwork::ClipG,
                name: "CLIP-G",
                weights: 695_000_000,
                ..TextEncoder::clip_l(
                    |config| {
                        let key = "projection_class_embeddings_input_dim";
                        clip::<ClipG>(ModelComponent::TextEncoder2, (config.pooled_width(), key))
                    },
                    |_| {
                        Some(Arc::new(ClipGTextConfig {
                            hidden_size: 1280,
                            intermediate_size: 5120,
                            num_hidden_layers: 32,
                            num_attention_heads: 20,
                            ..ClipGTextConfig::default()
                        }))
                    },
                )
            },
        ],
        predicts_v: |weights, hints| {
            let is_named = |name: &str| {
                let name = name.to_lowercase().replace(['-', '_', ' '], "");
                name.contains("vpred").then_some(())
            };
            let has_mark = weights.has("v_pred");
            let has_terminal = weights.has("ztsnr");
            let predicts_v = has_mark || hints.first(is_named).is_some();
            // Models that only a name tells of are mostly made from NoobAI, which has both tensors.
            [predicts_v, predicts_v && (has_terminal || !has_mark)]
        },
        read_schedule: |folder| {
            DiscreteScheduleConfig::read(folder)?;
            Ok(SchedulerDefaults {
                sampler: SamplerKind::Euler,
                shift: None,
            })
        },
        needs: |job, stage| (stage == Stage::Denoise).then(|| [unet_need(job), None]),
        control_nets: Some(ControlNets {
            find: control::find,
            footprint: NetworkFootprint::read::<SdxlControlConfig>,
        }),
        lora: LoraTable {
            has_text_encoders: true,
            // LoRAs of few layers do not show which Stable Diffusion they are for.
            accepts: |origin, _| matches!(origin, "sdxl" | "Stable Diffusion"),
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// A model with 9 input channels inpaints.
fn variant_of(config: &SdxlUnetConfig) -> ModelVariant {
    if config.in_channels != INPAINT_CHANNELS {
        return ModelVariant {
            controls: ControlUse::NETWORKS,
            ..ModelVariant::new("Base")
        };
    }
    ModelVariant {
        start_image: InputUse::Required,
        image_role: ImageRole::Canvas,
        mask: InputUse::Required,
        ..ModelVariant::new("Inpainting")
    }
}

/// The worst moment is in the last level's residual blocks: their input with a skip connection, its norm in f32, and what
/// comes of it. All skip connections stay until they are read.
fn unet_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) = job.configured::<SdxlUnetConfig>(PlannedNetwork::Transformer)?;
    let (size, images) = (job.number_bytes() as f64, job.images());
    let at_once = if job.is_on_gpu() { images } else { 1.0 };
    let width = |level: usize| config.block_out_channels[level] as f64;
    // Positions of each level.
    let tokens = job.image_tokens(0.0);
    let latents = 4.0 * tokens;
    let levels = [latents, tokens, tokens / 4.0];
    let skips = levels[0] * 3.0 * width(0)
        + levels[1] * (width(0) + 2.0 * width(1))
        + levels[2] * (width(1) + 2.0 * width(2));
    let joined: i64 = config.up_widths(0, 0).iter().sum();
    let residual = latents * 6.0 * joined as f64;
    let feed_forward = levels[1] * 16.0 * width(1);
    let text = f64::from(job.passes()) * 77.0 * config.cross_attention_dim as f64;
    let numbers = at_once * (skips + residual.max(feed_forward)) + text;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let share = |(control, _): (&NetworkFootprint, _)| control.numbers() / network.numbers();
    let controls: f64 = job.weights.controls::<SdxlControlConfig>().map(share).sum();
    // Those of one ControlNet while they are added to those of the others.
    let residuals = if controls > 0.0 {
        2.0 * at_once * skips
    } else {
        0.0
    };
    let kept = images * latents * config.in_channels as f64 * 4.0 * 8.0;
    let transformers = |level: usize| (config.depth(level) * if level == 2 { 6 } else { 5 }) as f64;
    let attended = |level: usize| levels[level] * width(level) * transformers(level);
    let operations = job.operations(
        PlannedNetwork::Transformer,
        latents / LATENTS_A_TOKEN,
        (0.0, 0.0),
    );
    let attention = |level: usize| 4.0 * levels[level] * attended(level);
    Some(StageFootprint {
        calls: job.calls(job.passes()),
        operations: images * (1.0 + controls) * (operations + attention(1) + attention(2)),
        attended: images * (1.0 + controls) * (attended(1) + attended(2)),
        ..job.need(
            PlannedNetwork::Transformer,
            (numbers + residuals) * size + expanded + kept,
        )
    })
}
