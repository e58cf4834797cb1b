//! The job's copies of its input images and masks: opened, cropped and resized.

use std::path::Path;

use safelight_core::job::{CannyThresholds, GenerateRequest, JobFolder, ResizeMode, SEEN_FRAMES};
use safelight_core::media::{self, RgbPixels};
use tch::{Kind, Tensor};

use crate::pixels::pixels_from_rgb8;
use crate::stages::images::{binary_mask, soft_mask};
use crate::{EngineError, StageCapture};

/// An input image as opened, and cropped as requested.
pub(crate) struct FittedImage {
    source: RgbPixels,
    /// Cropped if requested.
    pub(crate) fitted: RgbPixels,
}

/// The job's start image and, if any, its end image.
pub(crate) fn of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<(FittedImage, Option<FittedImage>), EngineError> {
    let start = open(&folder.start_image(), request)?;
    let end = request.last_image.as_ref();
    let end = end.map(|_| open(&folder.end_image(), request));
    Ok((start, end.transpose()?))
}

/// Start and end image at the size of the video; records them as opened.
pub(crate) fn frames_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut StageCapture,
) -> Result<(RgbPixels, Option<RgbPixels>), EngineError> {
    let (start, end) = of_job(folder, request)?;
    start.record("image", capture);
    if let Some(end) = &end {
        end.record("last_image", capture);
    }
    let end = end.map(|end| end.resized(request)).transpose()?;
    Ok((start.resized(request)?, end))
}

/// The start image's mask, if any, cropped as that image.
pub(crate) fn mask_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Option<FittedImage>, EngineError> {
    let mask = request.mask.as_ref();
    mask.map(|_| open(&folder.mask(), request)).transpose()
}

/// Reference images as opened, with alpha if `has_alpha`; records them under `name`, counted from 0.
pub(crate) fn references_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    (name, has_alpha): (fn(usize) -> String, bool),
    capture: &mut StageCapture,
) -> Result<Vec<RgbPixels>, EngineError> {
    let all = (0..request.references.len()).map(|index| {
        let mut image = media::open_rgba(&folder.reference(index))?;
        image.alpha = image.alpha.filter(|_| has_alpha);
        record(&image, &name(index), capture);
        Ok(image)
    });
    all.collect()
}

/// Name of a reference image in captures, counted from 0.
pub(crate) fn reference(index: usize) -> String {
    format!("reference.{index}")
}

/// Image prompts as opened; records them.
pub(crate) fn prompt_images_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut StageCapture,
) -> Result<Vec<RgbPixels>, EngineError> {
    let all = (0..request.prompt_images.len())
        .map(|index| recorded(&folder.prompt_image(index), &prompt_image(index), capture));
    all.collect()
}

/// Name of an image prompt in captures, counted from 0.
pub(crate) fn prompt_image(index: usize) -> String {
    format!("prompt_image.{index}")
}

fn recorded(path: &Path, name: &str, capture: &mut StageCapture) -> Result<RgbPixels, EngineError> {
    let image = media::open_rgb(path)?;
    record(&image, name, capture);
    Ok(image)
}

/// Control images at the size of the result, or their Canny edges if requested; records them as opened.
pub(crate) fn controls_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut StageCapture,
) -> Result<Vec<RgbPixels>, EngineError> {
    let masks = control_masks_of_job(folder, request)?;
    let all = request.controls.iter().enumerate().map(|(index, control)| {
        let given = open(&folder.control(index), request)?;
        given.record(&format!("control.{index}"), capture);
        let image = given.resized(request)?;
        let mut image = match control.settings.made {
            Some(CannyThresholds { low, high }) => media::canny(&image, low, high)?,
            None => image,
        };
        if let Some(mask) = &masks[index] {
            hide(&mut image, mask)?;
        }
        Ok(image)
    });
    all.collect()
}

/// Blackens the pixels that a mask of the image's size denoises.
fn hide(image: &mut RgbPixels, mask: &RgbPixels) -> Result<(), EngineError> {
    let hidden = binary_mask(mask, image.width, image.height)?;
    let hidden = Vec::<f32>::try_from(hidden.flatten(0, -1))?;
    for (pixel, hidden) in image.rgb.chunks_exact_mut(3).zip(hidden) {
        if hidden > 0.0 {
            pixel.fill(0);
        }
    }
    Ok(())
}

/// Mask of each control, if any, at the size of the result.
pub(crate) fn control_masks_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Vec<Option<RgbPixels>>, EngineError> {
    let all = request.controls.iter().enumerate().map(|(index, control)| {
        let mask = control.mask.as_ref();
        let mask = mask.map(|_| open(&folder.control_mask(index), request)?.resized(request));
        mask.transpose()
    });
    all.collect()
}

/// Last frames of the video that the job extends, for models that see them: `(1, 3, F, H, W)` in -1..1.
pub(crate) fn seen_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Option<Tensor>, EngineError> {
    if request.extend.is_none() || request.lead_frames() <= 1 {
        return Ok(None);
    }
    let mut frames = Vec::new();
    for path in (0..SEEN_FRAMES as usize).map(|index| folder.seen_frame(index)) {
        if !path.exists() {
            break;
        }
        let frame = media::open_rgb(&path)?;
        frames.push(pixels_from_rgb8(&frame.rgb, request.width, request.height)?);
    }
    Ok((!frames.is_empty()).then(|| Tensor::stack(&frames, 2)))
}

/// Pixels of the start image or of a video outside a mask, which the autoencoder reproduces only approximately. Between
/// middle grey and white, as at a soft edge, both are blended.
pub(crate) struct PixelRestore {
    /// `(F, H, W, 3)` bytes, or one frame for all
    frames: Tensor,
    /// Share of the result in each pixel, from 0 to 1: `(F, H, W, 1)` in f32, or one frame for all
    made: Tensor,
}

impl PixelRestore {
    /// `image`: at the size of the result; `mask`: 1 for denoised pixels, `(1, 1, H, W)`
    pub(crate) fn of(image: &RgbPixels, mask: &Tensor) -> Result<Self, EngineError> {
        let [height, width] = [image.height, image.width].map(i64::from);
        let bytes = Tensor::from_slice(&image.rgb);
        Self::of_video(&bytes.view([1, height, width, 3]), &mask.unsqueeze(2))
    }

    /// From the job's start image and its mask.
    pub(crate) fn of_job(
        folder: &JobFolder,
        request: &GenerateRequest,
    ) -> Result<Self, EngineError> {
        let mask = mask_of_job(folder, request)?
            .ok_or_else(|| EngineError::internal("no mask was given"))?;
        let mask = soft_mask(&mask.fitted, request.width, request.height)?;
        let (image, _) = of_job(folder, request)?;
        Self::of(&image.resized(request)?, &mask)
    }

    /// `frames`: `(F, H, W, 3)` bytes; `mask`: 1 for denoised pixels, `(1, 1, F, H, W)` or one frame for all
    pub(crate) fn of_video(frames: &Tensor, mask: &Tensor) -> Result<Self, EngineError> {
        let made = mask.squeeze_dim(0).squeeze_dim(0).to_kind(Kind::Float);
        let (frame, masked) = (frames.size(), made.size());
        if masked[1..] != frame[1..3] || ![1, frame[0]].contains(&masked[0]) {
            return Err(EngineError::internal("the mask is not of this image"));
        }
        Ok(Self {
            frames: frames.shallow_clone(),
            made: made.unsqueeze(-1),
        })
    }

    /// `made`: `(F, H, W, 3)` bytes on the CPU -> with the original's pixels outside the mask
    pub(crate) fn over(&self, made: &Tensor) -> Tensor {
        self.over_from(0, made)
    }

    /// Restores pixels in frames of a video from frame `first` on.
    pub(crate) fn over_from(&self, first: i64, made: &Tensor) -> Tensor {
        let some = |xs: &Tensor| match xs.size()[0] {
            1 => xs.shallow_clone(),
            _ => xs.narrow(0, first, made.size()[0]),
        };
        // Exactly one or the other where the share is 0 or 1.
        let mut own = some(&self.frames).to_kind(Kind::Float);
        if made.size()[3] == 4 {
            // The start image is opaque.
            own = own.constant_pad_nd([0, 1]);
            drop(own.narrow(3, 3, 1).fill_(255.0));
        }
        let far = made.to_kind(Kind::Float) - &own;
        (own + far * some(&self.made)).round().to_kind(Kind::Uint8)
    }
}

fn open(path: &Path, request: &GenerateRequest) -> Result<FittedImage, EngineError> {
    let source = media::open_rgb(path)?;
    let fitted = fitted(&source, request)?;
    Ok(FittedImage { source, fitted })
}

/// Crops an image to the request's aspect ratio, if requested.
pub(crate) fn fitted(
    source: &RgbPixels,
    request: &GenerateRequest,
) -> Result<RgbPixels, EngineError> {
    Ok(match request.fit {
        ResizeMode::Stretch => source.clone(),
        ResizeMode::Crop => media::crop_to_aspect(source, request.width, request.height)?,
    })
}

fn record(source: &RgbPixels, name: &str, capture: &mut StageCapture) {
    if let Ok(bytes) = Tensor::f_from_slice(&source.rgb) {
        let [height, width] = [source.height, source.width].map(i64::from);
        capture.put(
            format!("{name}.source_u8"),
            &bytes.reshape([height, width, 3]),
        );
    }
}

impl FittedImage {
    /// Records the image as opened.
    pub(crate) fn record(&self, name: &str, capture: &mut StageCapture) {
        record(&self.source, name, capture);
    }

    pub(crate) fn resized(&self, request: &GenerateRequest) -> Result<RgbPixels, EngineError> {
        let fitted = &self.fitted;
        Ok(media::resize_lanczos(
            fitted,
            request.width,
            request.height,
        )?)
    }
}
