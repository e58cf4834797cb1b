//! What given pictures become before the first section: latents, and what SigLIP sees in the start.
//!
//! Opening, cropping and resizing pictures is the caller's.

use safelight_core::job::GenerateRequest;
use tch::Kind;

use super::decode::in_halves;
use super::prepare::{Draws, LatentShape};
use super::state::GivenImages;
use crate::capture::Capture;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::pixels::pixels_from_rgb8;
use crate::place::{Placement, warn_unexpected};
use crate::vae::{HunyuanVaeConfig, HunyuanVaeEncoder, Tiling};

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
    let cancelled = || hooks.cancelled();
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
