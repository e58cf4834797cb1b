//! The last stage: latents to pictures, one after the other.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{KlVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use crate::capture::Capture;
use crate::error::EngineError;
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::pixels::rgb8_from_pixels;
use crate::place::Placement;
use crate::vae::{Bands, KlVaeDecoder, Tiling, kl};

/// Pixels that a CPU takes at once: bands cost it time.
const LARGEST_WHOLE: i64 = 1 << 20;

/// `latents`: `(B, C, h, w)`, what [`denoise`](super::denoise()) gave. Each picture goes to [`Hooks::frames`] as it is
/// made.
pub fn decode(
    request: &GenerateRequest,
    latents: &Tensor,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<()>, EngineError> {
    let home = &request.files.vae;
    let config = KlVaeConfig::read(home)?;
    let size = latents.size();
    if size.len() != 4 || size[1] != config.latent_channels || latents.numel() == 0 {
        return Err(EngineError::internal(format!(
            "these are no latents of this model: {size:?}"
        )));
    }
    let decoder = place.decoder(
        home,
        hooks,
        |w| KlVaeDecoder::new(&config, w),
        KlVaeDecoder::unexpected_keys,
    )?;
    let latents = kl::denormalize(&config, &latents.to_kind(Kind::Float));
    capture.put("vae.decode.0.input", &latents);
    let cancelled = || hooks.go_on(Site::VaeDecode).is_none();
    let mut recorded = Vec::new();
    for one in latents.split(1, 0) {
        let pixels = match (
            request.vae_tile,
            bands(&one, config.spatial_factor(), place),
        ) {
            (Some(tile), _) => {
                let tiling = Tiling::of_size(i64::from(tile));
                decoder.decode_tiled(&one, tiling, &cancelled)
            }
            (None, Some(bands)) => decoder.decode_in_bands(&one, bands, &cancelled),
            (None, None) => decoder.decode(&one, &cancelled),
        };
        let Some(pixels) = pixels else {
            return Ok(None);
        };
        hooks.frames(&rgb8_from_pixels(&pixels.unsqueeze(2)));
        if capture.is_on() {
            recorded.push(pixels.to_device(Device::Cpu).to_kind(Kind::Float));
        }
    }
    if capture.is_on() {
        let pixels = Tensor::cat(&recorded, 0);
        capture.put("vae.decode.0.output", &pixels);
        capture.put("pixels", &pixels);
        // b c h w -> b h w c
        let bytes = rgb8_from_pixels(&pixels.transpose(0, 1).unsqueeze(0));
        capture.put("output_u8", &bytes);
    }
    Ok(Some(()))
}

/// The bands in which the autoencoder goes over a picture, `(1, C, H, W)` with `factor` pixels to each number along an
/// edge; `None` where it takes the picture at once.
pub(super) fn bands(picture: &Tensor, factor: i64, place: Placement) -> Option<Bands> {
    let size = picture.size();
    let pixels = size[2] * size[3] * factor * factor;
    (place.device != Device::Cpu || pixels > LARGEST_WHOLE).then(Bands::default)
}
