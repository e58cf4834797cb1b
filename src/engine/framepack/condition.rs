//! What given pictures become before the first section: latents, and what SigLIP sees in the start.
//!
//! Opening, cropping and resizing pictures is the caller's.

use safelight_core::job::GenerateRequest;
use tch::{Device, Kind, Tensor};

use super::decode::in_halves;
use super::prepare::{Draws, LatentShape};
use super::state::GivenImages;
use crate::capture::Capture;
use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::pixels::pixels_from_rgb8;
use crate::place::{Placement, warn_unexpected};
use crate::vae::{HunyuanVaeConfig, HunyuanVaeEncoder, Tiling};
use crate::vision::{SiglipImageProcessor, SiglipVisionConfig, SiglipVisionEncoder};

/// `start` and `end`: the first and last frame, already as large as the clip, RGB bytes row by row.
pub fn encode_image(
    request: &GenerateRequest,
    start: &[u8],
    end: Option<&[u8]>,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<GivenImages>, EngineError> {
    let place = in_halves(place);
    let home = &request.files.vae;
    let config = HunyuanVaeConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels, request)?;
    let weights = place.open(home)?;
    let encoder = HunyuanVaeEncoder::new(&config, &weights)?;
    let unexpected = HunyuanVaeEncoder::unexpected_keys(&weights);
    warn_unexpected(&unexpected, "autoencoder", hooks);
    let mut draws = Draws::new(request.seed, shape);
    let tiling = request
        .vae_tile
        .map(|tile| Tiling::of_size(i64::from(tile)));
    let cancelled = || {
        fault::at(Site::VaeEncode);
        hooks.cancelled()
    };
    let mut given = Vec::new();
    for (number, (name, rgb)) in [("image", Some(start)), ("last_image", end)]
        .into_iter()
        .filter_map(|(name, rgb)| Some((name, rgb?)))
        .enumerate()
    {
        let pixels = pixels_from_rgb8(rgb, request.width, request.height)?;
        capture.put(format!("{name}.preprocessed"), &pixels);
        let clip = pixels.unsqueeze(2);
        let part = |part: &str| format!("vae.encode.{number}.{part}");
        capture.put(part("input"), &clip);
        let Some(posterior) = encoder.encode(&clip, tiling, &cancelled) else {
            return Ok(None);
        };
        let mean = posterior.mean.to_kind(Kind::Float);
        let logvar = posterior.logvar.to_kind(Kind::Float);
        capture.put(part("mean"), &mean);
        capture.put(part("logvar"), &logvar);
        let noise = draws.picture()?;
        capture.put(format!("noise.{number}"), &noise);
        let sample = &mean + (logvar * 0.5).exp() * noise.to_device(mean.device());
        let latents = config.normalize(&sample);
        capture.put(format!("{name}_latents"), &latents);
        given.push(latents);
    }
    let mut given = given.into_iter();
    Ok(given.next().map(|start| GivenImages {
        start,
        end: given.next(),
    }))
}

/// What SigLIP sees in the start picture, `(1, I, C)` in f32 on the CPU. `start`: already as large as the clip, RGB bytes
/// row by row.
///
/// Computed in f32 whatever the transformer computes in: it is small.
pub fn encode_vision(
    request: &GenerateRequest,
    start: &[u8],
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Tensor>, EngineError> {
    let files = &request.files;
    let home = files.image_encoder.as_deref();
    let home = home.ok_or_else(|| EngineError::Request {
        reason: "this model has no image encoder".to_owned(),
    })?;
    let config = SiglipVisionConfig::read(home)?;
    let processor = SiglipImageProcessor::read(files.image_processor.as_deref())?;
    processor.check(&config, files.image_processor.as_deref().unwrap_or(home))?;
    let picture = pixels_from_rgb8(start, request.width, request.height)?;
    let pixels = processor.pixel_values(&picture)?;
    capture.put("image_encoder.image.pixel_values", &pixels);
    let exact = Placement {
        kind: Kind::Float,
        ..place
    };
    let weights = exact.open(home)?;
    let encoder = SiglipVisionEncoder::new(&config, &weights)?;
    let unexpected = SiglipVisionEncoder::unexpected_keys(&weights);
    warn_unexpected(&unexpected, "image encoder", hooks);
    drop(weights);
    let Some(embeds) = tch::no_grad(|| encoder.encode_pictures(&pixels, hooks)) else {
        return Ok(None);
    };
    capture.put("image_encoder.image.last_hidden_state", &embeds);
    capture.put("image_embeds", &embeds);
    Ok(Some(embeds.to_device(Device::Cpu)))
}
