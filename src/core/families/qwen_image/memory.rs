//! What a Qwen-Image model takes: its networks, and what their stages make on their way.
//!
//! The formulas of the networks are in `memory`.

use std::sync::Arc;

use super::{EDIT_PROMPT, LANGUAGE, PROMPT};
use crate::families::PublishedNetwork;
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::memory::autoencoder::{Clip, picture, wan_encode};
use crate::memory::streams::{Sequence, add_controls, streams};
use crate::memory::text::language;
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{
    LanguageConfig, NetworkConfig as _, QwenImageControlConfig, QwenImageTransformerConfig,
    QwenVisionConfig, WanVaeConfig,
};

/// Pixels of one token.
const PIXELS: f64 = 256.0;
/// Pixels of a reference picture, about, and tokens that the text encoder sees of it.
const REFERENCE_PIXELS: f64 = 1048576.0;
const SEEN_TOKENS: f64 = 210.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<QwenImageTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<WanVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    let weights = WeightSet::at(place)?;
    // A text encoder that does not see is enough for models that make pictures of text alone.
    if QwenVisionConfig::is_in(&weights)
        && let Ok(config) = QwenVisionConfig::read(place)
        && config.check_weights(&weights).is_ok()
    {
        reader.with_config(PartName::ImageEncoder, place, config)?;
    }
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
        Stage::EncodeText => return read_texts(job),
        Stage::EncodeImage if references(job) > 0.0 => references_of(job),
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

/// How many pictures are seen beside the one that is made.
fn references(job: &Job<'_>) -> f64 {
    job.request.references.len() as f64
}

/// The pictures first, where there are any, and the texts behind them.
fn read_texts(job: &Job<'_>) -> Vec<Need> {
    let seen = references(job) * SEEN_TOKENS;
    let texts = language(
        job,
        PartName::TextEncoder,
        EDIT_PROMPT.length() as f64 + seen,
    );
    let looks = job
        .configured::<QwenVisionConfig>(PartName::ImageEncoder)
        .filter(|_| seen > 0.0)
        .map(|(_, config)| {
            let size = job.number_bytes() as f64;
            let [width, wide] = [config.hidden_size, config.intermediate_size].map(|it| it as f64);
            let patches = seen * config.merged() as f64;
            // Turned in f32.
            let numbers = patches * (8.0 * width + 3.0 * wide);
            job.need(
                PartName::ImageEncoder,
                numbers * size + patches * width * 16.0,
            )
        });
    looks.into_iter().chain(texts).collect()
}

/// Each picture goes through the autoencoder alone, at a size of its own.
fn references_of(job: &Job<'_>) -> Option<Need> {
    let (_, config) = job.configured::<WanVaeConfig>(PartName::VaeEncoder)?;
    let edge = REFERENCE_PIXELS.sqrt();
    let clip = Clip {
        width: edge,
        height: edge,
        ..Clip::of(job, 1)
    };
    let bytes = wan_encode(config, &clip, job.number_bytes() as f64);
    Some(job.vae_need(PartName::VaeEncoder, bytes))
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<QwenImageTransformerConfig>(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let sequence = Sequence {
        text: PROMPT.room as f64 + references(job) * SEEN_TOKENS,
        picture: (pixels + references(job) * REFERENCE_PIXELS) / PIXELS,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        shape: config.streams(),
    };
    let mut need = streams(job, network, &sequence);
    let controls = job.weights.controls::<QwenImageControlConfig>();
    let controls = controls.map(|(_, control)| control.blocks.streams());
    add_controls(job, &sequence, controls, &mut need);
    Some(need)
}
