//! Inputs of a VACE model's control blocks: a control video with a mask, given frames and reference images.
//!
//! After `WanVACEPipeline` of diffusers 0.42.1. A control video that is too short continues in gray, and its mask in
//! white, as in ComfyUI.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateRequest, JobFolder, ResizeMode, SEEN_FRAMES};
use safelight_core::media::{self, ClipReader, MediaError, RgbPixels};
use tch::{Device, Kind, Tensor};

use super::condition::{encode, encoder};
use super::config::WanConfig;
use super::prepare::WanLatentShape;
use crate::error::EngineError;
use crate::pixels::pixels_from_rgb8;
use crate::stages::images::grey;
use crate::stages::pictures;
use crate::work::StageWork;

/// Mask value of a regenerated pixel.
const MADE: u8 = 255;

/// The job's copy of what a user gave: a picture, or a clip, which may be numbered pictures.
pub enum ShownFile {
    Picture(PathBuf),
    Clip(PathBuf),
}

impl ShownFile {
    /// Of `source`: in its own folder where it is a clip.
    pub(super) fn of(folder: &Path, source: &Path, picture: PathBuf) -> Self {
        if folder.exists() {
            Self::Clip(folder.join(source.file_name().unwrap_or_default()))
        } else {
            Self::Picture(picture)
        }
    }
}

/// A given clip as large and as long as the clip that is made, in bytes on the CPU.
pub struct ControlClip {
    /// `(F, H, W, 3)`
    pub(super) frames: Tensor,
    /// 255 for what is made anew, 0 for what stays: `(F, H, W)`
    pub(super) mask: Tensor,
    /// True for given frames: the others are gray.
    pub(super) is_given: Vec<bool>,
}

impl ControlClip {
    /// Grey, and all to be made.
    pub fn new(width: u32, height: u32, num_frames: u32) -> Self {
        let [f, h, w] = [num_frames, height, width].map(i64::from);
        let bytes = (Kind::Uint8, Device::Cpu);
        Self {
            frames: Tensor::zeros([f, h, w, 3], bytes),
            mask: Tensor::full([f, h, w], i64::from(MADE), bytes),
            is_given: vec![false; num_frames as usize],
        }
    }

    pub fn num_frames(&self) -> usize {
        self.is_given.len()
    }

    /// Sets a frame with the size of the video. The mask decides which part of it is kept.
    pub fn show(&mut self, frame: usize, picture: &RgbPixels) {
        let target = self.frames.get(frame as i64);
        let bytes = Tensor::from_slice(&picture.rgb).view_as(&target);
        self.frames.get(frame as i64).copy_(&bytes);
        self.is_given[frame] = true;
    }

    /// Sets a frame that is kept completely.
    pub fn keep(&mut self, frame: usize, picture: &RgbPixels) {
        self.show(frame, picture);
        drop(self.mask.get(frame as i64).zero_());
    }

    /// Says which part of a frame is made anew: as large as the clip, white is.
    pub fn mask(&mut self, frame: usize, mask: &RgbPixels) {
        let [h, w] = [mask.height, mask.width].map(i64::from);
        let values = Tensor::from_slice(&grey(mask)).view([h, w]);
        self.mask.get(frame as i64).copy_(&values);
    }

    /// Shows the frames of a clip, or a picture in all of them, each brought to size by `fitted`; or sets the masks of the
    /// frames that are shown already, while the others are regenerated. Uneven frame times are resampled to `fps`.
    pub fn read_file(
        &mut self,
        file: &ShownFile,
        is_mask: bool,
        fps: f64,
        fitted: &dyn Fn(RgbPixels) -> Result<RgbPixels, MediaError>,
    ) -> Result<(), EngineError> {
        let most = self.num_frames();
        let is_picture = each_frame(file, (fps, most), fitted, &mut |frame, picture| {
            if is_mask {
                self.mask(frame, picture);
            } else {
                self.show(frame, picture);
            }
        })?;
        let frames = if is_mask {
            &mut self.mask
        } else {
            &mut self.frames
        };
        if is_picture {
            let first = frames.narrow(0, 0, 1).copy();
            frames.copy_(&first.expand_as(&*frames));
        }
        if is_mask {
            for frame in self.missing() {
                drop(self.mask.get(frame).fill_(i64::from(MADE)));
            }
        } else if is_picture {
            self.is_given.fill(true);
        }
        Ok(())
    }

    /// The frames that are not given.
    fn missing(&self) -> impl Iterator<Item = i64> {
        let all = (0..).zip(&self.is_given);
        all.filter(|(_, is_given)| !**is_given)
            .map(|(frame, _)| frame)
    }

    /// Kept or regenerated part of the video, and gray elsewhere: `(1, 3, F, H, W)` in -1..1
    fn part(&self, is_made: bool) -> Tensor {
        let here = self.is_made();
        let here = if is_made { here } else { here.logical_not() };
        let mut pixels = self.pixels();
        for frame in self.missing() {
            drop(pixels.narrow(2, frame, 1).zero_());
        }
        pixels.g_mul_(&here)
    }

    /// Mask in latent layout, with a channel for each pixel of a latent: `(1, factor², f, h, w)` in 0..1
    fn mask_latents(&self, factor: i64, latent_frames: i64) -> Tensor {
        let [frames, height, width] = [0, 1, 2].map(|i| self.mask.size()[i]);
        // Frames that represent those of the latents, with the rounding of "nearest-exact" in f32.
        let scale = frames as f32 / latent_frames as f32;
        let chosen: Vec<i64> = (0..latent_frames)
            .map(|i| (((i as f32 + 0.5) * scale).floor() as i64).min(frames - 1))
            .collect();
        let (h, w) = (height / factor, width / factor);
        let mask = self.mask.index_select(0, &Tensor::from_slice(&chosen));
        // f (h y) (w x) -> 1 (y x) f h w
        let mask = mask
            .view([latent_frames, h, factor, w, factor])
            .permute([2, 4, 0, 1, 3])
            .reshape([1, factor * factor, latent_frames, h, w]);
        unit(&mask)
    }

    /// Repeats the last frame that is given to the end: a file may have fewer than its header said.
    pub(super) fn repeat_last(&mut self) {
        let Some(last) = self.is_given.iter().rposition(|is_given| *is_given) else {
            return;
        };
        let missing = (self.num_frames() - 1 - last) as i64;
        if missing > 0 {
            let mut rest = self.frames.narrow(0, last as i64 + 1, missing);
            let frame = self.frames.narrow(0, last as i64, 1).copy();
            let frame = frame.expand_as(&rest);
            rest.copy_(&frame);
            self.is_given.fill(true);
        }
    }

    /// `(1, 3, F, H, W)` in -1..1
    pub(super) fn pixels(&self) -> Tensor {
        // f h w c -> 1 c f h w
        let pixels = self.frames.permute([3, 0, 1, 2]).unsqueeze(0);
        let mut pixels = pixels.contiguous().to_kind(Kind::Float);
        drop(pixels.g_div_scalar_(255.0));
        drop(pixels.g_mul_scalar_(2.0));
        pixels.g_sub_scalar_(1.0)
    }

    /// 1 for what is made anew, 0 for what stays: `(1, 1, F, H, W)` in bytes, or with one frame where that is the same in all
    pub fn made(&self) -> Tensor {
        let made = self.is_made();
        let first = made.narrow(0, 0, 1);
        let is_still = made.eq_tensor(&first).all().int64_value(&[]) == 1;
        let made = if is_still { first } else { made };
        made.to_kind(Kind::Uint8).unsqueeze(0).unsqueeze(0)
    }

    /// Mask of regenerated pixels: those nearer to white than to black.
    fn is_made(&self) -> Tensor {
        self.mask.ge(i64::from(MADE / 2 + 1))
    }

    fn record(&self, work: &mut StageWork<'_>) {
        let capture = &mut *work.capture;
        if capture.is_on() {
            let whole = self.part(true) + self.part(false);
            capture.put("control.video", &whole);
            capture.put("control.mask", &unit(&self.mask).unsqueeze(0).unsqueeze(0));
        }
    }
}

/// Control video of the job with its mask, and the given frames: the start and end image, or the last frames of the
/// extended video.
pub fn control_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<ControlClip, EngineError> {
    let (width, height) = (request.width, request.height);
    let mut clip = ControlClip::new(width, height, request.num_frames);
    let fitted = |picture: RgbPixels| fitted(picture, request);
    if let Some(control) = request.controls.first() {
        let file = ShownFile::of(&folder.control_clip(0), &control.file, folder.control(0));
        clip.read_file(&file, false, request.fps, &fitted)?;
        if let Some(mask) = &control.mask {
            let file = ShownFile::of(&folder.control_mask_clip(0), mask, folder.control_mask(0));
            clip.read_file(&file, true, request.fps, &fitted)?;
        }
    }
    let seen = seen(folder, request);
    for (frame, path) in seen.iter().enumerate() {
        clip.keep(frame, &media::open_picture(path)?);
    }
    if request.has_start() {
        let (start, end) = pictures::of_job(folder, request)?;
        if seen.is_empty() {
            clip.keep(0, &start.resized(request)?);
        }
        if let Some(end) = end {
            clip.keep(clip.num_frames() - 1, &end.resized(request)?);
        }
    }
    Ok(clip)
}

/// The last frames of the clip that is gone on from, as many as stay.
fn seen(folder: &JobFolder, request: &GenerateRequest) -> Vec<PathBuf> {
    if request.extend.is_none() {
        return Vec::new();
    }
    let all = (0..SEEN_FRAMES as usize).map(|frame| folder.seen_frame(frame));
    let mut all: Vec<_> = all.take_while(|path| path.exists()).collect();
    all.split_off(all.len().saturating_sub(request.lead_frames()))
}

/// A frame at the clip's size, as the request wants it to fit.
pub(super) fn fitted(
    picture: RgbPixels,
    request: &GenerateRequest,
) -> Result<RgbPixels, MediaError> {
    let (width, height) = (request.width, request.height);
    if (picture.width, picture.height) == (width, height) {
        return Ok(picture);
    }
    match request.fit {
        ResizeMode::Stretch => media::resize_lanczos(&picture, width, height),
        ResizeMode::Crop => {
            let cropped = media::crop_to_aspect(&picture, width, height)?;
            media::resize_lanczos(&cropped, width, height)
        }
    }
}

/// Bytes to 0..1, by the way of -1..1 that the reference goes.
fn unit(bytes: &Tensor) -> Tensor {
    let pixels = bytes.to_kind(Kind::Float) / 255.0 * 2.0 - 1.0;
    ((pixels + 1.0) / 2.0).clamp(0.0, 1.0)
}

/// Reads at most `most` frames of a picture, or of a clip for a model of `fps` frames per second, one at a time; returns
/// whether it is a picture.
fn each_frame(
    file: &ShownFile,
    (fps, most): (f64, usize),
    fitted: &dyn Fn(RgbPixels) -> Result<RgbPixels, MediaError>,
    take: &mut dyn FnMut(usize, &RgbPixels),
) -> Result<bool, EngineError> {
    let path = match file {
        ShownFile::Picture(path) => {
            take(0, &fitted(media::open_picture(path)?)?);
            return Ok(true);
        }
        ShownFile::Clip(path) => path,
    };
    let mut problem = None;
    ClipReader::open(path)?.read_even(fps, &mut |number, picture| {
        if number as usize >= most {
            return ControlFlow::Break(());
        }
        match fitted(picture) {
            Ok(picture) => take(number as usize, &picture),
            Err(err) => problem = Some(err),
        }
        if problem.is_some() || number as usize + 1 == most {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    problem.map_or(Ok(false), |err| Err(err.into()))
}

/// Stage 2 of VACE models -> what the control blocks read, `(1, 2 C + factor², r + f, h, w)` in f32: what stays of the
/// clip, what is made anew, the mask; before them `r` reference pictures, the last one first.
pub fn encode_control(
    config: &WanConfig,
    clip: &ControlClip,
    references: &[RgbPixels],
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let shape = WanLatentShape::new(config, request.width, request.height, request.num_frames)?;
    clip.record(work);
    let encoder = encoder(config, work)?;
    let kept = encode(config, &encoder, &clip.part(false), 0, work)?;
    let made = encode(config, &encoder, &clip.part(true), 1, work)?;
    let mut latents = Tensor::cat(&[kept, made], 1);
    for (index, picture) in references.iter().enumerate() {
        let pixels = on_canvas(picture, request.width, request.height)?;
        work.capture.put(
            format!("reference.{index}.preprocessed"),
            &pixels.squeeze_dim(0),
        );
        let own = encode(config, &encoder, &pixels.unsqueeze(2), 2 + index, work)?;
        // Nothing of a reference is made anew.
        let reference = Tensor::cat(&[&own, &own.zeros_like()], 1);
        latents = Tensor::cat(&[reference, latents], 2);
    }
    let mask = clip.mask_latents(config.vae.spatial_factor(), shape.frames);
    let mask = mask.to_device(latents.device());
    let mut before = mask.size();
    before[2] = references.len() as i64;
    let mask = Tensor::cat(
        &[Tensor::zeros(before, (Kind::Float, mask.device())), mask],
        2,
    );
    work.capture.put("control.latents", &latents);
    work.capture.put("control.mask_latents", &mask);
    Ok(Tensor::cat(&[latents, mask], 1))
}

/// Image centred on a white canvas, as large as possible: `(1, 3, H, W)` in -1..1
///
/// Rounded down to whole latents first, and resized without antialiasing, as in the reference.
fn on_canvas(picture: &RgbPixels, width: u32, height: u32) -> Result<Tensor, EngineError> {
    const FACTOR: u32 = 8;
    let rounded = |edge: u32| (edge / FACTOR * FACTOR).max(FACTOR);
    let (own_width, own_height) = (rounded(picture.width), rounded(picture.height));
    let rounded = media::resize_lanczos(picture, own_width, own_height)?;
    let pixels = pixels_from_rgb8(&rounded.rgb, own_width, own_height)?;
    let ratio = |edge: u32, own: u32| f64::from(edge) / f64::from(own);
    let scale = ratio(height, own_height).min(ratio(width, own_width));
    let scaled = |own: u32| ((f64::from(own) * scale) as i64).max(1);
    let (h, w) = (scaled(own_height), scaled(own_width));
    let pixels = pixels.upsample_bilinear2d([h, w], false, None::<f64>, None::<f64>);
    let [height, width] = [height, width].map(i64::from);
    let canvas = Tensor::ones([1, 3, height, width], (Kind::Float, Device::Cpu));
    let place = canvas.narrow(2, (height - h) / 2, h);
    place.narrow(3, (width - w) / 2, w).copy_(&pixels);
    Ok(canvas)
}
