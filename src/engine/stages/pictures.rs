//! The job's own copies of its start and end pictures and of its mask, as stages read them.
//!
//! What is made of the pixels is the family's.

use std::path::Path;

use safelight_core::job::{Edges, Fit, GenerateRequest, JobFolder, SEEN_FRAMES};
use safelight_core::media::{self, Picture};
use tch::{Kind, Tensor};

use crate::capture::Capture;
use crate::error::EngineError;
use crate::pixels::pixels_from_rgb8;
use crate::stages::stills::{binary_mask, soft_mask};

/// A picture as it was opened, and as the request wants it to fit.
pub(crate) struct GivenPicture {
    source: Picture,
    /// Cropped where the request asks for it.
    pub(crate) fitted: Picture,
}

/// The job's start picture and, where the request has one, its end picture.
pub(crate) fn of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<(GivenPicture, Option<GivenPicture>), EngineError> {
    let start = open(&folder.start_picture(), request)?;
    let end = request.last_image.as_ref();
    let end = end.map(|_| open(&folder.end_picture(), request));
    Ok((start, end.transpose()?))
}

/// The same as large as the clip, and recorded as they were opened.
pub(crate) fn frames_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut Capture,
) -> Result<(Picture, Option<Picture>), EngineError> {
    let (start, end) = of_job(folder, request)?;
    start.record("image", capture);
    if let Some(end) = &end {
        end.record("last_image", capture);
    }
    let end = end.map(|end| end.resized(request)).transpose()?;
    Ok((start.resized(request)?, end))
}

/// What says which part of the start picture is made anew, where the request has it. Cropped as that picture is.
pub(crate) fn mask_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Option<GivenPicture>, EngineError> {
    let mask = request.mask.as_ref();
    mask.map(|_| open(&folder.mask(), request)).transpose()
}

/// The pictures that the model sees beside what it makes, as they were opened, and recorded so; `name`: what the
/// reference calls the one that is counted from 0.
pub(crate) fn references_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    name: fn(usize) -> String,
    capture: &mut Capture,
) -> Result<Vec<Picture>, EngineError> {
    let all = (0..request.references.len())
        .map(|index| recorded(&folder.reference(index), &name(index), capture));
    all.collect()
}

/// What most pipelines' records call the picture that is counted from 0.
pub(crate) fn reference(index: usize) -> String {
    format!("reference.{index}")
}

/// The pictures that are parts of the prompt, in the same way.
pub(crate) fn prompt_pictures_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut Capture,
) -> Result<Vec<Picture>, EngineError> {
    let all = (0..request.prompt_pictures.len()).map(|index| {
        recorded(
            &folder.prompt_picture(index),
            &prompt_picture(index),
            capture,
        )
    });
    all.collect()
}

/// What records call the one that is counted from 0.
pub(crate) fn prompt_picture(index: usize) -> String {
    format!("prompt_picture.{index}")
}

fn recorded(path: &Path, name: &str, capture: &mut Capture) -> Result<Picture, EngineError> {
    let picture = media::open_picture(path)?;
    record(&picture, name, capture);
    Ok(picture)
}

/// The pictures that say where things are to be, each as large as what is made, and recorded as they were opened; of
/// those whose edges are asked for the edges.
pub(crate) fn controls_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
    capture: &mut Capture,
) -> Result<Vec<Picture>, EngineError> {
    let masks = control_masks_of_job(folder, request)?;
    let all = request.controls.iter().enumerate().map(|(index, control)| {
        let given = open(&folder.control(index), request)?;
        given.record(&format!("control.{index}"), capture);
        let picture = given.resized(request)?;
        let mut picture = match control.settings.made {
            Some(Edges { low, high }) => media::canny(&picture, low, high)?,
            None => picture,
        };
        if let Some(mask) = &masks[index] {
            hide(&mut picture, mask)?;
        }
        Ok(picture)
    });
    all.collect()
}

/// Makes black what a mask, as large as the picture, says to be made anew.
fn hide(picture: &mut Picture, mask: &Picture) -> Result<(), EngineError> {
    let hidden = binary_mask(mask, picture.width, picture.height)?;
    let hidden = Vec::<f32>::try_from(hidden.flatten(0, -1))?;
    for (pixel, hidden) in picture.rgb.chunks_exact_mut(3).zip(hidden) {
        if hidden > 0.0 {
            pixel.fill(0);
        }
    }
    Ok(())
}

/// Of each control what says which part of it is made anew, where it has a mask: as large as what is made.
pub(crate) fn control_masks_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Vec<Option<Picture>>, EngineError> {
    let all = request.controls.iter().enumerate().map(|(index, control)| {
        let mask = control.mask.as_ref();
        let mask = mask.map(|_| open(&folder.control_mask(index), request)?.resized(request));
        mask.transpose()
    });
    all.collect()
}

/// The last frames of the clip that the job goes on from, where its model is shown them: `(1, 3, F, H, W)` in -1..1.
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
        let frame = media::open_picture(&path)?;
        frames.push(pixels_from_rgb8(&frame.rgb, request.width, request.height)?);
    }
    Ok((!frames.is_empty()).then(|| Tensor::stack(&frames, 2)))
}

/// What a mask keeps of the start picture or of a clip, to the byte: the autoencoder gives it back only nearly. Between
/// the middle gray and white, as at a soft edge, both are blended.
pub(crate) struct KeptPixels {
    /// `(F, H, W, 3)` bytes, or one frame for all
    frames: Tensor,
    /// How much of a pixel is what was made, from 0 to 1: `(F, H, W, 1)` in f32, or one frame for all
    made: Tensor,
}

impl KeptPixels {
    /// `picture`: as large as what is made; `mask`: 1 for what is made anew, `(1, 1, H, W)`
    pub(crate) fn of(picture: &Picture, mask: &Tensor) -> Result<Self, EngineError> {
        let [height, width] = [picture.height, picture.width].map(i64::from);
        let bytes = Tensor::from_slice(&picture.rgb);
        Self::of_clip(&bytes.view([1, height, width, 3]), &mask.unsqueeze(2))
    }

    /// Of the job's start picture, where the mask beside it is.
    pub(crate) fn of_job(
        folder: &JobFolder,
        request: &GenerateRequest,
    ) -> Result<Self, EngineError> {
        let mask = mask_of_job(folder, request)?
            .ok_or_else(|| EngineError::internal("no mask was given"))?;
        let mask = soft_mask(&mask.fitted, request.width, request.height)?;
        let (picture, _) = of_job(folder, request)?;
        Self::of(&picture.resized(request)?, &mask)
    }

    /// `frames`: `(F, H, W, 3)` bytes; `mask`: 1 for what is made anew, `(1, 1, F, H, W)` or one frame for all
    pub(crate) fn of_clip(frames: &Tensor, mask: &Tensor) -> Result<Self, EngineError> {
        let made = mask.squeeze_dim(0).squeeze_dim(0).to_kind(Kind::Float);
        let (frame, masked) = (frames.size(), made.size());
        if masked[1..] != frame[1..3] || ![1, frame[0]].contains(&masked[0]) {
            return Err(EngineError::internal("the mask is not of this picture"));
        }
        Ok(Self {
            frames: frames.shallow_clone(),
            made: made.unsqueeze(-1),
        })
    }

    /// `made`: `(F, H, W, 3)` bytes on the CPU -> the same with the picture's own where it is kept
    pub(crate) fn over(&self, made: &Tensor) -> Tensor {
        self.over_from(0, made)
    }

    /// The same of frames of a clip, counted from 0, of which `first` is the first.
    pub(crate) fn over_from(&self, first: i64, made: &Tensor) -> Tensor {
        let some = |xs: &Tensor| match xs.size()[0] {
            1 => xs.shallow_clone(),
            _ => xs.narrow(0, first, made.size()[0]),
        };
        // Exactly one or the other where the share is 0 or 1.
        let own = some(&self.frames).to_kind(Kind::Float);
        let far = made.to_kind(Kind::Float) - &own;
        (own + far * some(&self.made)).round().to_kind(Kind::Uint8)
    }
}

fn open(path: &Path, request: &GenerateRequest) -> Result<GivenPicture, EngineError> {
    let source = media::open_picture(path)?;
    let fitted = fitted(&source, request)?;
    Ok(GivenPicture { source, fitted })
}

/// The picture, cropped to the request's aspect where that asks for it.
pub(crate) fn fitted(source: &Picture, request: &GenerateRequest) -> Result<Picture, EngineError> {
    Ok(match request.fit {
        Fit::Stretch => source.clone(),
        Fit::Crop => media::crop_to_aspect(source, request.width, request.height)?,
    })
}

fn record(source: &Picture, name: &str, capture: &mut Capture) {
    if let Ok(bytes) = Tensor::f_from_slice(&source.rgb) {
        let [height, width] = [source.height, source.width].map(i64::from);
        capture.put(
            format!("{name}.source_u8"),
            &bytes.reshape([height, width, 3]),
        );
    }
}

impl GivenPicture {
    /// Records the picture as it was opened, under the reference's name for it.
    pub(crate) fn record(&self, name: &str, capture: &mut Capture) {
        record(&self.source, name, capture);
    }

    /// As large as the clip.
    pub(crate) fn resized(&self, request: &GenerateRequest) -> Result<Picture, EngineError> {
        let fitted = &self.fitted;
        Ok(media::resize_lanczos(
            fitted,
            request.width,
            request.height,
        )?)
    }
}
