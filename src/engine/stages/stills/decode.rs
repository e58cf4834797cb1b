//! The last stage: latents to pictures, one after the other.

use safelight_core::networks::{KlVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::fault::Site;
use crate::pixels::{checked_rgb8, rgb8_from_pixels};
use crate::stages::pictures::KeptPixels;
use crate::vae::{Bands, KlVaeDecoder, KlWay, kl};
use crate::work::Work;

/// Pixels that a CPU takes at once: bands cost it time.
const LARGEST_WHOLE: i64 = 1 << 20;

/// `latents`: `(B, C, h, w)`, what denoising gave; `kept`: what stays of a given picture. Each
/// picture goes to `Hooks::frames` as it is made.
pub(crate) fn decode(
    latents: &Tensor,
    kept: Option<&KeptPixels>,
    work: &mut Work<'_>,
) -> Result<(), EngineError> {
    let home = &work.request.files.vae;
    let config = KlVaeConfig::read(home)?;
    let size = latents.size();
    if size.len() != 4 || size[1] != config.latent_channels || latents.numel() == 0 {
        return Err(EngineError::internal(format!(
            "these are no latents of this model: {size:?}"
        )));
    }
    let new = |w: &_| KlVaeDecoder::new(&config, w);
    let decoder = work.decoder(home, new, KlVaeDecoder::unexpected_keys)?;
    let latents = kl::denormalize(&config, &latents.to_kind(Kind::Float));
    work.capture.put("vae.decode.0.input", &latents);
    let mut recorded = Vec::new();
    for one in latents.split(1, 0) {
        let way = way(&one, config.spatial_factor(), work);
        let pixels = decoder.decode(&one, way, &work.cancelled(Site::VaeDecode));
        let pixels = pixels.ok_or(EngineError::Cancelled)?;
        let made = checked_rgb8(&pixels.unsqueeze(2))?;
        match kept {
            Some(kept) => work.hooks.frames(&kept.over(&made)),
            None => work.hooks.frames(&made),
        }
        if work.capture.is_on() {
            recorded.push(pixels.to_device(Device::Cpu).to_kind(Kind::Float));
        }
    }
    if work.capture.is_on() {
        let capture = &mut *work.capture;
        let pixels = Tensor::cat(&recorded, 0);
        capture.put("vae.decode.0.output", &pixels);
        capture.put("pixels", &pixels);
        // b c h w -> b h w c
        let bytes = rgb8_from_pixels(&pixels.transpose(0, 1).unsqueeze(0));
        capture.put("output_u8", &bytes);
    }
    Ok(())
}

/// How the autoencoder goes over a picture, `(1, C, H, W)` with `factor` pixels to each number along an edge.
pub(super) fn way(picture: &Tensor, factor: i64, work: &Work<'_>) -> KlWay {
    let size = picture.size();
    let pixels = size[2] * size[3] * factor * factor;
    match work.tiling() {
        Some(tiling) => KlWay::Tiles(tiling),
        None if work.place.device == Device::Cpu && pixels <= LARGEST_WHOLE => KlWay::Whole,
        None => KlWay::Bands(Bands::default()),
    }
}
