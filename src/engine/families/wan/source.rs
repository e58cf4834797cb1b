//! Clip to clip: what a clip that is given becomes before its last steps are made anew.
//!
//! After `WanVideoToVideoPipeline` of diffusers 0.42.1.

use safelight_core::job::{GenerateRequest, JobFolder};
use tch::{Device, Tensor};

use super::condition::encode;
use super::config::WanConfig;
use super::control::{ControlClip, ShownFile, fitted};
use crate::error::EngineError;
use crate::sampling::Solver;
use crate::stages::stills::noised;
use crate::work::Work;

/// The job's copy of the clip that the new one is made of, as large and as long as that, with what a mask says to be made
/// anew; `None` where it has none. Behind the end of a mask all is.
pub fn source_of_job(
    folder: &JobFolder,
    request: &GenerateRequest,
) -> Result<Option<ControlClip>, EngineError> {
    let Some(source) = &request.source_clip else {
        return Ok(None);
    };
    let mut clip = ControlClip::new(request.width, request.height, request.num_frames);
    let file = ShownFile::of(folder.source_clip(), source, folder.source_picture());
    clip.show_file(&file, &|picture| fitted(picture, request))?;
    clip.repeat_last();
    if let Some(mask) = &request.mask {
        let file = ShownFile::of(folder.mask_clip(), mask, folder.mask());
        clip.mask_file(&file, &|picture| fitted(picture, request))?;
    }
    Ok(Some(clip))
}

/// Its latents as the transformer has them: `(1, C, f, h, w)` in f32
pub fn encode_source(
    config: &WanConfig,
    clip: &ControlClip,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let pixels = clip.pixels();
    work.capture.put("video.preprocessed", &pixels);
    encode(config, &pixels, 0, work)
}

/// What the walk begins with: `noise`, `(1, C, f, h, w)` on the CPU, or a clip's latents as they are on the way there.
pub(super) fn first_latents(solver: &Solver, noise: Tensor, base: Option<&Tensor>) -> Tensor {
    let Some(base) = base else {
        return solver.initial(noise);
    };
    let first = solver.all_calls().start;
    noised(&base.to_device(Device::Cpu), &noise, solver.sigmas()[first])
}
