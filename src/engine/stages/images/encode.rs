//! Encoding of start images with masks, control images and reference images.
//!
//! Callers open and crop images.

use safelight_core::job::GenerateRequest;
use safelight_core::media::{self, RgbPixels};
use safelight_core::model::ImageRole;
use tch::{Kind, Tensor};

use super::autoencoder::{ImageAutoencoder, ImageEncoder};
use super::controlnet::ControlEncoding;
use super::latents::{NoiseDraws, seeds};
use super::state::{EncodedImage, EncodedImages};
use crate::fault::FaultSite;
use crate::pixels::pixels_from_rgb8;
use crate::stages::job_images;
use crate::vae::Posterior;
use crate::{EngineError, StageCapture, StageWork};

/// Luma of a mask from which on pixels are denoised.
const MASKED_FROM: u32 = 128;
/// The luma from which on a pixel counts as white.
const WHITE_FROM: u32 = 248;

/// Use of a start image: base of image to image, or canvas to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartImageMode {
    Base,
    Canvas,
}

impl StartImageMode {
    pub fn of(request: &GenerateRequest) -> Self {
        match request.image_role {
            ImageRole::FirstFrame | ImageRole::Base => Self::Base,
            ImageRole::Canvas => Self::Canvas,
        }
    }
}

#[derive(Clone, Copy)]
pub struct ReferenceEncoding {
    /// Resizes an opened image to whole tokens.
    pub prepared: fn(&RgbPixels, &GenerateRequest) -> Result<RgbPixels, EngineError>,
    /// Name of image `n`, counted from 0, in captures.
    pub image: fn(usize) -> String,
    /// Name of its latents in captures.
    pub latents: fn(usize) -> String,
    /// Alpha is encoded too.
    pub has_alpha: bool,
}

impl ReferenceEncoding {
    /// With the names of pipelines that see several images.
    pub const fn of(
        prepared: fn(&RgbPixels, &GenerateRequest) -> Result<RgbPixels, EngineError>,
    ) -> Self {
        Self {
            prepared,
            image: job_images::reference,
            latents: |index| format!("reference.{index}.latents"),
            has_alpha: false,
        }
    }

    pub const fn with_alpha(self) -> Self {
        Self {
            has_alpha: true,
            ..self
        }
    }
}

/// Encodes a start image to samples of its posterior. `image` and `mask`: as opened, or cropped to the image's aspect;
/// `drawn_controls`: control images that were sampled before it; `is_mean`: the image itself is not sampled, and the noise
/// is drawn before its part outside the mask.
pub fn encode_image(
    image: &RgbPixels,
    mask: Option<&RgbPixels>,
    work: &mut StageWork<'_>,
    drawn_controls: usize,
    is_mean: bool,
) -> Result<EncodedImage, EngineError> {
    let request = work.request;
    let role = StartImageMode::of(request);
    if role == StartImageMode::Canvas && mask.is_none() {
        return Err(EngineError::request("this model needs a mask"));
    }
    let (width, height) = (request.width, request.height);
    let pixels = resized(image, width, height)?;
    work.capture.put("image.preprocessed", &pixels);
    let mask = mask
        .map(|mask| binary_mask(mask, width, height))
        .transpose()?;

    let encoding = ImageEncoding::open(work)?;
    let shape = encoding.autoencoder.shape(width, height)?;
    let before = request.controls.len();
    let posterior = encoding.encode(&pixels, before, work)?;
    let num_draws = 2 + usize::from(mask.is_some());
    let draws = NoiseDraws::after_controls(drawn_controls, shape, num_draws, seeds(request))?;
    let drawn = draws.posterior.as_ref().filter(|_| !is_mean);
    let latents = encoding.sample(&posterior, drawn, drawn_controls, work.capture);
    work.capture.put("image_latents", &latents);
    let latents = encoding.autoencoder.images(&latents);
    let masked = match (&mask, role) {
        (Some(mask), StartImageMode::Canvas) => {
            let left = &pixels * (1.0 - mask);
            let posterior = encoding.encode(&left, before + 1, work)?;
            let (masked, number) = if is_mean {
                (Some(&draws.noise), drawn_controls + 1)
            } else {
                (draws.masked.as_ref(), drawn_controls + 2)
            };
            let latents = encoding.sample(&posterior, masked, number, work.capture);
            Some(encoding.autoencoder.images(&latents))
        }
        _ => None,
    };
    Ok(EncodedImage {
        latents,
        mask,
        masked,
    })
}

/// Encodes images to posterior means. `image`: start image with its mask; `references`: reference images as opened.
pub fn encode_images(
    image: Option<(&RgbPixels, Option<&RgbPixels>)>,
    references: &[RgbPixels],
    seeing: ReferenceEncoding,
    work: &mut StageWork<'_>,
) -> Result<EncodedImages, EngineError> {
    let (width, height) = (work.request.width, work.request.height);
    let encoding = ImageEncoding::open(work)?;
    let latents = |pixels: &Tensor, number: usize, work: &mut StageWork<'_>| {
        let posterior = encoding.encode(pixels, number, work)?;
        Ok::<_, EngineError>(encoding.autoencoder.normalize(&posterior.mean))
    };
    let images = |own: &Tensor| encoding.autoencoder.images(own);
    let image = image.map(|(image, mask)| {
        let pixels = resized(image, width, height)?;
        work.capture.put("image.preprocessed", &pixels);
        let mask = mask.map(|mask| binary_mask(mask, width, height));
        Ok::<_, EngineError>(EncodedImage {
            latents: images(&latents(&pixels, 0, work)?),
            mask: mask.transpose()?,
            masked: None,
        })
    });
    let image = image.transpose()?;
    let before = usize::from(image.is_some());
    let references = references.iter().enumerate().map(|(index, image)| {
        let image = (seeing.prepared)(image, work.request)?;
        let mut pixels = pixels_from_rgb8(&image.rgb, image.width, image.height)?;
        if let Some(alpha) = image.alpha.filter(|_| seeing.has_alpha) {
            let size = [1, 1, i64::from(image.height), i64::from(image.width)];
            let alpha = Tensor::from_slice(&alpha).view(size).to_kind(Kind::Float);
            pixels = Tensor::cat(&[&pixels, &(alpha / 255.0 * 2.0 - 1.0)], 1);
        }
        let name = (seeing.image)(index);
        work.capture.put(format!("{name}.preprocessed"), &pixels);
        let latents = images(&latents(&pixels, before + index, work)?);
        let seen = encoding.autoencoder.seen_shape(&latents);
        work.capture.put((seeing.latents)(index), &seen);
        Ok::<_, EngineError>(latents)
    });
    Ok(EncodedImages {
        references: references.collect::<Result<_, EngineError>>()?,
        controls: Vec::new(),
        image,
    })
}

/// Latents or pixels of the job's control images, at the size of its images.
pub fn encode_controls(
    images: &[RgbPixels],
    encoding: ControlEncoding,
    work: &mut StageWork<'_>,
) -> Result<Vec<Tensor>, EngineError> {
    if images.is_empty() {
        return Ok(Vec::new());
    }
    let request = work.request;
    let (width, height) = (request.width, request.height);
    if encoding == ControlEncoding::Pixels {
        let all = images.iter().enumerate().map(|(index, image)| {
            let checked = work.hooks.check_cancelled(FaultSite::VaeEncode);
            checked.ok_or(EngineError::Cancelled)?;
            let pixels = pixels_from_rgb8(&image.rgb, width, height)? * 0.5 + 0.5;
            let name = format!("control.{index}.preprocessed");
            work.capture.put(name, &pixels);
            Ok(pixels)
        });
        return all.collect();
    }
    let are_drawn = encoding == ControlEncoding::Samples;
    let encoding = ImageEncoding::open(work)?;
    let shape = encoding.autoencoder.shape(width, height)?;
    let draws = NoiseDraws::after_controls(images.len(), shape, 1, seeds(request))?.controls;
    let all = images.iter().zip(&draws).enumerate();
    let all = all.map(|(index, (image, draws))| {
        let pixels = pixels_from_rgb8(&image.rgb, width, height)?;
        let name = format!("control.{index}");
        work.capture.put(format!("{name}.preprocessed"), &pixels);
        let posterior = encoding.encode(&pixels, index, work)?;
        let draws = are_drawn.then_some(draws);
        let latents = encoding.sample(&posterior, draws, index, work.capture);
        work.capture.put(format!("{name}.latents"), &latents);
        Ok::<_, EngineError>(encoding.autoencoder.images(&latents))
    });
    all.collect()
}

struct ImageEncoding<'a> {
    autoencoder: ImageAutoencoder,
    encoder: ImageEncoder<'a>,
}

impl<'a> ImageEncoding<'a> {
    fn open(work: &StageWork<'a>) -> Result<Self, EngineError> {
        let autoencoder = ImageAutoencoder::read(&work.request.files.vae)?;
        let encoder = autoencoder.encoder(work)?;
        Ok(Self {
            autoencoder,
            encoder,
        })
    }

    /// `pixels`: `(1, 3, H, W)`, the `number`-th image of the job -> of f32, in the autoencoder's own shape
    fn encode(
        &self,
        pixels: &Tensor,
        number: usize,
        work: &mut StageWork<'_>,
    ) -> Result<Posterior, EngineError> {
        let pixels = self.autoencoder.own_shape(pixels);
        work.capture
            .put(format!("vae.encode.{number}.input"), &pixels);
        let found = (self.encoder)(&pixels).ok_or(EngineError::Cancelled)?;
        Ok(found.recorded(number, work.capture))
    }

    /// Latents around the posterior's mean, one for each draw, which is the `number`-th of its seed; in the
    /// autoencoder's own shape.
    fn sample(
        &self,
        posterior: &Posterior,
        draws: Option<&Tensor>,
        number: usize,
        capture: &mut StageCapture,
    ) -> Tensor {
        let Some(draws) = draws else {
            return self.autoencoder.normalize(&posterior.mean);
        };
        let draws = self.autoencoder.own_shape(draws);
        capture.put(format!("noise.{number}"), &draws);
        self.autoencoder.normalize(&posterior.sample(&draws))
    }
}

/// `(1, 3, H, W)` in -1..1
fn resized(image: &RgbPixels, width: u32, height: u32) -> Result<Tensor, EngineError> {
    let image = media::resize_lanczos(image, width, height)?;
    pixels_from_rgb8(&image.rgb, width, height)
}

/// 1 for pixels that are nearer to white than to black, else 0: `(1, 1, H, W)` in f32
pub(crate) fn binary_mask(
    mask: &RgbPixels,
    width: u32,
    height: u32,
) -> Result<Tensor, EngineError> {
    mask_of(mask, width, height, |luma| {
        f32::from(u8::from(luma >= MASKED_FROM))
    })
}

/// Share of a denoised pixel in the result, from 0 to 1: `(1, 1, H, W)` in f32. Pixels that [`binary_mask`] keeps are 0;
/// values rise from middle grey to white, so that a soft edge shows no seam. Nearly white counts as white, as JPEG is never
/// exact.
pub(crate) fn soft_mask(mask: &RgbPixels, width: u32, height: u32) -> Result<Tensor, EngineError> {
    mask_of(mask, width, height, |luma| {
        let above = luma.saturating_sub(MASKED_FROM - 1) as f32;
        (above / (WHITE_FROM - MASKED_FROM + 1) as f32).min(1.0)
    })
}

fn mask_of(
    mask: &RgbPixels,
    width: u32,
    height: u32,
    value: impl Fn(u32) -> f32,
) -> Result<Tensor, EngineError> {
    let mask = media::resize_lanczos(mask, width, height)?;
    let (pixels, _) = mask.rgb.as_chunks::<3>();
    let values: Vec<f32> = pixels.iter().map(|&pixel| value(luma(pixel))).collect();
    let size = [1, 1, i64::from(height), i64::from(width)];
    Ok(Tensor::from_slice(&values).view(size))
}

/// One byte a pixel, row by row.
pub(crate) fn grey(image: &RgbPixels) -> Vec<u8> {
    let (pixels, _) = image.rgb.as_chunks::<3>();
    pixels.iter().map(|&pixel| luma(pixel) as u8).collect()
}

/// As Pillow turns colours to grey: ITU-R 601 in 16 bits.
fn luma([red, green, blue]: [u8; 3]) -> u32 {
    let [red, green, blue] = [red, green, blue].map(u32::from);
    (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_mask_is_white_from_middle_gray_luminance() {
        let colours = [
            ([127, 127, 127], 0.0),
            ([128, 128, 128], 1.0),
            ([0, 255, 0], 1.0),
            ([255, 0, 255], 0.0),
            ([0, 0, 255], 0.0),
            ([255, 255, 0], 1.0),
        ];
        let mask = RgbPixels::from_fn(6, 1, |x, _| colours[x as usize].0).unwrap();
        let found: Vec<f32> = binary_mask(&mask, 6, 1)
            .unwrap()
            .flatten(0, -1)
            .try_into()
            .unwrap();
        assert_eq!(found, colours.map(|(_, expected)| expected));
    }

    #[test]
    fn soft_mask_ramps_to_white_from_middle_gray_and_is_zero_below() {
        let grays = [0, 90, 127, 128, 188, 247, 248, 255];
        let mask = RgbPixels::from_fn(8, 1, |x, _| [grays[x as usize]; 3]).unwrap();
        let found = soft_mask(&mask, 8, 1).unwrap().flatten(0, -1);
        let found = Vec::<f32>::try_from(found).unwrap();
        let wanted = [0.0, 0.0, 0.0, 1.0, 61.0, 120.0, 121.0, 121.0].map(|x| x / 121.0);
        assert_eq!(found, wanted);
        let binary = binary_mask(&mask, 8, 1).unwrap().flatten(0, -1);
        let binary = Vec::<f32>::try_from(binary).unwrap();
        assert!(
            found
                .iter()
                .zip(binary)
                .all(|(soft, all)| (*soft > 0.0) == (all > 0.0))
        );
    }
}
