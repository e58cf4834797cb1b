//! Wan 2.1 and 2.2: text to video, video to video, image to video, first and last frame to video, text to image, and
//! VACE's control videos.
//!
//! The stages of a job:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`](crate::text::PromptEmbeds),
//! 2. [`encode_image`]: given first and last frames to latents; [`encode_control`]: a control video and references;
//!    [`encode_source`]: the video that the new one is made of,
//! 3. [`encode_vision`]: the same to embeddings, for models of Wan 2.1 that read them,
//! 4. [`denoise()`]: noise to latents, through the transformer, or through one expert and then the other,
//! 5. `decode`: latents to frames.
//!
//! The reference is `WanPipeline`, `WanVideoToVideoPipeline`, `WanImageToVideoPipeline` and `WanVACEPipeline` of
//! diffusers 0.42.1.
//!
//! Shapes: `C` latent channels; `F`, `H`, `W` frames and pixels; `f`, `h`, `w` the same in latents; `L` tokens.

mod config;
mod control_blocks;
mod denoise;
mod measured;
mod prepare;
mod stages;
mod transformer;
mod video;

use safelight_core::job::GenerateRequest;
use tch::{Device, Kind, Tensor};

use crate::pixels::{checked_rgb8, rgb8_from_pixels};
use crate::stages::job_images::PixelRestore;
use crate::vae::wan::denormalize;
use crate::vae::{Tiling, WanVaeDecoder};
use crate::{EngineError, StageWork};

pub use config::WanConfig;
pub use control_blocks::ControlVideo;
pub use denoise::{WanConditioning, denoise, open_transformer};
pub use prepare::{
    TokenTimesteps, first_frame_mask, given_frames_mask, latent_mask, latent_shape, new_solver,
    still_video, video_of_given, with_first_frame,
};
pub use safelight_core::lora::Expert;
pub(crate) use stages::WanFamily;
pub use stages::{KeptVideo, encode_image, encode_kept, encode_text, encode_vision};
pub use transformer::{CallInputs, WanContext, WanTransformer};
pub use video::{FittedVideo, control_of_job, encode_control, encode_source, source_of_job};

/// Ids of one text, padding included: Wan was trained so.
pub const TEXT_LENGTH: usize = 512;

/// Stage 5. `latents`: what [`denoise()`] gave; `kept`: what stays of a given image, in every frame, or of a video.
/// Frames go to `Hooks::frames` while they are made.
pub(crate) fn decode(
    config: &WanConfig,
    latents: &Tensor,
    kept: Option<&PixelRestore>,
    work: &mut StageWork<'_>,
) -> Result<(), EngineError> {
    let (hooks, recording) = (work.hooks, work.capture.is_on());
    let mut recorded = Vec::new();
    let mut done = 0;
    run_decoder(config, latents, work, &mut |pixels, bytes| {
        match kept {
            Some(kept) => hooks.frames(&kept.over_from(done, &bytes)),
            None => hooks.frames(&bytes),
        }
        done += bytes.size()[0];
        if recording {
            recorded.push(pixels.to_device(Device::Cpu).to_kind(Kind::Float));
        }
    })?;
    if recording {
        let capture = &mut *work.capture;
        let pixels = Tensor::cat(&recorded, 2);
        capture.put("vae.decode.0.output", &pixels);
        capture.put("pixels", &pixels);
        capture.put("output_u8", &rgb8_from_pixels(&pixels).unsqueeze(0));
    }
    Ok(())
}

/// Gives the frames of `latents` while they are made: pixels, `(1, 3, F, H, W)` in -1..1, and bytes, `(F, H, W, 3)` on the
/// CPU.
fn run_decoder(
    config: &WanConfig,
    latents: &Tensor,
    work: &mut StageWork<'_>,
    take: &mut dyn FnMut(&Tensor, Tensor),
) -> Result<(), EngineError> {
    if latents.dim() != 5 || latents.size()[..2] != [1, config.vae.z_dim] {
        return Err(EngineError::internal(format!(
            "these are no latents of this model: {:?}",
            latents.size()
        )));
    }
    let place = work.place;
    let new = |w: &_| WanVaeDecoder::new(&config.vae, w);
    let decoder = work.decoder(&config.files.vae, new, WanVaeDecoder::unexpected_keys)?;
    let tiling = tiling(config, work.request);
    let latents = latents.to_device(place.device).to_kind(place.kind);
    let latents = denormalize(&config.vae, &latents);
    work.capture.put("vae.decode.0.input", &latents);
    work.decode_frames(
        |cancelled, frames| decoder.decode(&latents, tiling, cancelled, frames),
        &mut |pixels| {
            let bytes = checked_rgb8(&pixels)?;
            take(&pixels, bytes);
            Ok(())
        },
    )
}

/// The tiles that the request wants the autoencoder to work in. They are counted in its own patches.
fn tiling(config: &WanConfig, request: &GenerateRequest) -> Option<Tiling> {
    let size = i64::from(request.options.vae_tile?);
    Some(Tiling::of_size(size / config.vae.patch()))
}

#[cfg(test)]
mod tests;
