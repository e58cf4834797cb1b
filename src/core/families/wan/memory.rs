//! What a Wan model takes: its networks, and what their stages make on their way.
//!
//! The transformer's moments are those of `Block::forward` in the engine.

use super::TEXT_TOKENS;
use crate::job::Stage;
use crate::memory::autoencoder::{Clip, wan_decode, wan_encode};
use crate::memory::text::{t5, vision};
use crate::memory::{Headers, Job, Need, Part, PartName};
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{
    ClipVisionConfig, NetworkConfig as _, T5Config, T5Keys, T5Kind, TransformerKeys, VaeHalf,
    WanTransformerConfig, WanVaeConfig, WanVaeKeys, clip_vision, wan_transformer,
};

/// Passes of the guidance go together where one needs at most this much, see the engine's `guidance.rs`.
const LARGEST_JOINED_PASS: f64 = 1073741824.0;

pub(super) fn parts(files: &ModelFiles, headers: &mut Headers) -> Result<Vec<Part>, CatalogError> {
    let mut parts = Vec::new();
    let transformers = [
        (PartName::Transformer, Some(&files.transformer)),
        (PartName::Transformer2, files.transformer_2.as_ref()),
    ];
    for (name, place) in transformers {
        if let Some(place) = place {
            let config = WanTransformerConfig::read(place)?;
            parts.push(headers.part(name, place, config, |config, weights| {
                wan_transformer::schema(config, TransformerKeys::of(|key| weights.has(key)))
            })?);
        }
    }
    for (name, half) in [
        (PartName::VaeEncoder, VaeHalf::Encoder),
        (PartName::VaeDecoder, VaeHalf::Decoder),
    ] {
        let config = WanVaeConfig::read(&files.vae)?;
        parts.push(headers.part(name, &files.vae, config, |config, weights| {
            config.schema(half, &WanVaeKeys::of(weights))
        })?);
    }
    let place = &files.text_encoder;
    let config = T5Config::read_as(T5Kind::Umt5, place)?;
    parts.push(
        headers.part(PartName::TextEncoder, place, config, |config, weights| {
            config.schema(&T5Keys::of(&weights.names()).unwrap_or_default())
        })?,
    );
    if let Some(place) = &files.image_encoder {
        let config = ClipVisionConfig::read(place)?;
        parts.push(
            headers.part(PartName::ImageEncoder, place, config, |config, weights| {
                config.schema(clip_vision::prefix(weights.names()).unwrap_or_default())
            })?,
        );
    }
    Ok(parts)
}

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
    let encoder = job.configured::<T5Config>(PartName::TextEncoder)?;
    let bytes = t5(encoder, f64::from(TEXT_TOKENS), job.number_bytes());
    Some(job.need(PartName::TextEncoder, bytes))
}

fn encode_vision(job: &Job<'_>) -> Option<Need> {
    let (_, config) = job.configured::<ClipVisionConfig>(PartName::ImageEncoder)?;
    let pictures = 1.0 + f64::from(u8::from(job.request.last_image.is_some()));
    let sizes = (config.num_tokens() as f64, config.image_size as f64);
    // In f32 as a whole.
    let bytes = vision(&config.layers(), pictures, sizes, 4);
    Some(Need {
        number_bytes: 4,
        ..job.need(PartName::ImageEncoder, bytes)
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
    let (_, config) = job.configured(PartName::VaeEncoder)?;
    let mut clip = clip(job);
    if job.request.files.expand_timesteps {
        // The first frame alone.
        clip.frames = 1.0;
    }
    let bytes = wan_encode(config, &clip, job.number_bytes() as f64);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeEncoder, bytes)
    })
}

fn decode(job: &Job<'_>) -> Option<Need> {
    let (_, config) = job.configured(PartName::VaeDecoder)?;
    let bytes = wan_decode(config, &clip(job), job.number_bytes() as f64);
    Some(Need {
        tiles: true,
        ..job.need(PartName::VaeDecoder, bytes)
    })
}

/// A transformer and the clip as it sees it.
struct Sizes<'a> {
    config: &'a WanTransformerConfig,
    tokens: f64,
    /// Numbers of one channel of the clip's latents.
    latents: f64,
}

fn sizes<'a>(job: &Job<'a>, config: &'a WanTransformerConfig) -> Option<Sizes<'a>> {
    let (_, vae) = job.configured::<WanVaeConfig>(PartName::VaeDecoder)?;
    let (space, time) = (vae.spatial_factor() as f64, vae.temporal_factor() as f64);
    let request = job.request;
    let latent_frames = ((f64::from(request.num_frames) - 1.0) / time)
        .floor()
        .max(0.0)
        + 1.0;
    let latents =
        latent_frames * (f64::from(request.width) / space) * (f64::from(request.height) / space);
    let patch = config.patch_size.iter().product::<i64>() as f64;
    Some(Sizes {
        config,
        tokens: latents / patch,
        latents,
    })
}

/// The worst moment is in the self-attention (hidden states, queries, keys, values and what comes of them) or in the
/// feed-forward part (hidden states, what goes in or comes out, and the wide layer, changed in place).
fn transformer(job: &Job<'_>, part: PartName) -> Option<Need> {
    let (network, config) = job.configured(part)?;
    let sizes = sizes(job, config)?;
    let [dim, ffn] = [config.dim(), config.ffn_dim].map(|it| it as f64);
    let size = job.number_bytes() as f64;
    let guidance = if part == PartName::Transformer2 {
        job.request.low_guidance_scale()
    } else {
        job.request.guidance_scale
    };
    let is_guided = guidance > 1.0;
    let pass = sizes.tokens * (8.0 * dim + 2.0 * ffn) * size;
    let weights = network.bytes(job.number_bytes());
    let free = job.available_bytes.saturating_sub(weights) as f64;
    let is_joined =
        is_guided && job.is_on_gpu() && pass <= LARGEST_JOINED_PASS && free / 4.0 >= pass;
    let batch = if is_joined { 2.0 } else { 1.0 };
    let tokens = batch * sizes.tokens;
    let hidden = tokens * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let attention = 5.0 * hidden + tokens * config.num_attention_heads as f64 * 4.0;
    let feed_forward = 2.0 * hidden + tokens * ffn * size;
    let moment = (attention + expanded.min(hidden)).max(feed_forward + expanded);
    let texts = if is_guided { 2.0 } else { 1.0 };
    let activation =
        moment + beside(job, &sizes, texts) + tokens * config.in_channels as f64 * 4.0 * size;
    let passes = if is_guided && !is_joined { 2 } else { 1 };
    Some(Need {
        calls: job.calls(passes),
        ..job.need(part, activation)
    })
}

/// What lies there in every call: the rotary angles of the tokens, texts, pictures, the sampler's latents and answers.
fn beside(job: &Job<'_>, sizes: &Sizes<'_>, texts: f64) -> f64 {
    let Sizes {
        config,
        tokens,
        latents,
    } = sizes;
    let size = job.number_bytes() as f64;
    let dim = config.dim() as f64;
    let angles = tokens * (config.attention_head_dim as f64 / 2.0) * 8.0;
    let mut text = texts * f64::from(TEXT_TOKENS) * dim * size;
    // Keys and values of one block; on the CPU of all of them.
    text *= if job.is_on_gpu() {
        3.0
    } else {
        1.0 + 2.0 * config.num_layers as f64
    };
    let images = if config.image_dim.is_some() {
        3.0 * 514.0 * dim * size
    } else {
        0.0
    };
    // The latents themselves, with what stands beside them, two answers, what the sampler remembers and a guess at
    // the clip, all in f32.
    let channels = 2 * config.in_channels + 8 * config.out_channels;
    angles + text + images + latents * 4.0 * channels as f64
}
