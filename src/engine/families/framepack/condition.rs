//! What given pictures become before the first section: latents, and what SigLIP sees in the start.
//!
//! Opening, cropping and resizing pictures is the caller's.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _, SiglipConfig};
use tch::{Device, Kind, Tensor};

use super::decode::in_halves;
use super::prepare::{Draws, LatentShape};
use super::state::GivenImages;
use crate::capture::Capture;
use crate::error::EngineError;
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::pixels::pixels_from_rgb8;
use crate::place::{Placement, made};
use crate::vae::{HunyuanVaeEncoder, Tiling, hunyuan};
use crate::vision::{SiglipHead, SiglipImageProcessor, SiglipVisionEncoder};

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
    request: &GenerateRequest,
    pixels: &GivenPixels<'_>,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<GivenImages>, EngineError> {
    let place = in_halves(place);
    let home = &request.files.vae;
    let config = HunyuanVaeConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels, request)?;
    let new = |w: &_| HunyuanVaeEncoder::new(&config, w);
    let unexpected = HunyuanVaeEncoder::unexpected_keys;
    let encoder = place.load("autoencoder", home, hooks, new, unexpected)?;
    let mut draws = Draws::new(request.seed, shape);
    let tiling = request
        .vae_tile
        .map(|tile| Tiling::of_size(i64::from(tile)));
    let cancelled = || hooks.go_on(Site::VaeEncode).is_none();
    let mut given = Vec::new();
    for (number, (name, rgb)) in [("image", Some(pixels.start)), ("last_image", pixels.end)]
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
        let latents = hunyuan::normalize(&config, &sample);
        capture.put(format!("{name}_latents"), &latents);
        given.push(latents);
    }
    let clip = match pixels.clip {
        None => None,
        Some(clip) => {
            let Some(posterior) = encoder.encode(clip, tiling, &cancelled) else {
                return Ok(None);
            };
            // Of what is there already nothing is left to chance.
            let latents = hunyuan::normalize(&config, &posterior.mean.to_kind(Kind::Float));
            capture.put("clip_latents", &latents);
            Some(latents)
        }
    };
    let mut given = given.into_iter();
    Ok(given.next().map(|start| GivenImages {
        start,
        end: given.next(),
        clip,
    }))
}

/// What SigLIP sees in the start picture, `(1, I, C)` in f32 on the CPU. `start` and `end`: already as large as the clip,
/// RGB bytes row by row; the end picture is looked at for records alone.
///
/// Computed in f32 whatever the transformer computes in: it is small.
pub fn encode_vision(
    request: &GenerateRequest,
    start: &[u8],
    end: Option<&[u8]>,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<Tensor>, EngineError> {
    let files = &request.files;
    let home = files.image_encoder.as_deref();
    let home = home.ok_or_else(|| EngineError::request("this model has no image encoder"))?;
    let config = SiglipConfig::read(home)?;
    let processor = SiglipImageProcessor::read(files.image_processor.as_deref())?;
    processor.check(&config, files.image_processor.as_deref().unwrap_or(home))?;
    let exact = Placement {
        kind: Kind::Float,
        ..place
    };
    let weights = exact.open(home)?;
    let new = |w: &_| SiglipVisionEncoder::new(&config, w);
    let unexpected = SiglipVisionEncoder::unexpected_keys;
    let encoder = made(&weights, "image encoder", hooks, new, unexpected)?;
    let head = if capture.is_on() {
        SiglipHead::read(&config, &weights)?
    } else {
        None
    };
    drop(weights);
    let mut seen = None;
    let end = end.filter(|_| capture.is_on());
    for (name, rgb) in [("image", Some(start)), ("last_image", end)] {
        let Some(rgb) = rgb else {
            continue;
        };
        let picture = pixels_from_rgb8(rgb, request.width, request.height)?;
        let pixels = processor.pixel_values(&picture)?;
        let Some(embeds) = tch::no_grad(|| encoder.encode_pictures(&pixels, hooks)) else {
            return Ok(None);
        };
        let of = |part: &str| format!("image_encoder.{name}.{part}");
        capture.put(of("pixel_values"), &pixels);
        capture.put(of("last_hidden_state"), &embeds);
        capture.put(format!("{name}_embeds"), &embeds);
        if let Some(head) = &head {
            let pooled = tch::no_grad(|| head.pooled(&embeds));
            capture.put(of("pooler_output"), &pooled);
        }
        seen.get_or_insert(embeds);
    }
    Ok(seen.map(|embeds| embeds.to_device(Device::Cpu)))
}
