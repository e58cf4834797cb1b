//! What a Qwen-Image model takes: its networks, and what their stages make on their way.
//!
//! The formulas of the networks are in `memory`.

use std::sync::Arc;

use super::{LANGUAGE, PROMPT};
use crate::families::PublishedNetwork;
use crate::job::Stage;
use crate::memory::autoencoder::picture;
use crate::memory::streams::{Sequence, streams};
use crate::memory::text::language;
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{LanguageConfig, QwenImageTransformerConfig, WanVaeConfig};

/// Pixels of one token.
const PIXELS: f64 = 256.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<QwenImageTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<WanVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    reader.with_config(PartName::TextEncoder, place, LANGUAGE.read(place)?)
}

/// The networks of a published model: there is one shape.
pub(super) fn published(_: &TransformerShape) -> Vec<PublishedNetwork> {
    let transformer = QwenImageTransformerConfig::default();
    let vae = WanVaeConfig::published(transformer.latent_channels());
    let text = LanguageConfig::qwen25_vl_7b(LANGUAGE.tap);
    vec![
        (PartName::Transformer, Arc::new(transformer)),
        (PartName::TextEncoder, Arc::new(text)),
        (PartName::VaeDecoder, Arc::new(vae)),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let need = match stage {
        Stage::EncodeText => language(job, PartName::TextEncoder, PROMPT.length() as f64),
        Stage::EncodeImage => picture(job, PartName::VaeEncoder),
        Stage::Denoise => transformer(job),
        Stage::Decode => picture(job, PartName::VaeDecoder),
        Stage::EncodeVision
        | Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Save => None,
    };
    need.into_iter().collect()
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<QwenImageTransformerConfig>(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let sequence = Sequence {
        text: PROMPT.room as f64,
        picture: pixels / PIXELS,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        shape: config.streams(),
    };
    Some(streams(job, network, &sequence))
}
