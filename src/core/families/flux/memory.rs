//! What a Flux model takes: its networks, and what their stages make on their way.
//!
//! The transformer's moments are those of its blocks in the engine.

use super::text_tokens;
use crate::job::Stage;
use crate::memory::autoencoder::{Clip, kl};
use crate::memory::text::{clip_text, t5};
use crate::memory::{Headers, Job, Need, Network, Part, PartName};
use crate::model::{CatalogError, Guidance, ImageRole, ModelFiles};
use crate::networks::{
    ClipTextConfig, FluxTransformerConfig, FluxTransformerKeys, KlVaeConfig, KlVaeKeys,
    NetworkConfig as _, T5Config, T5Keys, T5Kind, VaeHalf, clip_text as clip, flux_transformer,
};

/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of a given picture that is seen beside what is made: about this many.
const REFERENCE_PIXELS: f64 = 1048576.0;

pub(super) fn parts(files: &ModelFiles, headers: &mut Headers) -> Result<Vec<Part>, CatalogError> {
    let place = &files.transformer;
    let config = FluxTransformerConfig::read(place)?;
    let transformer = headers.part(PartName::Transformer, place, config, |config, weights| {
        flux_transformer::schema(config, FluxTransformerKeys::of(|key| weights.has(key)))
    })?;
    let mut parts = vec![transformer];
    for (name, half) in [
        (PartName::VaeEncoder, VaeHalf::Encoder),
        (PartName::VaeDecoder, VaeHalf::Decoder),
    ] {
        let config = KlVaeConfig::read(&files.vae)?;
        parts.push(headers.part(name, &files.vae, config, |config, weights| {
            let keys = KlVaeKeys::of(weights);
            keys.map_or_else(Vec::new, |keys| config.schema(half, &keys))
        })?);
    }
    let place = &files.text_encoder;
    let config = ClipTextConfig::read(place)?;
    parts.push(
        headers.part(PartName::TextEncoder, place, config, |config, weights| {
            config.schema(clip::prefix(&weights.names()).unwrap_or_default())
        })?,
    );
    if let Some(place) = &files.text_encoder_2 {
        let config = T5Config::read_as(T5Kind::T5, place)?;
        parts.push(
            headers.part(PartName::TextEncoder2, place, config, |config, weights| {
                config.schema(&T5Keys::of(&weights.names()).unwrap_or_default())
            })?,
        );
    }
    Ok(parts)
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    match stage {
        Stage::EncodeText => texts(job),
        Stage::EncodeImage => encode_image(job).into_iter().collect(),
        Stage::Denoise => transformer(job).into_iter().collect(),
        Stage::Decode => decode(job).into_iter().collect(),
        Stage::EncodeVision
        | Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Save => Vec::new(),
    }
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

/// CLIP is gone before T5 is there.
fn texts(job: &Job<'_>) -> Vec<Need> {
    let size = job.number_bytes();
    let clip = job.configured::<ClipTextConfig>(PartName::TextEncoder);
    let clip = clip.map(|(network, config)| {
        let bytes = clip_text(network, &config.layers(), size);
        job.need(PartName::TextEncoder, bytes)
    });
    let second = job.configured::<T5Config>(PartName::TextEncoder2);
    let second = second.map(|encoder| {
        let bytes = t5(encoder, text_length(job), size);
        job.need(PartName::TextEncoder2, bytes)
    });
    clip.into_iter().chain(second).collect()
}

/// One picture: batches go through the autoencoder one after the other.
fn picture(job: &Job<'_>) -> Clip {
    Clip {
        width: f64::from(job.request.width),
        height: f64::from(job.request.height),
        frames: 1.0,
        tile: job.request.vae_tile.map(f64::from),
    }
}

fn encode_image(job: &Job<'_>) -> Option<Need> {
    let (_, config) = job.configured::<KlVaeConfig>(PartName::VaeEncoder)?;
    let bytes = kl(&config.block_out_channels, &picture(job), job);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeEncoder, bytes)
    })
}

fn decode(job: &Job<'_>) -> Option<Need> {
    let (_, config) = job.configured::<KlVaeConfig>(PartName::VaeDecoder)?;
    let bytes = kl(&config.block_out_channels, &picture(job), job);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeDecoder, bytes)
    })
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<FluxTransformerConfig>(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let mut picture = pixels / 256.0;
    if job.request.image_role == ImageRole::Reference && job.request.image.is_some() {
        picture += REFERENCE_PIXELS / 256.0;
    }
    let sequence = Sequence {
        text: text_length(job),
        picture,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: config.in_channels as f64,
        heads: config.num_attention_heads as f64,
        head_dim: config.attention_head_dim as f64,
        double_blocks: config.num_layers as f64,
        single_blocks: config.num_single_layers as f64,
    };
    let passes = if job.request.is_guided() { 2 } else { 1 };
    Some(Need {
        calls: job.calls(passes),
        ..job.need(PartName::Transformer, moment(job, network, &sequence))
    })
}

/// A transformer of double and single blocks, and the tokens that go through them.
pub(crate) struct Sequence {
    /// Of one text, with what stands beside it.
    pub(crate) text: f64,
    /// Of one picture.
    pub(crate) picture: f64,
    /// How many of both.
    pub(crate) pictures: f64,
    /// Numbers of a picture's token.
    pub(crate) channels: f64,
    pub(crate) heads: f64,
    pub(crate) head_dim: f64,
    pub(crate) double_blocks: f64,
    pub(crate) single_blocks: f64,
}

/// The worst moment is in a single block (hidden states, what goes into the wide product or comes out of the attention,
/// and the product itself, 7 widths) and never below that of a double block.
pub(crate) fn moment(job: &Job<'_>, network: &Network, sequence: &Sequence) -> f64 {
    let size = job.number_bytes() as f64;
    let (heads, head_dim) = (sequence.heads, sequence.head_dim);
    let dim = heads * head_dim;
    let (double, single) = (sequence.double_blocks, sequence.single_blocks);
    let pictures = sequence.pictures;
    let one = sequence.picture + sequence.text;
    let tokens = pictures * one;
    let hidden = tokens * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let scores = one * heads * 4.0;
    // Of a batch each picture attends alone, from a copy of its own.
    let copies = if pictures > 1.0 {
        4.0 * one * dim * size
    } else {
        0.0
    };
    let moment = 9.0 * hidden + expanded.max(copies + scores);
    let texts = if job.request.is_guided() { 2.0 } else { 1.0 };
    let calls = f64::from(job.calls(1)).min(CALLS_AT_ONCE);
    let modulations = texts * calls * (12.0 * double + 3.0 * single + 2.0) * dim * size;
    let angles = tokens * (head_dim / 2.0) * 8.0;
    let text = texts * sequence.text * dim * size;
    let latents = pictures * sequence.picture * sequence.channels * 4.0 * 8.0;
    moment + modulations + angles + text + latents
}
