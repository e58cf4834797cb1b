//! The last stage: latents to images, one after the other.

use safelight_core::media::RgbPixels;
use tch::{Device, Kind, Tensor};

use super::autoencoder::{ImageAutoencoder, ImageDecoder};
use crate::pixels::{checked_rgb8, rgb8_from_pixels};
use crate::stages::job_images::PixelRestore;
use crate::{EngineError, StageWork};

/// `latents`: `(1, C, h, w)`, what denoising gave -> the image, in the bytes that a file would have.
pub(crate) fn decoded_image(
    latents: &Tensor,
    work: &StageWork<'_>,
) -> Result<RgbPixels, EngineError> {
    let (autoencoder, decoder, own) = open(latents, work)?;
    let own = decoder(&own).ok_or(EngineError::Cancelled)?;
    let bytes = checked_rgb8(&autoencoder.images(&own).unsqueeze(2))?.squeeze_dim(0);
    let (height, width, _) = bytes.size3()?;
    let rgb = Vec::<u8>::try_from(bytes.narrow(2, 0, 3).flatten(0, -1))?;
    Ok(RgbPixels::new(width as u32, height as u32, rgb)?)
}

/// `latents`: `(B, C, h, w)`, what denoising gave; `kept`: what stays of a given image. Each image goes to
/// `Hooks::frames` as it is made.
pub(crate) fn decode(
    latents: &Tensor,
    kept: Option<&PixelRestore>,
    work: &mut StageWork<'_>,
) -> Result<(), EngineError> {
    let (autoencoder, decoder, latents) = open(latents, work)?;
    work.capture.put("vae.decode.0.input", &latents);
    let mut recorded = Vec::new();
    for one in latents.split(1, 0) {
        let own = decoder(&one).ok_or(EngineError::Cancelled)?;
        let pixels = autoencoder.images(&own);
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
        capture.put("vae.decode.0.output", &autoencoder.own_shape(&pixels));
        capture.put("pixels", &pixels);
        // b c h w -> b h w c
        let bytes = rgb8_from_pixels(&pixels.transpose(0, 1).unsqueeze(0));
        capture.put("output_u8", &bytes);
    }
    Ok(())
}

/// The job's autoencoder, its decoder, and what that takes of `latents`.
fn open<'a>(
    latents: &Tensor,
    work: &StageWork<'a>,
) -> Result<(ImageAutoencoder, ImageDecoder<'a>, Tensor), EngineError> {
    let autoencoder = ImageAutoencoder::read(&work.request.files.vae)?;
    let size = latents.size();
    if size.len() != 4 || size[1] != autoencoder.latent_channels() || latents.numel() == 0 {
        return Err(EngineError::internal(format!(
            "these are no latents of this model: {size:?}"
        )));
    }
    let decoder = autoencoder.decoder(work)?;
    let own = autoencoder.own_shape(&latents.to_kind(Kind::Float));
    let own = autoencoder.denormalize(&own);
    Ok((autoencoder, decoder, own))
}
