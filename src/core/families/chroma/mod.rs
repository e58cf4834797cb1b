//! Chroma 1 HD, Base and Flash: images from text, from an image, and inside a mask.

#[cfg(test)]
pub(crate) mod tests;

use super::parts::t5_xxl;
use crate::families::prelude::*;
use crate::networks::ChromaTransformerConfig;

pub const FAMILY: ModelFamily = ModelFamily::CHROMA;

pub use crate::model::family::chroma::CHROMA_TOKENS as TEXT_TOKENS;
/// Modulations that the approximator computes in one batch, in calls of the transformer.
pub const CALLS_AT_ONCE: usize = 8;
const RADIANCE: &str = "a Chroma Radiance model";

pub(super) struct ChromaFamily;

impl SingleTransformerFamily for ChromaFamily {
    type Config = ChromaTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<ChromaTransformerConfig> = FamilyTable {
        pipelines: &[
            "ChromaPipeline",
            "ChromaImg2ImgPipeline",
            "ChromaInpaintPipeline",
        ],
        refused: &[
            ("ChromaRadiance", RADIANCE),
            ("Chroma2", "a Chroma 2 model"),
            ("ZetaChroma", "a Chroma 2 model"),
            ("Chroma", OTHER_PIPELINE),
            ("nerf_", RADIANCE),
            ("img_in_patch", RADIANCE),
            ("controlnet_", "a Chroma ControlNet"),
            ("ip_adapter", "a Chroma IP-Adapter"),
        ],
        variant: |_, hints| Ok(ModelVariant::new(variant_by_names(hints))),
        vae: FamilyVae::FLUX,
        text_encoders: &[TextEncoder::t5_xxl(
            |config| t5_xxl(ModelComponent::TextEncoder, config.joint_attention_dim),
            |_| TEXT_TOKENS,
            text_length,
        )],
        needs: |job, stage| (stage == Stage::Denoise).then(|| [transformer_need(job), None]),
        lora: LoraTable {
            has_text_encoders: true,
            signs: lora_signatures! { "chroma" "Chroma": "distilled_guidance_layer"; },
            // LoRAs that change the blocks alone do not show which of the two they were made for.
            accepts: |origin, _| matches!(origin, "chroma" | "flux"),
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// The first name that shows a variant: `Chroma1-HD-Flash`, `chroma-unlocked-v48`. HD where none does, as checkpoints of
/// its training are.
fn variant_by_names(hints: &VariantHints<'_>) -> &'static str {
    let said_by = |name: &str| {
        let name = name.to_lowercase();
        let has_word = |word: &str| {
            name.split(|c: char| !c.is_alphanumeric())
                .any(|it| it == word)
        };
        // v48 was published as Base later; versions calibrated for details are a branch of it.
        let is_v48 = has_word("v48") && !name.contains("detail") && !name.contains("calib");
        if name.contains("flash") {
            Some("Flash")
        } else if name.contains("base") || is_v48 {
            Some("Base")
        } else if has_word("hd") || name.contains("unlocked") {
            Some("HD")
        } else {
            None
        }
    };
    hints.first(said_by).unwrap_or("HD")
}

fn text_length(job: &PlannedJob<'_>) -> f64 {
    f64::from(
        job.request
            .options
            .max_sequence_length
            .unwrap_or(TEXT_TOKENS),
    )
}

/// FLUX.1's blocks, with a bias of the scores of each pair of tokens (once more where a kernel pads its rows), or the
/// approximator before them: its rows in f32, and in the computing type on the way through a layer.
fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<ChromaTransformerConfig>(PlannedNetwork::Transformer)?;
    let size = job.number_bytes() as f64;
    let tokens = [text_length(job), job.image_tokens(0.0)];
    let sequence = TokenSequence::of_images(job, tokens, config.in_channels, config.streams());
    let one = sequence.text + sequence.image;
    let bias = (f64::from(job.passes()) + 1.0) * one * one * size;
    let rows = CALLS_AT_ONCE as f64 * config.num_vectors() as f64;
    let approximator = rows * config.approximator_hidden_dim as f64 * (3.0 * 4.0 + 2.0 * size);
    let need = streams(job, network, &sequence);
    Some(StageFootprint {
        activation_bytes: (need.activation_bytes + bias).max(approximator),
        ..need
    })
}
