//! Video to video: what a video that is given, or that a first pass made, becomes before its last steps are made anew.
//!
//! After `WanVideoToVideoPipeline` of diffusers 0.42.1.

use safelight_core::job::{GenerateRequest, JobFolder};
use safelight_core::media::{self, RgbPixels};
use tch::{Device, Tensor};

use super::condition::{encode, encoder};
use super::config::WanConfig;
use super::control::{FittedVideo, ShownFile, fitted};
use super::run_decoder;
use crate::error::EngineError;
use crate::sampling::Solver;
use crate::stages::images::noised;
use crate::work::StageWork;

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
    let fitted = |image| fitted(image, request);
    video.read_file(&file, false, request.fps, &fitted)?;
    video.repeat_last();
    if let Some(mask) = &request.mask {
        let file = ShownFile::of(&folder.mask_video(), mask, folder.mask());
        video.read_file(&file, true, request.fps, &fitted)?;
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
    noised(&base.to_device(Device::Cpu), &noise, solver.sigmas()[first])
}
