//! What a Flux model takes: its networks, and what their stages make on their way.
//!
//! The formulas of the networks are in `memory`.

use std::sync::Arc;

use super::text_tokens;
use crate::families::PublishedNetwork;
use crate::job::Stage;
use crate::memory::autoencoder::picture;
use crate::memory::streams::{Sequence, add_controls, streams};
use crate::memory::text::{clip_text, redux, seen_tokens, siglip, t5};
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, Guidance, ModelFiles};
use crate::networks::{
    ClipTextConfig, FluxControlConfig, FluxTransformerConfig, KlVaeConfig, ReduxConfig,
    SiglipConfig, T5Config, T5Kind,
};

/// Pixels of a picture that is seen beside what is made: about this many.
const REFERENCE_PIXELS: f64 = 1048576.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<FluxTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<KlVaeConfig>(&files.vae)?;
    reader.read::<ClipTextConfig>(PartName::TextEncoder, &files.text_encoder)?;
    if let Some(place) = &files.text_encoder_2 {
        let config = T5Config::read_as(T5Kind::T5, place)?;
        reader.with_config(PartName::TextEncoder2, place, config)?;
    }
    if let Some(prompts) = &files.picture_prompts {
        reader.read::<SiglipConfig>(PartName::ImageEncoder, &prompts.image_encoder)?;
        reader.read::<ReduxConfig>(PartName::ImageEmbedder, &prompts.embedder)?;
    }
    Ok(())
}

/// The networks of a published model. All have the same blocks; those that fill have wider tokens.
pub(super) fn published(shape: &TransformerShape) -> Vec<PublishedNetwork> {
    let transformer = FluxTransformerConfig {
        in_channels: shape.channels,
        guidance_embeds: true,
        ..FluxTransformerConfig::default()
    };
    let clip = ClipTextConfig {
        hidden_size: transformer.pooled_projection_dim,
        intermediate_size: 4 * transformer.pooled_projection_dim,
        num_attention_heads: 12,
        ..ClipTextConfig::default()
    };
    vec![
        (PartName::Transformer, Arc::new(transformer)),
        (PartName::TextEncoder, Arc::new(clip)),
        (PartName::TextEncoder2, Arc::new(T5Config::xxl(T5Kind::T5))),
        (
            PartName::VaeDecoder,
            Arc::new(KlVaeConfig::of_sixteen_channels()),
        ),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let needs = match stage {
        // CLIP is gone before T5 is there.
        Stage::EncodeText => [
            clip_text(job, PartName::TextEncoder),
            t5(job, PartName::TextEncoder2, text_length(job)),
        ],
        // SigLIP is gone before Redux is there.
        Stage::EncodeVision => [siglip(job), redux(job)],
        Stage::EncodeImage => [picture(job, PartName::VaeEncoder), None],
        Stage::Denoise => [transformer(job), None],
        Stage::Decode => [picture(job, PartName::VaeDecoder), None],
        Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Save => [None, None],
    };
    needs.into_iter().flatten().collect()
}

fn text_length(job: &Job<'_>) -> f64 {
    if let Some(wanted) = job.request.max_sequence_length {
        return f64::from(wanted);
    }
    let transformer = job.configured::<FluxTransformerConfig>(PartName::Transformer);
    let is_distilled = transformer.is_some_and(|(_, config)| config.guidance_embeds);
    f64::from(text_tokens(if is_distilled {
        Guidance::Distilled
    } else {
        Guidance::None
    }))
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<FluxTransformerConfig>(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let mut picture = pixels / 256.0;
    picture += job.request.references.len() as f64 * REFERENCE_PIXELS / 256.0;
    let sequence = Sequence {
        text: text_length(job) + seen_tokens(job),
        picture,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        shape: config.streams(),
    };
    let mut need = streams(job, network, &sequence);
    let controls = job.weights.controls::<FluxControlConfig>();
    let controls = controls.map(|(_, control)| control.blocks.streams());
    add_controls(job, &sequence, controls, &mut need);
    Some(need)
}
