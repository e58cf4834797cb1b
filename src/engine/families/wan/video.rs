//! Given videos: inputs of a VACE model's control blocks (a control video with a mask, given frames and reference images),
//! and the video that video to video and a second pass start from.
//!
//! After `WanVACEPipeline` and `WanVideoToVideoPipeline` of diffusers 0.42.1. A control video that is too short continues
//! in gray, and its mask in white, as in ComfyUI.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateRequest, JobFolder, ResizeMode, SEEN_FRAMES};
use safelight_core::media::{self, MediaError, RgbPixels, VideoReader};
use tch::{Device, Kind, Tensor};

use super::config::WanConfig;
use super::prepare::latent_shape;
use super::run_decoder;
use super::stages::{encode, encoder};
use crate::pixels::pixels_from_rgb8;
use crate::sampling::Solver;
use crate::stages::images::grey;
use crate::stages::job_images;
use crate::{EngineError, StageWork};

/// Mask value of a regenerated pixel.
const MADE: u8 = 255;

/// The job's copy of what a user gave: an image, or a video, which may be numbered images.
enum ShownFile {
    Image(PathBuf),
    Video(PathBuf),
}

impl ShownFile {
    /// The job's copy of `source`, in a folder if it is a video.
    fn of(folder: &Path, source: &Path, image: PathBuf) -> Self {
        if folder.exists() {
            Self::Video(folder.join(source.file_name().unwrap_or_default()))
        } else {
            Self::Image(image)
        }
    }
}

/// A given video as large and as long as the video that is made, in bytes on the CPU.
pub struct FittedVideo {
    /// `(F, H, W, 3)`
    pub(super) frames: Tensor,
    /// 255 for what is made anew, 0 for what stays: `(F, H, W)`
    pub(super) mask: Tensor,
    /// True for given frames: the others are gray.
    pub(super) is_given: Vec<bool>,
}

impl FittedVideo {
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
    pub fn show(&mut self, frame: usize, image: &RgbPixels) {
        let target = self.frames.get(frame as i64);
        let bytes = Tensor::from_slice(&image.rgb).view_as(&target);
        self.frames.get(frame as i64).copy_(&bytes);
        self.is_given[frame] = true;
    }

    /// Sets a frame that is kept completely.
    pub fn keep(&mut self, frame: usize, image: &RgbPixels) {
        self.show(frame, image);
        drop(self.mask.get(frame as i64).zero_());
    }

    /// Says which part of a frame is made anew: as large as the video, white is.
    pub fn mask(&mut self, frame: usize, mask: &RgbPixels) {
        let [h, w] = [mask.height, mask.width].map(i64::from);
        let values = Tensor::from_slice(&grey(mask)).view([h, w]);
        self.mask.get(frame as i64).copy_(&values);
    }

    /// Shows the frames of a video, or an image in all of them, each brought to size; or sets the masks of the frames that
    /// are shown already, while the others are regenerated. Uneven frame times are resampled.
    fn read_file(
        &mut self,
        file: &ShownFile,
        is_mask: bool,
        request: &GenerateRequest,
    ) -> Result<(), EngineError> {
        let is_image = each_frame(file, request, &mut |frame, image| {
            if is_mask {
                self.mask(frame, image);
            } else {
                self.show(frame, image);
            }
        })?;
        let frames = if is_mask {
            &mut self.mask
        } else {
            &mut self.frames
        };
        if is_image {
            let first = frames.narrow(0, 0, 1).copy();
            frames.copy_(&first.expand_as(&*frames));
        }
        if is_mask {
            for frame in self.missing() {
                drop(self.mask.get(frame).fill_(i64::from(MADE)));
            }
        } else if is_image {
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
    fn repeat_last(&mut self) {
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
    fn pixels(&self) -> Tensor {
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
) -> Result<FittedVideo, EngineError> {
    let mut video = FittedVideo::new(request.width, request.height, request.num_frames);
    if let Some(control) = request.controls.first() {
        let file = ShownFile::of(&folder.control_video(0), &control.file, folder.control(0));
        video.read_file(&file, false, request)?;
        if let Some(mask) = &control.mask {
            let file = ShownFile::of(&folder.control_mask_video(0), mask, folder.control_mask(0));
            video.read_file(&file, true, request)?;
        }
    }
    let seen = seen(folder, request);
    for (frame, path) in seen.iter().enumerate() {
        video.keep(frame, &media::open_rgb(path)?);
    }
    if request.has_start() {
        let (start, end) = job_images::of_job(folder, request)?;
        if seen.is_empty() {
            video.keep(0, &start.resized(request)?);
        }
        if let Some(end) = end {
            video.keep(video.num_frames() - 1, &end.resized(request)?);
        }
    }
    Ok(video)
}

/// The last frames of the video that is gone on from, as many as stay.
fn seen(folder: &JobFolder, request: &GenerateRequest) -> Vec<PathBuf> {
    if request.extend.is_none() {
        return Vec::new();
    }
    let all = (0..SEEN_FRAMES as usize).map(|frame| folder.seen_frame(frame));
    let mut all: Vec<_> = all.take_while(|path| path.exists()).collect();
    all.split_off(all.len().saturating_sub(request.lead_frames()))
}

/// A frame at the video's size, as the request wants it to fit.
fn fitted(image: RgbPixels, request: &GenerateRequest) -> Result<RgbPixels, MediaError> {
    let (width, height) = (request.width, request.height);
    if (image.width, image.height) == (width, height) {
        return Ok(image);
    }
    match request.fit {
        ResizeMode::Stretch => media::resize_lanczos(&image, width, height),
        ResizeMode::Crop => {
            let cropped = media::crop_to_aspect(&image, width, height)?;
            media::resize_lanczos(&cropped, width, height)
        }
    }
}

/// Bytes to 0..1, by the way of -1..1 that the reference goes.
fn unit(bytes: &Tensor) -> Tensor {
    let pixels = bytes.to_kind(Kind::Float) / 255.0 * 2.0 - 1.0;
    ((pixels + 1.0) / 2.0).clamp(0.0, 1.0)
}

/// Reads the frames of an image, or of a video at the job's frame rate, one at a time and at most as many as the job has;
/// returns whether it is an image.
fn each_frame(
    file: &ShownFile,
    request: &GenerateRequest,
    take: &mut dyn FnMut(usize, &RgbPixels),
) -> Result<bool, EngineError> {
    let path = match file {
        ShownFile::Image(path) => {
            take(0, &fitted(media::open_rgb(path)?, request)?);
            return Ok(true);
        }
        ShownFile::Video(path) => path,
    };
    let mut problem = None;
    VideoReader::open(path)?.read_even(request.fps, &mut |number, image| {
        if number >= request.num_frames {
            return ControlFlow::Break(());
        }
        match fitted(image, request) {
            Ok(image) => take(number as usize, &image),
            Err(err) => problem = Some(err),
        }
        if problem.is_some() || number + 1 == request.num_frames {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    problem.map_or(Ok(false), |err| Err(err.into()))
}

/// Stage 2 of VACE models -> what the control blocks read, `(1, 2 C + factor², r + f, h, w)` in f32: what stays of the
/// video, what is made anew, the mask; before them `r` reference images, the last one first.
pub fn encode_control(
    config: &WanConfig,
    video: &FittedVideo,
    references: &[RgbPixels],
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let shape = latent_shape(config, request)?;
    video.record(work);
    let encoder = encoder(config, work)?;
    let kept = encode(config, &encoder, &video.part(false), 0, work)?;
    let made = encode(config, &encoder, &video.part(true), 1, work)?;
    let mut latents = Tensor::cat(&[kept, made], 1);
    for (index, image) in references.iter().enumerate() {
        let pixels = on_canvas(image, request.width, request.height)?;
        work.capture.put(
            format!("reference.{index}.preprocessed"),
            &pixels.squeeze_dim(0),
        );
        let own = encode(config, &encoder, &pixels.unsqueeze(2), 2 + index, work)?;
        // Nothing of a reference is made anew.
        let reference = Tensor::cat(&[&own, &own.zeros_like()], 1);
        latents = Tensor::cat(&[reference, latents], 2);
    }
    let mask = video.mask_latents(config.vae.spatial_factor(), shape.frames);
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
fn on_canvas(image: &RgbPixels, width: u32, height: u32) -> Result<Tensor, EngineError> {
    const FACTOR: u32 = 8;
    let rounded = |edge: u32| (edge / FACTOR * FACTOR).max(FACTOR);
    let (own_width, own_height) = (rounded(image.width), rounded(image.height));
    let rounded = media::resize_lanczos(image, own_width, own_height)?;
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

/// The job's copy of the video that the new one is made of, as large and as long as that, with what a mask says to be made
/// anew; `None` where it has none. Behind the end of a mask all is.
pub fn source_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Option<FittedVideo>, EngineError> {
    let Some(source) = &request.source_video else {
        return Ok(None);
    };
    let mut video = FittedVideo::new(request.width, request.height, request.num_frames);
    let file = ShownFile::of(&folder.source_video(), source, folder.source_image());
    video.read_file(&file, false, request)?;
    video.repeat_last();
    if let Some(mask) = &request.mask {
        let file = ShownFile::of(&folder.mask_video(), mask, folder.mask());
        video.read_file(&file, true, request)?;
    }
    Ok(Some(video))
}

/// Its latents as the transformer has them: `(1, C, f, h, w)` in f32
pub fn encode_source(
    config: &WanConfig,
    video: &FittedVideo,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let pixels = video.pixels();
    work.capture.put("video.preprocessed", &pixels);
    encode(config, &encoder(config, work)?, &pixels, 0, work)
}

/// Result of a first pass, `(1, C, f, h, w)`, scaled to the second one's size: pixels are scaled, not latents, as for
/// images.
pub fn enlarged(
    config: &WanConfig,
    latents: &Tensor,
    work: &mut StageWork<'_>,
) -> Result<FittedVideo, EngineError> {
    let (width, height) = (work.request.width, work.request.height);
    let mut video = FittedVideo::new(width, height, work.request.num_frames);
    let mut frames = Vec::new();
    run_decoder(config, latents, work, &mut |_, bytes| frames.push(bytes))?;
    let frames = Tensor::cat(&frames, 0);
    for index in 0..video.num_frames() {
        let frame = frames.f_get(index as i64)?;
        let (rows, columns, _) = frame.size3()?;
        let rgb = Vec::<u8>::try_from(frame.contiguous().flatten(0, -1))?;
        let small = RgbPixels::new(columns as u32, rows as u32, rgb)?;
        video.show(index, &media::resize_lanczos(&small, width, height)?);
    }
    Ok(video)
}

/// Initial latents: `noise`, `(1, C, f, h, w)` on the CPU, or a video's latents with noise.
pub(super) fn first_latents(solver: &Solver, noise: Tensor, base: Option<&Tensor>) -> Tensor {
    let Some(base) = base else {
        return solver.initial(noise);
    };
    let first = solver.all_calls().start;
    let base = base.to_device(Device::Cpu);
    solver.space().noised(&base, &noise, solver.sigmas()[first])
}
