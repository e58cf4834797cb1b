//! Encoding of the start and end images before the first section: latents, and SigLIP's hidden states of the start.
//!
//! The caller opens, crops and resizes the images.

use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::prepare::{FramePackNoise, FramePackShape};
use super::state::GivenImages;
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::pixels::pixels_from_rgb8;
use crate::stages::siglip::SiglipStage;
use crate::vae::{HunyuanVaeEncoder, hunyuan};
use crate::work::StageWork;

/// Pictures and frames that a clip starts from, already as large as it.
pub struct GivenPixels<'a> {
    /// The first frame: RGB bytes row by row.
    pub start: &'a [u8],
    /// The last one.
    pub end: Option<&'a [u8]>,
    /// The last frames of a clip that is gone on from: `(1, 3, F, H, W)` in -1..1
    pub clip: Option<&'a Tensor>,
}

pub fn encode_image(
    pixels: &GivenPixels<'_>,
    work: &mut StageWork<'_>,
) -> Result<GivenImages, EngineError> {
    let request = work.request;
    let home = &request.files.vae;
    let config = HunyuanVaeConfig::read(home)?;
    let shape = FramePackShape::new(config.latent_channels, request)?;
    let new = |w: &_| HunyuanVaeEncoder::new(&config, w);
    let encoder = work.load("autoencoder", home, new, HunyuanVaeEncoder::unexpected_keys)?;
    let mut draws = FramePackNoise::new(request.seed, shape);
    let tiling = work.tiling();
    let cancelled = work.cancelled(FaultSite::VaeEncode);
    let encode = |clip: &Tensor| {
        let posterior = encoder.encode(clip, tiling, &cancelled);
        posterior.ok_or(EngineError::Cancelled)
    };
    let capture = &mut *work.capture;
    let mut picture = |number: usize, name: &str, rgb: &[u8]| {
        let pixels = pixels_from_rgb8(rgb, request.width, request.height)?;
        capture.put(format!("{name}.preprocessed"), &pixels);
        let clip = pixels.unsqueeze(2);
        capture.put(format!("vae.encode.{number}.input"), &clip);
        let posterior = encode(&clip)?.recorded(number, capture);
        let noise = draws.picture()?;
        capture.put(format!("noise.{number}"), &noise);
        let latents = hunyuan::normalize(&config, &posterior.sample(&noise));
        capture.put(format!("{name}_latents"), &latents);
        Ok::<_, EngineError>(latents)
    };
    let start = picture(0, "image", pixels.start)?;
    let end = pixels.end.map(|rgb| picture(1, "last_image", rgb));
    let end = end.transpose()?;
    let clip = match pixels.clip {
        None => None,
        Some(clip) => {
            // Of what is there already nothing is left to chance.
            let mean = encode(clip)?.mean.to_kind(Kind::Float);
            let latents = hunyuan::normalize(&config, &mean);
            work.capture.put("clip_latents", &latents);
            Some(latents)
        }
    };
    Ok(GivenImages { start, end, clip })
}

/// SigLIP's hidden states of the start image, `(1, I, C)` in f32 on the CPU. `start` and `end`: resized to the video,
/// RGB bytes row by row; the end image is only captured.
pub fn encode_vision(
    start: &[u8],
    end: Option<&[u8]>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let (request, files) = (work.request, &work.request.files);
    let home = files.image_encoder.as_deref();
    let home = home.ok_or_else(|| EngineError::request("this model has no image encoder"))?;
    let looking = SiglipStage::open(home, files.image_processor.as_deref(), work)?;
    let is_recorded = work.capture.is_on();
    let mut look = |name: &str, rgb: &[u8]| {
        let picture = pixels_from_rgb8(rgb, request.width, request.height)?;
        let pixels = looking.processor.pixel_values(&picture)?;
        let embeds = looking.look(name, &pixels, work)?;
        work.capture.put(format!("{name}_embeds"), &embeds);
        Ok::<_, EngineError>(embeds.to_device(Device::Cpu))
    };
    let seen = look("image", start)?;
    if let (Some(end), true) = (end, is_recorded) {
        drop(look("last_image", end)?);
    }
    Ok(seen)
}
