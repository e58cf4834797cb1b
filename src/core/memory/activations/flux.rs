//! Flux: what CLIP, T5, its autoencoder and its transformer make.
//!
//! The transformer's moments are those of the blocks in the engine's `flux/transformer.rs`.

use super::autoencoder::{Clip, kl_decode, kl_encode};
use super::text::{clip_text, t5};
use super::{Job, Need};
use crate::catalog::ImageRole;
use crate::job::Stage;
use crate::memory::network::Network;
use crate::memory::parts::PartName;

/// Tokens of a text in models that are told a guidance, and in the others.
const TEXT_LENGTHS: (f64, f64) = (512.0, 256.0);
/// Calls whose modulations are made at once.
const CALLS_AT_ONCE: f64 = 32.0;
/// Pixels of a given picture that is seen beside what is made: about this many.
const REFERENCE_PIXELS: f64 = 1048576.0;

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
    let transformer = job.network(PartName::Transformer);
    let is_told = transformer.is_some_and(|network| network.is("guidance_embeds"));
    if is_told {
        TEXT_LENGTHS.0
    } else {
        TEXT_LENGTHS.1
    }
}

/// CLIP is gone before T5 is there.
fn texts(job: &Job<'_>) -> Vec<Need> {
    let size = job.number_bytes();
    let clip = job.network(PartName::TextEncoder);
    let clip = clip.map(|network| job.need(PartName::TextEncoder, clip_text(network, size)));
    let second = job.network(PartName::TextEncoder2);
    let second =
        second.map(|network| job.need(PartName::TextEncoder2, t5(network, text_length(job), size)));
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
    let network = job.network(PartName::VaeEncoder)?;
    let bytes = kl_encode(network, &picture(job), job);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeEncoder, bytes)
    })
}

fn decode(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::VaeDecoder)?;
    let bytes = kl_decode(network, &picture(job), job);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeDecoder, bytes)
    })
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let mut picture = pixels / 256.0;
    if job.request.image_role == ImageRole::Reference && job.request.image.is_some() {
        picture += REFERENCE_PIXELS / 256.0;
    }
    let sequence = Sequence {
        text: text_length(job),
        picture,
        pictures: f64::from(job.request.batch_size.max(1)),
        channels: network.number("in_channels", 64.0),
        default_blocks: (19.0, 38.0),
    };
    let passes = if job.request.is_guided() { 2 } else { 1 };
    Some(Need {
        calls: job.calls(passes),
        ..job.need(PartName::Transformer, moment(job, network, &sequence))
    })
}

/// The tokens that go through double and single blocks.
pub(super) struct Sequence {
    /// Of one text, with what stands beside it.
    pub(super) text: f64,
    /// Of one picture.
    pub(super) picture: f64,
    /// How many of both.
    pub(super) pictures: f64,
    /// Numbers of a picture's token.
    pub(super) channels: f64,
    /// Double and single blocks, where the config does not say.
    pub(super) default_blocks: (f64, f64),
}

/// The worst moment is in a single block (hidden states, what goes into the wide product or comes out of the attention,
/// and the product itself, 7 widths) and never below that of a double block.
pub(super) fn moment(job: &Job<'_>, network: &Network, sequence: &Sequence) -> f64 {
    let size = job.number_bytes() as f64;
    let heads = network.number("num_attention_heads", 24.0);
    let head_dim = network.number("attention_head_dim", 128.0);
    let dim = heads * head_dim;
    let double = network.number("num_layers", sequence.default_blocks.0);
    let single = network.number("num_single_layers", sequence.default_blocks.1);
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
    let turns = tokens * (head_dim / 2.0) * 8.0;
    let text = texts * sequence.text * dim * size;
    let latents = pictures * sequence.picture * sequence.channels * 4.0 * 8.0;
    moment + modulations + turns + text + latents
}
