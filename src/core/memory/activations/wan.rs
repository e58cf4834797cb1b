//! Wan: what its text encoder, autoencoder, image encoder and transformers make.
//!
//! The transformer's moments are those of `Block::forward` in the engine's `wan/transformer.rs`.

use super::autoencoder::{Clip, wan_decode, wan_encode};
use super::text::{t5, vision};
use super::{Job, Need};
use crate::job::Stage;
use crate::memory::parts::PartName;

/// Tokens of a text, padding included.
const TEXT_LENGTH: f64 = 512.0;
/// Passes of the guidance go together where one needs at most this much, see the engine's `guidance.rs`.
const LARGEST_JOINED_PASS: f64 = 1073741824.0;

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let need = match stage {
        Stage::EncodeText => text(job),
        Stage::EncodeImage => encode_image(job),
        Stage::EncodeVision => encode_vision(job),
        Stage::Denoise | Stage::DenoiseHigh => transformer(job, PartName::Transformer),
        Stage::DenoiseLow => transformer(job, PartName::Transformer2),
        Stage::Decode => decode(job),
        Stage::Unload | Stage::Save => None,
    };
    need.into_iter().collect()
}

fn text(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::TextEncoder)?;
    Some(job.need(
        PartName::TextEncoder,
        t5(network, TEXT_LENGTH, job.number_bytes()),
    ))
}

fn encode_vision(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::ImageEncoder)?;
    let pictures = 1.0 + f64::from(u8::from(job.request.last_image.is_some()));
    Some(Need {
        number_bytes: 4,
        ..job.need(PartName::ImageEncoder, vision(network, pictures))
    })
}

/// The clip in pixels and frames, and the autoencoder's factors.
fn clip(job: &Job<'_>) -> Clip {
    let request = job.request;
    Clip {
        width: f64::from(request.width),
        height: f64::from(request.height),
        frames: f64::from(request.num_frames),
        tile: request.vae_tile.map(f64::from),
    }
}

fn encode_image(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::VaeEncoder)?;
    let mut clip = clip(job);
    if job.request.files.expand_timesteps {
        // The first frame alone.
        clip.frames = 1.0;
    }
    let bytes = wan_encode(network, &clip, job.number_bytes() as f64);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeEncoder, bytes)
    })
}

fn decode(job: &Job<'_>) -> Option<Need> {
    let network = job.network(PartName::VaeDecoder)?;
    let bytes = wan_decode(network, &clip(job), job.number_bytes() as f64);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeDecoder, bytes)
    })
}

/// The sizes of one transformer and of the clip as it sees it.
struct Sizes {
    tokens: f64,
    /// Numbers of one clip's latents.
    latents: f64,
    dim: f64,
    ffn: f64,
    heads: f64,
    head_dim: f64,
    layers: f64,
    in_channels: f64,
    out_channels: f64,
}

fn sizes(job: &Job<'_>, part: PartName) -> Option<Sizes> {
    let network = job.network(part)?;
    let vae = job.network(PartName::VaeDecoder)?;
    let heads = network.number("num_attention_heads", 40.0);
    let head_dim = network.number("attention_head_dim", 128.0);
    let patch = network
        .numbers("patch_size")
        .unwrap_or_else(|| vec![1.0, 2.0, 2.0]);
    let patch = patch.iter().product::<f64>().max(1.0);
    let (space, time) = super::autoencoder::wan_factors(vae);
    let request = job.request;
    let latent_frames = ((f64::from(request.num_frames) - 1.0) / time)
        .floor()
        .max(0.0)
        + 1.0;
    let latents =
        latent_frames * (f64::from(request.width) / space) * (f64::from(request.height) / space);
    Some(Sizes {
        tokens: latents / patch,
        latents,
        dim: heads * head_dim,
        ffn: network.number("ffn_dim", 13824.0),
        heads,
        head_dim,
        layers: network.number("num_layers", 40.0),
        in_channels: network.number("in_channels", 16.0),
        out_channels: network.number("out_channels", 16.0),
    })
}

/// The worst moment is in the self-attention (hidden states, queries, keys, values and what comes of them) or in the
/// feed-forward part (hidden states, what goes in or comes out, and the wide layer, changed in place).
fn transformer(job: &Job<'_>, part: PartName) -> Option<Need> {
    let network = job.network(part)?;
    let sizes = sizes(job, part)?;
    let size = job.number_bytes() as f64;
    let guidance = if part == PartName::Transformer2 {
        job.request.low_guidance_scale()
    } else {
        job.request.guidance_scale
    };
    let is_guided = guidance > 1.0;
    let pass = sizes.tokens * (8.0 * sizes.dim + 2.0 * sizes.ffn) * size;
    let weights = network.bytes(job.number_bytes());
    let free = job.available_bytes.saturating_sub(weights) as f64;
    let is_joined =
        is_guided && job.is_on_gpu() && pass <= LARGEST_JOINED_PASS && free / 4.0 >= pass;
    let batch = if is_joined { 2.0 } else { 1.0 };
    let tokens = batch * sizes.tokens;
    let hidden = tokens * sizes.dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let attention = 5.0 * hidden + tokens * sizes.heads * 4.0;
    let feed_forward = 2.0 * hidden + tokens * sizes.ffn * size;
    let moment = (attention + expanded.min(hidden)).max(feed_forward + expanded);
    let texts = if is_guided { 2.0 } else { 1.0 };
    let activation =
        moment + beside(job, network, &sizes, texts) + tokens * sizes.in_channels * 4.0 * size;
    let passes = if is_guided && !is_joined { 2 } else { 1 };
    Some(Need {
        calls: job.calls(passes),
        ..job.need(part, activation)
    })
}

/// What lies there in every call: the turns of the tokens, texts, pictures, the sampler's latents and answers.
fn beside(
    job: &Job<'_>,
    network: &crate::memory::network::Network,
    sizes: &Sizes,
    texts: f64,
) -> f64 {
    let size = job.number_bytes() as f64;
    let turns = sizes.tokens * (sizes.head_dim / 2.0) * 8.0;
    let mut text = texts * TEXT_LENGTH * sizes.dim * size;
    // Keys and values of one block; on the CPU of all of them.
    text *= if job.is_on_gpu() {
        3.0
    } else {
        1.0 + 2.0 * sizes.layers
    };
    let images = if network.has("image_dim") {
        3.0 * 514.0 * sizes.dim * size
    } else {
        0.0
    };
    // The latents themselves, with what stands beside them, two answers, what the sampler remembers and a guess at
    // the clip, all in f32.
    let latents = sizes.latents * 4.0 * (2.0 * sizes.in_channels + 8.0 * sizes.out_channels);
    turns + text + images + latents
}
