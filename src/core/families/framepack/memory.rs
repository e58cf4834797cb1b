//! What a FramePack model takes: its networks, and what their stages make on their way, in one section.
//!
//! The transformer is built as Flux's is, with one sequence of text, picture, history and the section's latents.

use std::sync::Arc;

use super::LANGUAGE;
use crate::families::PublishedNetwork;
use crate::job::{SEEN_FRAMES, Stage};
use crate::memory::autoencoder::{Clip, video_decode, video_encode};
use crate::memory::streams::{Sequence, streams};
use crate::memory::text::{clip_text, language, siglip};
use crate::memory::{Job, Need, NetworkReader, PartName};
use crate::model::facts::TransformerShape;
use crate::model::{CatalogError, ModelFiles};
use crate::networks::{
    ClipTextConfig, FramePackTransformerConfig, HunyuanVaeConfig, LanguageConfig, SiglipConfig,
};
use crate::tokens::HUNYUAN_PROMPT;

/// Tokens of a text, as many as are read.
const TEXT_LENGTH: f64 = HUNYUAN_PROMPT.room as f64;
/// Those that Llama reads, with what stands around the text.
const READ_LENGTH: f64 = HUNYUAN_PROMPT.length() as f64;
/// Tokens of the start picture.
const PICTURE_LENGTH: f64 = 729.0;
/// Tokens of a latent frame's size that the history is packed into: two frames as they are, two packed by 8 and 16 by 64.
const HISTORY: f64 = 2.0 + 2.0 / 8.0 + 16.0 / 64.0;
/// Latent frames of a section where the request does not say.
const WINDOW: f64 = 9.0;

pub(super) fn networks(files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
    reader.read::<FramePackTransformerConfig>(PartName::Transformer, &files.transformer)?;
    reader.autoencoder::<HunyuanVaeConfig>(&files.vae)?;
    let language = LANGUAGE.read(&files.text_encoder)?;
    reader.with_config(PartName::TextEncoder, &files.text_encoder, language)?;
    if let Some(place) = &files.text_encoder_2 {
        reader.read::<ClipTextConfig>(PartName::TextEncoder2, place)?;
    }
    if let Some(place) = &files.image_encoder {
        reader.read::<SiglipConfig>(PartName::ImageEncoder, place)?;
    }
    Ok(())
}

/// The networks of a published model: there is one shape.
pub(super) fn published(_: &TransformerShape) -> Vec<PublishedNetwork> {
    let transformer = FramePackTransformerConfig::default();
    vec![
        (PartName::Transformer, Arc::new(transformer)),
        (
            PartName::TextEncoder,
            Arc::new(LanguageConfig::llama3(LANGUAGE.tap)),
        ),
        (PartName::VaeDecoder, Arc::new(HunyuanVaeConfig::default())),
    ]
}

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let needs = match stage {
        // Llama is gone before CLIP is there.
        Stage::EncodeText => [
            language(job, PartName::TextEncoder, READ_LENGTH),
            clip_text(job, PartName::TextEncoder2),
        ],
        Stage::EncodeImage => {
            let bytes = |widths: &[i64]| video_encode(widths, &Clip::of(job, 1), seen(job), job);
            [vae(job, PartName::VaeEncoder, &bytes), None]
        }
        Stage::EncodeVision => [siglip(job), None],
        Stage::Denoise => [transformer(job), None],
        Stage::Decode => {
            let latents = 2.0 * window(job);
            let bytes = |widths: &[i64]| video_decode(widths, &Clip::of(job, 1), latents, job);
            [vae(job, PartName::VaeDecoder, &bytes), None]
        }
        Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Save => [None, None],
    };
    needs.into_iter().flatten().collect()
}

fn vae(job: &Job<'_>, part: PartName, bytes: &dyn Fn(&[i64]) -> f64) -> Option<Need> {
    let (_, config) = job.configured::<HunyuanVaeConfig>(part)?;
    Some(job.vae_need(part, bytes(&config.block_out_channels)))
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
        shape: config.streams(),
    };
    Some(streams(job, network, &sequence))
}
