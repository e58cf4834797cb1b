//! FramePack: what Llama, CLIP, SigLIP, its autoencoder and its transformer make, in one section.
//!
//! The transformer is built as Flux's is, with one sequence of text, picture, history and the section's latents.

use super::autoencoder::{Clip, video_decode, video_encode};
use super::flux::{Sequence, moment};
use super::text::{clip_text, llama, siglip};
use super::{Job, Need};
use crate::job::{SEEN_FRAMES, Stage};
use crate::memory::parts::PartName;

/// Tokens of a text, as many as are read.
const TEXT_LENGTH: f64 = 256.0;
/// What Llama is told beside the text.
const TEMPLATE_LENGTH: f64 = 95.0;
/// Tokens of the start picture.
const PICTURE_LENGTH: f64 = 729.0;
/// Tokens of a latent frame's size that the history is packed into: two frames as they are, two packed by 8 and 16 by 64.
const HISTORY: f64 = 2.0 + 2.0 / 8.0 + 16.0 / 64.0;
/// Bytes of a number in f32, in which the picture is looked at.
const EXACT_BYTES: u64 = 4;
/// Latent frames of a section where the request does not say.
const WINDOW: f64 = 9.0;

pub(super) fn needs(job: &Job<'_>, stage: Stage) -> Vec<Need> {
    let size = job.number_bytes();
    let of = |part: PartName, bytes: f64| job.network(part).map(|_| job.need(part, bytes));
    match stage {
        Stage::EncodeText => {
            let first = job.network(PartName::TextEncoder);
            let first = first.map(|it| llama(it, TEXT_LENGTH + TEMPLATE_LENGTH, size));
            let second = job.network(PartName::TextEncoder2);
            let second = second.map(|it| clip_text(it, size));
            let first = first.and_then(|bytes| of(PartName::TextEncoder, bytes));
            let second = second.and_then(|bytes| of(PartName::TextEncoder2, bytes));
            first.into_iter().chain(second).collect()
        }
        Stage::EncodeImage => {
            let bytes = video_encode(&picture(job), seen(job), job);
            vae(job, PartName::VaeEncoder, bytes)
        }
        Stage::EncodeVision => {
            let network = job.network(PartName::ImageEncoder);
            let bytes = network.map(|it| siglip(it, EXACT_BYTES));
            let need = bytes.and_then(|bytes| of(PartName::ImageEncoder, bytes));
            let exact = need.map(|need| Need {
                number_bytes: EXACT_BYTES,
                ..need
            });
            exact.into_iter().collect()
        }
        Stage::Denoise => transformer(job).into_iter().collect(),
        Stage::Decode => {
            let bytes = video_decode(&picture(job), 2.0 * window(job), job);
            vae(job, PartName::VaeDecoder, bytes)
        }
        Stage::DenoiseHigh | Stage::DenoiseLow | Stage::Unload | Stage::Save => Vec::new(),
    }
}

fn vae(job: &Job<'_>, part: PartName, bytes: f64) -> Vec<Need> {
    vec![Need {
        tiles: true,
        ..job.need(part, bytes)
    }]
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
    let network = job.network(PartName::Transformer)?;
    let pixels = f64::from(job.request.width) * f64::from(job.request.height);
    let a_frame = pixels / 256.0;
    let made = window(job) * a_frame;
    let sequence = Sequence {
        text: TEXT_LENGTH + PICTURE_LENGTH,
        picture: made + HISTORY * a_frame,
        pictures: 1.0,
        channels: 4.0 * network.number("in_channels", 16.0),
        default_blocks: (20.0, 40.0),
    };
    let passes = if job.request.is_guided() { 2 } else { 1 };
    Some(Need {
        calls: job.calls(passes),
        ..job.need(PartName::Transformer, moment(job, network, &sequence))
    })
}
