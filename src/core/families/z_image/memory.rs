//! What a Z-Image model takes: its networks, and what their stages make on their way.
//!
//! The transformer's moments are those of `Block::forward` in the engine.

use std::sync::Arc;

use super::{LANGUAGE, PROMPT};
use crate::families::PublishedNetwork;
use crate::job::Stage;
use crate::memory::autoencoder::picture;
use crate::memory::text::language;
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{KlVaeConfig, LanguageConfig, ZImageControlConfig, ZImageTransformerConfig};

/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of one token.
const PIXELS: f64 = 256.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<ZImageTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<KlVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    reader.with_config(PartName::TextEncoder, place, LANGUAGE.read(place)?)
}

/// The networks of a published model: there is one shape.
pub(super) fn published(_: &TransformerShape) -> Vec<PublishedNetwork> {
    let text = LanguageConfig::qwen3_4b(LANGUAGE.tap);
    vec![
        (
            PartName::Transformer,
            Arc::new(ZImageTransformerConfig::default()),
        ),
        (PartName::TextEncoder, Arc::new(text)),
        (
            PartName::VaeDecoder,
            Arc::new(KlVaeConfig::of_sixteen_channels()),
        ),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let need = match stage {
        Stage::EncodeText => language(job, PartName::TextEncoder, text_length()),
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

/// What a ControlNet adds to a step.
struct Control {
    bytes: f64,
    /// Blocks as wide as the transformer's.
    layers: f64,
}

/// The most tokens that a text has.
fn text_length() -> f64 {
    PROMPT.room as f64
}

/// The worst moment is in the feed-forward part (hidden states, what goes in, and both wide layers) or in the attention
/// (hidden states, what goes in, queries, keys, values and what comes of them).
fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<ZImageTransformerConfig>(PartName::Transformer)?;
    let size = job.number_bytes() as f64;
    let [dim, wide, heads] = [config.dim, config.ffn_dim(), config.n_heads].map(|it| it as f64);
    let pictures = f64::from(job.request.batch_size.max(1));
    let tokens = f64::from(job.request.width) * f64::from(job.request.height) / PIXELS;
    // Those of the padding are few.
    let one = tokens + text_length();
    // On the CPU one goes after the other.
    let at_once = if job.is_on_gpu() { pictures } else { 1.0 };
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
    let latents = pictures * tokens * config.token_numbers() as f64 * 4.0 * 8.0;
    let kept = job.step_cache_bytes(pictures * one * dim * size, texts);
    let moment = attention.max(feed_forward);
    let controls = job.weights.controls::<ZImageControlConfig>();
    let controls: Vec<Control> = controls
        .map(|(_, control)| {
            let layers = control.control_layers_places.len() as f64;
            let refiners = control.n_refiner_layers as f64;
            Control {
                // Its own hidden states go along with the transformer's; the picture's tokens stay.
                bytes: hidden + tokens * dim * size + calls * (layers + refiners) * 4.0 * dim * 4.0,
                // Each of them has a layer of its width squared more.
                layers: layers + refiners,
            }
        })
        .collect();
    // What a control block gives before it is added, and the hidden states before the refiner of noise.
    let joined = if controls.is_empty() { 0.0 } else { hidden };
    let control = joined + controls.iter().map(|it| it.bytes).sum::<f64>();
    let bytes = moment + modulations + angles + text + latents + kept + control;
    let beside: f64 = controls.iter().map(|it| it.layers).sum();
    let shape = (
        dim,
        (config.n_layers + config.n_refiner_layers) as f64 + beside,
    );
    Some(Need {
        calls: job.calls(passes),
        operations: pictures * job.operations(PartName::Transformer, one, shape),
        ..job.need(PartName::Transformer, bytes)
    })
}
