//! Memory needs of LTX-2.3: its networks, and the activations of their stages.
//!
//! The transformer's moments are those of `StreamBlock` in the engine.

use super::{TEXT_TOKENS, read_connectors};
use crate::families::prelude::*;
use crate::footprint::NetworkReader;
use crate::footprint::text::language;
use crate::networks::VaeHalf;
use crate::networks::ltx2::{
    LatentUpscalerConfig, Ltx2AudioVaeConfig, Ltx2ConnectorsConfig, Ltx2TransformerConfig,
    Ltx2VaeConfig, Ltx2VocoderConfig,
};

/// Tokens of a second of sound, and the samples of its waveform.
const AUDIO_TOKENS: f64 = 25.0;
const SAMPLES: f64 = 48_000.0;
/// Tensors of a level of the vocoder that are alive at its peak.
const VOCODER_PEAK: f64 = 8.0;
/// Tensors of a level of the video autoencoder that are alive at its peak, with frames before and after a chunk.
const VAE_PEAK: f64 = 6.0;

pub(super) fn read_more(
    files: &ModelFiles,
    reader: &mut NetworkReader,
) -> Result<(), CatalogError> {
    let place = |component| files.path(component);
    if let Some(connectors) = place(ModelComponent::TextConnectors) {
        let config = read_connectors(files)?;
        reader.join(PlannedNetwork::TextConnectors, connectors, config.clone())?;
        let projection = place(ModelComponent::TextProjection);
        if let Some(projection) = projection.filter(|place| *place != connectors) {
            reader.join(PlannedNetwork::TextConnectors, projection, config)?;
        }
    }
    if let Some(place) = place(ModelComponent::AudioVae) {
        let config = Ltx2AudioVaeConfig::read(place)?;
        reader.join(PlannedNetwork::AudioDecoder, place, config)?;
    }
    if let Some(place) = place(ModelComponent::Vocoder) {
        let config = Ltx2VocoderConfig::read(place)?;
        reader.join(PlannedNetwork::AudioDecoder, place, config)?;
    }
    if let Some(place) = place(ModelComponent::LatentUpscaler) {
        reader.read::<LatentUpscalerConfig>(PlannedNetwork::LatentUpscaler, place)?;
    }
    Ok(())
}

pub(super) fn needs(job: &PlannedJob<'_>, stage: Stage) -> Option<StageNeeds> {
    Some(match stage {
        Stage::EncodeText => {
            let tokens = f64::from(TEXT_TOKENS);
            [
                language(job, PlannedNetwork::TextEncoder, tokens),
                connectors(job),
            ]
        }
        Stage::EncodeImage => [encode_image(job), upscale(job)],
        Stage::Denoise => [transformer(job), None],
        Stage::Decode => [decode(job), decode_audio(job)],
        _ => return None,
    })
}

/// Frames, rows and columns of the latents.
fn latents(job: &PlannedJob<'_>) -> f64 {
    let request = job.request;
    let edge = |edge: u32| f64::from(edge) / Ltx2VaeConfig::SPATIAL_FACTOR as f64;
    let frames = f64::from(request.num_frames.saturating_sub(1));
    let frames = (frames / Ltx2VaeConfig::TEMPORAL_FACTOR as f64).floor() + 1.0;
    frames * edge(request.width) * edge(request.height)
}

/// Seconds of the sound.
fn seconds(job: &PlannedJob<'_>) -> f64 {
    f64::from(job.request.num_frames) / job.request.fps.max(1.0)
}

/// All hidden states of a text are normed in f32 before the projection; the blocks are narrower.
fn connectors(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let part = PlannedNetwork::TextConnectors;
    let (network, config) = job.configured::<Ltx2ConnectorsConfig>(part)?;
    let states = (config.caption_channels * config.text_proj_in_factor) as f64;
    let size = job.number_bytes();
    let bytes = f64::from(TEXT_TOKENS) * states * (3.0 * 4.0 + size as f64);
    Some(job.need_of((part, network), bytes, size))
}

fn encode_image(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    if !job.request.has_start() {
        return None;
    }
    let (_, config) = job.configured::<Ltx2VaeConfig>(PlannedNetwork::VaeEncoder)?;
    let bytes = vae_bytes(config, VaeHalf::Encoder, 1.0, job);
    Some(job.need(PlannedNetwork::VaeEncoder, bytes))
}

/// One latent frame at a time.
fn decode(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (_, config) = job.configured::<Ltx2VaeConfig>(PlannedNetwork::VaeDecoder)?;
    let frames = Ltx2VaeConfig::TEMPORAL_FACTOR as f64;
    let bytes = vae_bytes(config, VaeHalf::Decoder, frames, job);
    Some(job.need(PlannedNetwork::VaeDecoder, bytes))
}

/// The level at the pixels, a patch of which is one place, and the pixels themselves.
fn vae_bytes(config: &Ltx2VaeConfig, half: VaeHalf, frames: f64, job: &PlannedJob<'_>) -> f64 {
    let levels = config.levels(half);
    let level = match half {
        VaeHalf::Encoder => levels.first(),
        VaeHalf::Decoder => levels.last(),
    };
    let width = level.map_or(1.0, |level| level.width as f64);
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let places = pixels / (config.patch_size * config.patch_size) as f64;
    // A kernel sees two more frames.
    let peak = VAE_PEAK * (frames + 2.0) * places * width;
    (peak + 3.0 * 3.0 * frames * pixels) * job.number_bytes() as f64
}

/// Spectrogram and waveform are computed whole, in f32; the last levels of the vocoder are the largest.
fn decode_audio(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let part = PlannedNetwork::AudioDecoder;
    let (network, config) = job.configured::<Ltx2VocoderConfig>(part)?;
    let [_, high] = config.shapes();
    let levels = u32::try_from(high.kernels.len()).unwrap_or(0);
    let width = (high.hidden_channels >> levels.min(30)).max(1) as f64;
    let bytes = VOCODER_PEAK * seconds(job) * SAMPLES * width * 2.0 * 4.0;
    Some(job.need_of((part, network), bytes, job.number_bytes()))
}

/// All frames at once at twice the edges: what a block reads, two of its layers, and the frame of zeros around them.
fn upscale(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    job.request.second_pass?;
    let part = PlannedNetwork::LatentUpscaler;
    let (_, config) = job.configured::<LatentUpscalerConfig>(part)?;
    let bytes = 5.0 * latents(job) * config.mid_channels as f64 * job.number_bytes() as f64;
    Some(job.need(part, bytes))
}

/// The worst moment of the video's stream is in an attention (hidden states, what goes in, queries, keys, values, what
/// comes of them with gates, and the result) or in the feed-forward part.
fn transformer(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let part = PlannedNetwork::Transformer;
    let (network, config) = job.configured::<Ltx2TransformerConfig>(part)?;
    let [video, audio] = config.streams().map(|stream| stream.dim as f64);
    let size = job.number_bytes() as f64;
    let (tokens, sounds) = (latents(job), seconds(job) * AUDIO_TOKENS);
    let hidden = (tokens * video + sounds * audio) * size;
    let expanded = network.expansion_bytes(job.number_bytes()) as f64;
    // Every head has separate turns; those between the streams are as wide as the sound.
    let turns = (tokens + sounds) * (video + 2.0 * audio) * 4.0;
    let texts = f64::from(TEXT_TOKENS) * (video + audio) * 3.0 * size;
    let rows = tokens * config.in_channels as f64 + sounds * config.audio_in_channels as f64;
    let bytes = 8.0 * hidden + expanded + turns + texts + 8.0 * rows * 4.0;
    Some(StageFootprint {
        calls: job.calls(1),
        operations: job.operations(part, tokens, (video, config.num_layers as f64)),
        ..job.need(part, bytes)
    })
}
