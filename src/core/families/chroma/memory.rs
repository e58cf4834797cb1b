//! What a Chroma model takes: its networks, and what their stages make on their way.
//!
//! The formulas of the networks are in `memory`; that of the approximator is here.

use std::sync::Arc;

use super::TEXT_TOKENS;
use crate::families::PublishedNetwork;
use crate::job::Stage;
use crate::memory::autoencoder::picture;
use crate::memory::streams::{Sequence, streams};
use crate::memory::text::t5;
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{ChromaTransformerConfig, KlVaeConfig, T5Config, T5Kind};

/// Calls that the approximator answers at once.
pub const CALLS_AT_ONCE: usize = 8;
/// Pixels of one token.
const PIXELS: f64 = 256.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<ChromaTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<KlVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    let config = T5Config::read_as(T5Kind::T5, place)?;
    reader.with_config(PartName::TextEncoder, place, config)
}

/// The networks of a published model: there is one shape.
pub(super) fn published(_: &TransformerShape) -> Vec<PublishedNetwork> {
    vec![
        (
            PartName::Transformer,
            Arc::new(ChromaTransformerConfig::default()),
        ),
        (PartName::TextEncoder, Arc::new(T5Config::xxl(T5Kind::T5))),
        (
            PartName::VaeDecoder,
            Arc::new(KlVaeConfig::of_sixteen_channels()),
        ),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let need = match stage {
        Stage::EncodeText => t5(job, PartName::TextEncoder, text_length(job)),
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

fn text_length(job: &Job<'_>) -> f64 {
    f64::from(job.request.max_sequence_length.unwrap_or(TEXT_TOKENS))
}

/// FLUX.1's blocks, with what is added to the scores of each pair of tokens (once more where a kernel wants its rows
/// longer), or the approximator before them: its rows in f32, and in the kind of the matrices on the way through a layer.
fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<ChromaTransformerConfig>(PartName::Transformer)?;
    let size = job.number_bytes() as f64;
    let sequence = Sequence {
        text: text_length(job),
        picture: f64::from(job.request.width) * f64::from(job.request.height) / PIXELS,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        shape: config.streams(),
    };
    let one = sequence.text + sequence.picture;
    let passes = if job.request.is_guided() { 2.0 } else { 1.0 };
    let bias = (passes + 1.0) * one * one * size;
    let rows = CALLS_AT_ONCE as f64 * config.num_vectors() as f64;
    let approximator = rows * config.approximator_hidden_dim as f64 * (3.0 * 4.0 + 2.0 * size);
    let need = streams(job, network, &sequence);
    Some(Need {
        activation_bytes: (need.activation_bytes + bias).max(approximator),
        ..need
    })
}
