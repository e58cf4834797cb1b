//! What a FLUX.2 model takes: its networks, and what their stages make on their way.
//!
//! The formulas of the networks are in `memory`.

use std::sync::Arc;

use super::{LANGUAGE, PROMPT, parts};
use crate::families::PublishedNetwork;
use crate::job::Stage;
use crate::memory::autoencoder::picture;
use crate::memory::streams::{Sequence, streams};
use crate::memory::text::language;
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{Flux2TransformerConfig, KlVaeConfig, LanguageConfig};

/// Pixels of one token.
const PIXELS: f64 = 256.0;
/// Pixels of a reference at most.
const SEEN_PIXELS: f64 = 1048576.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<Flux2TransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<KlVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    reader.with_config(PartName::TextEncoder, place, LANGUAGE.read(place)?)
}

/// The networks of a published model.
pub(super) fn published(shape: &TransformerShape) -> Vec<PublishedNetwork> {
    let transformer = parts::published(*shape);
    let small = LanguageConfig::qwen3_4b(LANGUAGE.tap);
    let text = if transformer.joint_attention_dim == parts::STATES * small.hidden_size {
        small
    } else {
        LanguageConfig::qwen3_8b(LANGUAGE.tap)
    };
    vec![
        (PartName::Transformer, Arc::new(transformer)),
        (PartName::TextEncoder, Arc::new(text)),
        (
            PartName::VaeDecoder,
            Arc::new(KlVaeConfig::of_thirty_two_channels()),
        ),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let need = match stage {
        Stage::EncodeText => language(job, PartName::TextEncoder, PROMPT.room as f64),
        Stage::EncodeImage => picture(job, PartName::VaeEncoder),
        Stage::Denoise => transformer(job),
        Stage::Decode => picture(job, PartName::VaeDecoder),
        Stage::EncodeVision
        | Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Save => None,
    };
    need.into_iter().collect()
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<Flux2TransformerConfig>(PartName::Transformer)?;
    let request = job.request;
    let pixels = f64::from(request.width) * f64::from(request.height);
    // A given picture is seen beside the one that is made, as references are.
    let given = f64::from(u8::from(request.image.is_some())) * pixels;
    let references = request.references.len() as f64 * SEEN_PIXELS;
    let sequence = Sequence {
        text: PROMPT.room as f64,
        picture: (pixels + given + references) / PIXELS,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        shape: config.streams(),
    };
    Some(streams(job, network, &sequence))
}
