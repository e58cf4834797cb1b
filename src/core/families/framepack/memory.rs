//! What a FramePack model takes: its networks, and what their stages make on their way, in one section.
//!
//! The transformer is built as Flux's is, with one sequence of text, picture, history and the section's latents.

use crate::families::flux::{Sequence, moment};
use crate::job::{SEEN_FRAMES, Stage};
use crate::memory::autoencoder::{Clip, video_decode, video_encode};
use crate::memory::text::{clip_text, llama, vision};
use crate::memory::{Headers, Job, Need, Part, PartName};
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{
    ClipTextConfig, FramePackTransformerConfig, FramePackTransformerKeys, HunyuanVaeConfig,
    KlVaeKeys, LlamaConfig, LlamaKeys, NetworkConfig as _, SiglipConfig, VaeHalf,
    clip_text as clip, framepack_transformer, siglip,
};
use crate::tokens::HunyuanPrompt;

/// Tokens of a text, as many as are read.
const TEXT_LENGTH: f64 = HunyuanPrompt::TOKENS as f64;
/// Those that Llama reads, with what stands around the text.
const READ_LENGTH: f64 = HunyuanPrompt::LENGTH as f64;
/// Tokens of the start picture.
const PICTURE_LENGTH: f64 = 729.0;
/// Tokens of a latent frame's size that the history is packed into: two frames as they are, two packed by 8 and 16 by 64.
const HISTORY: f64 = 2.0 + 2.0 / 8.0 + 16.0 / 64.0;
/// Bytes of a number in f32, in which the picture is looked at.
const EXACT_BYTES: u64 = 4;
/// Latent frames of a section where the request does not say.
const WINDOW: f64 = 9.0;

pub(super) fn parts(files: &ModelFiles, headers: &mut Headers) -> Result<Vec<Part>, CatalogError> {
    let place = &files.transformer;
    let config = FramePackTransformerConfig::read(place)?;
    let transformer = headers.part(PartName::Transformer, place, config, |config, weights| {
        let keys = FramePackTransformerKeys::of(|key| weights.has(key));
        framepack_transformer::schema(config, keys)
    })?;
    let mut parts = vec![transformer];
    for (name, half) in [
        (PartName::VaeEncoder, VaeHalf::Encoder),
        (PartName::VaeDecoder, VaeHalf::Decoder),
    ] {
        let config = HunyuanVaeConfig::read(&files.vae)?;
        parts.push(headers.part(name, &files.vae, config, |config, weights| {
            let keys = KlVaeKeys::of_video(weights);
            keys.map_or_else(Vec::new, |keys| config.schema(half, &keys))
        })?);
    }
    let place = &files.text_encoder;
    let config = LlamaConfig::read(place)?;
    parts.push(
        headers.part(PartName::TextEncoder, place, config, |config, weights| {
            let keys = LlamaKeys::of(&weights.names());
            keys.map_or_else(Vec::new, |keys| config.schema(&keys))
        })?,
    );
    if let Some(place) = &files.text_encoder_2 {
        let config = ClipTextConfig::read(place)?;
        parts.push(
            headers.part(PartName::TextEncoder2, place, config, |config, weights| {
                config.schema(clip::prefix(&weights.names()).unwrap_or_default())
            })?,
        );
    }
    if let Some(place) = &files.image_encoder {
        let config = SiglipConfig::read(place)?;
        parts.push(
            headers.part(PartName::ImageEncoder, place, config, |config, weights| {
                config.schema(siglip::prefix(&weights.names()).unwrap_or_default())
            })?,
        );
    }
    Ok(parts)
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    match stage {
        Stage::EncodeText => texts(job),
        Stage::EncodeImage => {
            let bytes = |widths: &[i64]| video_encode(widths, &picture(job), seen(job), job);
            vae(job, PartName::VaeEncoder, &bytes)
        }
        Stage::EncodeVision => encode_vision(job).into_iter().collect(),
        Stage::Denoise => transformer(job).into_iter().collect(),
        Stage::Decode => {
            let latents = 2.0 * window(job);
            let bytes = |widths: &[i64]| video_decode(widths, &picture(job), latents, job);
            vae(job, PartName::VaeDecoder, &bytes)
        }
        Stage::DenoiseHigh | Stage::DenoiseLow | Stage::Unload | Stage::Save => Vec::new(),
    }
}

/// Llama is gone before CLIP is there.
fn texts(job: &Job<'_>) -> Vec<Need> {
    let size = job.number_bytes();
    let first = job.configured::<LlamaConfig>(PartName::TextEncoder);
    let first = first.map(|encoder| {
        let bytes = llama(encoder, READ_LENGTH, size);
        job.need(PartName::TextEncoder, bytes)
    });
    let second = job.configured::<ClipTextConfig>(PartName::TextEncoder2);
    let second = second.map(|(network, config)| {
        let bytes = clip_text(network, &config.layers(), size);
        job.need(PartName::TextEncoder2, bytes)
    });
    first.into_iter().chain(second).collect()
}

fn encode_vision(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<SiglipConfig>(PartName::ImageEncoder)?;
    let sizes = (config.num_tokens() as f64, config.image_size as f64);
    let bytes = vision(&config.layers(), 1.0, sizes, EXACT_BYTES);
    let expanded = network.expansion_bytes(EXACT_BYTES) as f64;
    Some(Need {
        number_bytes: EXACT_BYTES,
        ..job.need(PartName::ImageEncoder, bytes + expanded)
    })
}

fn vae(job: &Job<'_>, part: PartName, bytes: &dyn Fn(&[i64]) -> f64) -> Vec<Need> {
    let network = job.configured::<HunyuanVaeConfig>(part);
    let need = network.map(|(_, config)| Need {
        tiles: true,
        ..job.need(part, bytes(&config.block_out_channels))
    });
    need.into_iter().collect()
}

fn window(job: &Job<'_>) -> f64 {
    let sections = job.request.sections;
    sections.map_or(WINDOW, |sections| f64::from(sections.window))
}

/// Latent frames that are encoded at once: of a picture, or of the clip that is gone on from.
fn seen(job: &Job<'_>) -> f64 {
    let lead = job.request.sections.map_or(1, |sections| sections.lead);
    match lead {
        0 | 1 => 1.0,
        _ => f64::from(SEEN_FRAMES / 4 + 1),
    }
}

fn picture(job: &Job<'_>) -> Clip {
    Clip {
        width: f64::from(job.request.width),
        height: f64::from(job.request.height),
        frames: 1.0,
        tile: job.request.vae_tile.map(f64::from),
    }
}

fn transformer(job: &Job<'_>) -> Option<Need> {
    let (network, config) = job.configured::<FramePackTransformerConfig>(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let a_frame = pixels / 256.0;
    let made = window(job) * a_frame;
    let sequence = Sequence {
        text: TEXT_LENGTH + PICTURE_LENGTH,
        picture: made + HISTORY * a_frame,
        pictures: 1.0,
        channels: 4.0 * config.in_channels as f64,
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
