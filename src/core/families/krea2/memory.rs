//! What a Krea 2 model takes: its networks, and what their stages make on their way.
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
use crate::networks::{Krea2TransformerConfig, LanguageConfig, WanVaeConfig};

/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of one token.
const PIXELS: f64 = 256.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<Krea2TransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<WanVaeConfig>(&files.vae)?;
    let place = &files.text_encoder;
    reader.with_config(PartName::TextEncoder, place, LANGUAGE.read(place)?)
}

/// The networks of a published model: there is one shape.
pub(super) fn published(_: &TransformerShape) -> Vec<PublishedNetwork> {
    let text = LanguageConfig::qwen3_4b(LANGUAGE.tap);
    vec![
        (
            PartName::Transformer,
            Arc::new(Krea2TransformerConfig::default()),
        ),
        (PartName::TextEncoder, Arc::new(text)),
        (PartName::VaeDecoder, Arc::new(WanVaeConfig::default())),
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
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Save => None,
    };
    need.into_iter().collect()
}

/// The worst moment is in the feed-forward part (hidden states, what goes in, and both wide layers), in the attention
/// (hidden states, what goes in, the four products of that, keys and values for each head, and what comes of them), or
/// where a text's states become one.
fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<Krea2TransformerConfig>(PartName::Transformer)?;
    let size = job.number_bytes() as f64;
    let block = config.block();
    let [dim, wide] = [block.dim, block.wide].map(|it| it as f64);
    let [heads, shared] = block.heads.map(|it| it as f64);
    let pictures = f64::from(job.request.batch_size.max(1));
    let tokens = f64::from(job.request.width) * f64::from(job.request.height) / PIXELS;
    let room = PROMPT.room as f64;
    let one = tokens + room;
    // On the CPU one goes after the other.
    let at_once = if job.is_on_gpu() { pictures } else { 1.0 };
    let hidden = at_once * one * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    // Hidden states, what goes in, queries, gates, what comes of them, and keys and values before and behind their
    // being made as many as the queries.
    let attention =
        (7.0 + 2.0 * shared / heads) * hidden + (at_once * one * heads * 4.0).max(expanded);
    let feed_forward = 2.0 * hidden + 2.0 * at_once * one * wide * size + expanded;
    let fusion = fusion(config) * size + expanded;
    let passes = if job.request.is_guided() { 2 } else { 1 };
    let texts = f64::from(passes);
    let calls = f64::from(job.calls(1)).min(CALLS_AT_ONCE);
    // In f32: of each block, and of the last layer.
    let modulations = calls * (6.0 * config.num_layers as f64 + 2.0) * dim * 4.0;
    let angles = texts * one * (block.head_dim as f64 / 2.0) * 8.0;
    let states = config.num_text_layers as f64 * config.text_hidden_dim as f64;
    let text = texts * room * (dim + states) * size;
    let latents = pictures * tokens * config.in_channels as f64 * 4.0 * 8.0;
    let moment = attention.max(feed_forward).max(fusion);
    let kept = job.step_cache_bytes(pictures * one * dim * size, texts);
    let bytes = moment + modulations + angles + text + latents + kept;
    let shape = (dim, config.num_layers as f64);
    Some(Need {
        calls: job.calls(passes),
        operations: pictures * job.operations(PartName::Transformer, one, shape),
        ..job.need(PartName::Transformer, bytes)
    })
}

/// Numbers of the worst moment among all states of a text: states, what goes in, and both wide layers, or the four
/// products of an attention with what comes of them.
fn fusion(config: &Krea2TransformerConfig) -> f64 {
    let shape = config.text_block();
    let rows = PROMPT.room as f64 * config.num_text_layers as f64;
    let [dim, wide] = [shape.dim, shape.wide].map(|it| it as f64);
    rows * (2.0 * dim + 2.0 * wide).max(8.0 * dim)
}
