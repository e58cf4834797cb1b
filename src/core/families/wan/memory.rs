//! Memory needs of a Wan model: its networks, and the activations of their stages.
//!
//! The transformer's moments are those of `Block::forward` in the engine.

use super::TEXT_TOKENS;
use crate::families::prelude::*;
use crate::footprint::autoencoder::{wan_decode, wan_encode};
use crate::footprint::text::vision;
use crate::networks::{ClipVisionConfig, WanTransformerConfig, WanVaeConfig};

/// Passes of the guidance go together where one needs at most this much, see the engine's `guidance.rs`.
const LARGEST_JOINED_PASS: f64 = 1073741824.0;

/// Channels of the input of models that see images, and the width of the embeddings of CLIP ViT-H, which some of them read.
const SEEING: (i64, i64) = (36, 1280);

/// The transformer of a published model, which its shape tells.
pub(super) fn published(shape: &TransformerShape) -> WanTransformerConfig {
    let latents = if shape.channels == 48 { 48 } else { 16 };
    let width = shape.heads * shape.head_dim;
    // Blocks beyond those of any model without a control video are for that.
    let plain = if width > 4000 { 40 } else { 30 };
    let num_layers = shape.layers.min(plain);
    let num_control = shape.layers - num_layers;
    let stride = num_layers / num_control.max(1);
    WanTransformerConfig {
        num_attention_heads: shape.heads,
        attention_head_dim: shape.head_dim,
        num_layers,
        vace_layers: (0..num_control).map(|n| n * stride).collect(),
        in_channels: shape.channels,
        out_channels: latents,
        image_dim: (shape.channels == SEEING.0).then_some(SEEING.1),
        ffn_dim: match width {
            ..2500 => 8960,
            2500..4000 => 14_336,
            _ => 13_824,
        },
        ..WanTransformerConfig::default()
    }
}

pub(super) fn needs(job: &PlannedJob<'_>, stage: Stage) -> Option<StageNeeds> {
    let is_second_pass = job.request.second_pass.is_some();
    Some(match stage {
        // Frames of the first pass, and what they are enlarged to.
        Stage::EncodeImage if is_second_pass => [decode(job), encode_image(job)],
        Stage::EncodeImage => [encode_image(job), None],
        Stage::EncodeVision => [encode_vision(job), None],
        Stage::Denoise | Stage::DenoiseHigh => {
            [transformer(job, PlannedNetwork::Transformer), None]
        }
        Stage::DenoiseLow => [transformer(job, PlannedNetwork::Transformer2), None],
        Stage::Decode => [decode(job), None],
        _ => return None,
    })
}

fn encode_vision(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (_, config) = job.configured::<ClipVisionConfig>(PlannedNetwork::ImageEncoder)?;
    let images = 1.0 + f64::from(u8::from(job.request.last_image.is_some()));
    let sizes = (config.num_tokens() as f64, config.image_size as f64);
    // In f32 as a whole.
    let bytes = vision(&config.layers(), images, sizes, 4);
    Some(StageFootprint {
        number_bytes: 4,
        ..job.need(PlannedNetwork::ImageEncoder, bytes)
    })
}

fn encode_image(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (_, config) = job.configured(PlannedNetwork::VaeEncoder)?;
    let request = job.request;
    let sees_first_alone = request.files.expand_timesteps
        && request.mask.is_none()
        && request.source_video.is_none()
        && request.second_pass.is_none();
    let frames = if sees_first_alone {
        1
    } else {
        request.num_frames
    };
    let bytes = wan_encode(
        config,
        &PixelVolume::of(job, frames),
        job.number_bytes() as f64,
    );
    Some(job.vae_need(PlannedNetwork::VaeEncoder, bytes))
}

fn decode(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (_, config) = job.configured(PlannedNetwork::VaeDecoder)?;
    let video = PixelVolume::of(job, job.request.num_frames);
    let bytes = wan_decode(config, &video, job.number_bytes() as f64);
    Some(job.vae_need(PlannedNetwork::VaeDecoder, bytes))
}

/// A transformer and the video as it sees it.
struct WanSizes<'a> {
    config: &'a WanTransformerConfig,
    tokens: f64,
    /// Numbers of one channel of the video's latents.
    latents: f64,
}

fn sizes<'a>(job: &PlannedJob<'a>, config: &'a WanTransformerConfig) -> Option<WanSizes<'a>> {
    let (_, vae) = job.configured::<WanVaeConfig>(PlannedNetwork::VaeDecoder)?;
    let (space, time) = (vae.spatial_factor() as f64, vae.temporal_factor() as f64);
    let request = job.request;
    let video_frames = ((f64::from(request.num_frames) - 1.0) / time)
        .floor()
        .max(0.0)
        + 1.0;
    let latent_frames = video_frames + request.references.len() as f64;
    let latents =
        latent_frames * (f64::from(request.width) / space) * (f64::from(request.height) / space);
    let patch = config.patch_size.iter().product::<i64>() as f64;
    Some(WanSizes {
        config,
        tokens: latents / patch,
        latents,
    })
}

/// The worst moment is in the self-attention (hidden states, queries, keys, values and what comes of them) or in the
/// feed-forward part (hidden states, what goes in or comes out, and the wide layer, changed in place).
///
/// Control blocks run between the others with separate hidden states, which stay, as do the inputs of the first.
fn transformer(job: &PlannedJob<'_>, part: PlannedNetwork) -> Option<StageFootprint> {
    let (network, config) = job.configured(part)?;
    let sizes = sizes(job, config)?;
    let [dim, ffn] = [config.dim(), config.ffn_dim].map(|it| it as f64);
    let size = job.number_bytes() as f64;
    let guidance = if part == PlannedNetwork::Transformer2 {
        job.request.sampling.low_guidance_scale()
    } else {
        job.request.sampling.guidance_scale
    };
    let is_guided = guidance > 1.0;
    let pass = sizes.tokens * (8.0 * dim + 2.0 * ffn) * size;
    let weights = network.bytes(job.number_bytes());
    let free = job.available_bytes.saturating_sub(weights) as f64;
    let is_joined =
        is_guided && job.joins_passes() && pass <= LARGEST_JOINED_PASS && free / 4.0 >= pass;
    let batch = if is_joined { 2.0 } else { 1.0 };
    let tokens = batch * sizes.tokens;
    let hidden = tokens * dim * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    let attention = 5.0 * hidden + tokens * config.num_attention_heads as f64 * 4.0;
    let feed_forward = 2.0 * hidden + tokens * ffn * size;
    let moment = (attention + expanded.min(hidden)).max(feed_forward + expanded);
    let texts = if is_guided { 2.0 } else { 1.0 };
    let kept = job.step_cache_bytes(hidden, texts);
    let input = tokens * config.in_channels as f64 * 4.0 * size;
    let control = if config.has_control() {
        hidden + sizes.tokens * dim * size
    } else {
        0.0
    };
    let activation = moment + control + beside(job, &sizes, texts) + input + kept;
    let passes = if is_guided && !is_joined { 2 } else { 1 };
    let layers = config.num_layers + config.vace_layers.len() as i64;
    let one_pass = job.operations(part, sizes.tokens, (dim, layers as f64));
    Some(StageFootprint {
        calls: job.calls(passes),
        operations: batch * one_pass,
        attended: batch * sizes.tokens * dim * layers as f64,
        ..job.need(part, activation)
    })
}

/// Bytes of every call: rotary angles of the tokens, texts, images, the sampler's latents and predictions.
fn beside(job: &PlannedJob<'_>, sizes: &WanSizes<'_>, texts: f64) -> f64 {
    let WanSizes {
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
        1.0 + 2.0 * (config.num_layers as f64 + config.vace_layers.len() as f64)
    };
    let images = if config.image_dim.is_some() {
        3.0 * 514.0 * dim * size
    } else {
        0.0
    };
    // The latents themselves, with their conditions, two predictions, the sampler's history and an estimate of the
    // video, all in f32.
    let mut channels = 2 * config.in_channels + 8 * config.out_channels;
    if job.request.mask.is_some() {
        // The unmasked latents, and their noise.
        channels += 3 * config.out_channels;
    }
    if config.has_control() {
        channels += config.vace_in_channels;
    }
    angles + text + images + latents * 4.0 * channels as f64
}
