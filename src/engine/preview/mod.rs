//! Latents as images for watching them develop: by a tiny decoder where there is one, else by a linear map.
//!
//! Never costs a job anything but a little time: not more images than anybody sees, bounded sizes, and whatever goes
//! wrong with a tiny decoder leads to the linear map. Sends nothing itself.

mod linear;
mod pace;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use safelight_core::job::{GenerateRequest, PreviewChoice};
use safelight_core::model::LatentRgb;
use tch::{Device, Kind, Tensor};

use self::linear::LatentPreview;
use self::pace::PreviewThrottle;
use crate::error::EngineError;
use crate::vae::TinyDecoder;

/// The longest edge of what a tiny decoder makes, in pixels.
const MAX_EDGE: i64 = 512;

pub struct StagePreviewer {
    choice: PreviewChoice,
    tiny: Option<PathBuf>,
    map: Option<LatentRgb>,
    device: Device,
    /// Chosen with the first latents that are shown.
    way: Option<PreviewMethod>,
    pace: PreviewThrottle,
}

enum PreviewMethod {
    Tiny(TinyDecoder),
    Linear(LatentPreview),
}

pub struct PreviewImage {
    /// `(f, H, W, 3)` bytes on the CPU, one a latent frame.
    pub images: Tensor,
    /// Why they are coarser than they could be, the first time.
    pub problem: Option<String>,
}

impl StagePreviewer {
    /// `may_decode`: whether there is room for more than the linear map.
    pub fn new(request: &GenerateRequest, device: Device, may_decode: bool) -> Self {
        let tiny = request.files.preview_decoder.clone();
        let is_wanted = request.options.preview == PreviewChoice::Auto && may_decode;
        Self {
            choice: request.options.preview,
            tiny: tiny.filter(|_| is_wanted),
            map: request.latent_rgb.clone(),
            device,
            way: None,
            pace: PreviewThrottle::default(),
        }
    }

    /// Preview of `x0_latents`, `(1, C, f, h, w)`; `None` if it is too early. The last step is always shown: it stays
    /// until frames come.
    pub fn show(&mut self, x0_latents: &Tensor, is_last: bool) -> Option<PreviewImage> {
        let began = Instant::now();
        if self.choice == PreviewChoice::Off || !(is_last || self.pace.is_due(began)) {
            return None;
        }
        let mut problem = None;
        let way = self.way.take().unwrap_or_else(|| {
            let chosen = self.choose(x0_latents);
            problem = chosen.1;
            chosen.0
        });
        let (way, images) = match way {
            PreviewMethod::Tiny(decoder) => match decoded(&decoder, x0_latents) {
                Ok(images) => (PreviewMethod::Tiny(decoder), images),
                Err(reason) => {
                    problem = Some(coarser(self.tiny.as_deref(), &reason));
                    drop(decoder);
                    let linear = self.linear(x0_latents);
                    let images = linear.images(x0_latents);
                    (PreviewMethod::Linear(linear), images)
                }
            },
            PreviewMethod::Linear(linear) => {
                let images = linear.images(x0_latents);
                (PreviewMethod::Linear(linear), images)
            }
        };
        self.way = Some(way);
        self.pace.record(began, Instant::now());
        Some(PreviewImage { images, problem })
    }

    /// Returns whether previews come from a tiny decoder.
    #[cfg(test)]
    pub fn is_tiny(&self) -> bool {
        matches!(self.way, Some(PreviewMethod::Tiny(_)))
    }

    fn choose(&self, latents: &Tensor) -> (PreviewMethod, Option<String>) {
        let Some(place) = &self.tiny else {
            return (PreviewMethod::Linear(self.linear(latents)), None);
        };
        match open(place, self.device, latents) {
            Ok(decoder) => (PreviewMethod::Tiny(decoder), None),
            Err(reason) => {
                let problem = coarser(Some(place), &reason);
                (PreviewMethod::Linear(self.linear(latents)), Some(problem))
            }
        }
    }

    fn linear(&self, latents: &Tensor) -> LatentPreview {
        LatentPreview::new(self.map.as_ref(), latents.size()[1], self.device)
    }
}

fn coarser(place: Option<&Path>, reason: &str) -> String {
    let place = place.unwrap_or_else(|| Path::new(""));
    let reason = reason.lines().next().unwrap_or_default();
    format!(
        "previews are coarse: the tiny decoder cannot be used ({reason}): {}",
        place.display()
    )
}

fn open(place: &Path, device: Device, latents: &Tensor) -> Result<TinyDecoder, String> {
    let kind = match device {
        Device::Cpu => Kind::Float,
        _ => Kind::Half,
    };
    let opened = guarded(|| TinyDecoder::open(place, kind, device))?;
    let decoder = opened.map_err(|err| err.to_string())?;
    let (expected, found) = (latents.size()[1], decoder.latent_channels());
    if expected != found {
        return Err(format!("it is for {found} channels, not {expected}"));
    }
    Ok(decoder)
}

/// `(1, C, f, h, w)` -> `(f, H, W, 3)` bytes on the CPU
fn decoded(decoder: &TinyDecoder, latents: &Tensor) -> Result<Tensor, String> {
    let size = latents.size();
    let doublings = decoder
        .doublings_within([size[3], size[4]], MAX_EDGE)
        .ok_or_else(|| "the image is too large for it".to_owned())?;
    guarded(|| {
        let mut images = Vec::new();
        decoder.decode(latents, doublings, &mut |image| {
            // c h w -> h w c
            let bytes = (image.to_kind(Kind::Float) * 255.0).round();
            let bytes = bytes.clamp(0.0, 255.0).to_kind(Kind::Uint8);
            images.push(bytes.permute([1, 2, 0]).to_device(Device::Cpu).contiguous());
        });
        Tensor::stack(&images, 0)
    })
}

/// Result of `work`, or the reason of its failure: a full device, a missing kernel.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| EngineError::from_panic(panic.as_ref()).to_string())
}

#[cfg(test)]
mod tests;
