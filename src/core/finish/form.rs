//! Post-processing as a user requests it, and its validation.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::FrameRetiming;
use crate::job::{DtypeChoice, JobError, PostprocessKind, PostprocessRequest};
use crate::media::{
    self, DEFAULT_VIDEO_ENDING, MAX_PIXELS, MediaError, VideoFormat, VideoInfo, check_frame_size,
    check_frames_writable,
};
use crate::memory::MemoryOptions;
use crate::networks::{DepthConfig, IfnetConfig, UpscalerConfig};
use crate::settings::Settings;

/// A network is used so often one after the other at most.
const MAX_PASSES: u32 = 3;
const MAX_FACTOR: f64 = 16.0;
/// Smaller tiles would be border for the most part.
const MIN_TILE: u32 = 64;

/// Size of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetSize {
    /// So many times as wide and as high.
    Factor(f64),
    /// Width and height; what is too much of another aspect ratio is cut off at its edges.
    Pixels(u32, u32),
}

impl FromStr for TargetSize {
    type Err = String;

    /// `1920x1080`.
    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split_once(['x', 'X', '×']);
        let side = |text: &str| text.trim().parse().ok().filter(|side| *side > 0);
        sides
            .and_then(|(width, height)| Some(Self::Pixels(side(width)?, side(height)?)))
            .ok_or_else(|| format!("expected a size such as 1920x1080, found '{text}'"))
    }
}

/// Frame rate of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NewRate {
    /// Frames for each frame.
    Times(u32),
    /// Frames per second.
    Fps(f64),
}

/// Requested work and its own settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostprocessOptions {
    Upscale {
        size: TargetSize,
        /// The longest edge of what is computed at a time, in pixels; as much as fits when absent.
        tile: Option<u32>,
    },
    Interpolate(NewRate),
    Depth,
}

/// A request before [`validate`](Self::validate).
#[derive(Clone, Debug, PartialEq)]
pub struct PostprocessForm {
    pub source: PathBuf,
    pub network: PathBuf,
    pub options: PostprocessOptions,
    pub out: PathBuf,
    pub is_out_automatic: bool,
    pub dtype: DtypeChoice,
    pub memory: MemoryOptions,
    pub crf: u8,
}

impl PostprocessForm {
    /// As the settings say, for a result that is named automatically. Reads the source once.
    pub fn of_settings(
        source: PathBuf,
        network: PathBuf,
        options: PostprocessOptions,
        settings: &Settings,
    ) -> Result<Self, JobError> {
        let (is_image, _) = look_at(&source)?;
        let ending = ending_of(&source, is_image);
        Ok(Self {
            source,
            network,
            options,
            out: format!("result.{ending}").into(),
            is_out_automatic: true,
            // Eight bits of colour need more than the bf16 that others compute in.
            dtype: DtypeChoice::Auto,
            memory: settings.memory.choice(),
            crf: settings.output.crf,
        })
    }

    /// The request, or one sentence on why there can be none. Reads headers, and the source once.
    pub fn validate(self) -> Result<PostprocessRequest, JobError> {
        let (is_image, before) = look_for(&self.source, &self.out)?;
        let network = self.network;
        let (after, work, tile) = match self.options {
            PostprocessOptions::Upscale { size, tile } => {
                let config = UpscalerConfig::read(&network)?;
                let (width, height) = size_of(size, &before)?;
                if let Some(tile) = tile.filter(|tile| *tile < MIN_TILE) {
                    return Err(JobError::invalid(format!(
                        "expected tiles of at least {MIN_TILE} pixels, found {tile}"
                    )));
                }
                let passes = passes(&config, &before, (width, height))?;
                let after = VideoInfo {
                    width,
                    height,
                    ..before
                };
                (after, PostprocessKind::Upscale { network, passes }, tile)
            }
            PostprocessOptions::Interpolate(rate) => {
                IfnetConfig::read(&network)?;
                let retiming = match rate {
                    NewRate::Times(times) => {
                        FrameRetiming::times(before.num_frames, before.fps, times)
                    }
                    NewRate::Fps(fps) => FrameRetiming::to_fps(before.num_frames, before.fps, fps),
                };
                let retiming = retiming.map_err(JobError::invalid)?;
                let after = VideoInfo {
                    fps: retiming.fps(),
                    num_frames: retiming.num_frames(),
                    is_uneven: false,
                    ..before
                };
                (after, PostprocessKind::Interpolate { network }, None)
            }
            PostprocessOptions::Depth => {
                DepthConfig::read(&network)?;
                (before, PostprocessKind::Depth { network }, None)
            }
        };
        check_out(&self.out, is_image, &after)?;
        let fingerprint = fingerprint(&self.source, is_image)?;
        Ok(PostprocessRequest {
            source: self.source,
            fingerprint,
            is_image,
            before,
            after,
            work,
            dtype: self.dtype,
            tile,
            memory: self.memory,
            crf: self.crf,
            out: self.out,
            is_out_automatic: self.is_out_automatic,
        })
    }
}

fn size_of(size: TargetSize, before: &VideoInfo) -> Result<(u32, u32), JobError> {
    let (width, height) = match size {
        TargetSize::Pixels(width, height) => (width, height),
        TargetSize::Factor(factor) if (1.0..=MAX_FACTOR).contains(&factor) => {
            let side = |side: u32| (f64::from(side) * factor).round() as u32;
            (side(before.width), side(before.height))
        }
        TargetSize::Factor(factor) => {
            return Err(JobError::invalid(format!(
                "expected a factor between 1 and {MAX_FACTOR}, found {factor}"
            )));
        }
    };
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS {
        return Err(JobError::invalid(format!(
            "the result would be {width} × {height}, and at most {} megapixels can be made",
            MAX_PIXELS / 1_000_000
        )));
    }
    Ok((width, height))
}

/// Reads a source: whether it is a single image, and its size, length and frame rate.
pub fn look_at(source: &Path) -> Result<(bool, VideoInfo), JobError> {
    let info = media::media_info(source)?;
    Ok((info.num_frames == 1 && info.fps == 0.0, info))
}

/// As [`look_at`], but a video of one frame is no image if the result is to be a video.
fn look_for(source: &Path, out: &Path) -> Result<(bool, VideoInfo), JobError> {
    let (is_image, info) = look_at(source)?;
    let makes_video = VideoFormat::from_path(out).is_ok_and(|format| !format.holds_images());
    match media::video_info(source) {
        Ok(video) if is_image && makes_video && video.num_frames == 1 => Ok((false, video)),
        _ => Ok((is_image, info)),
    }
}

/// The content of a source.
pub fn fingerprint(source: &Path, is_image: bool) -> Result<String, MediaError> {
    if is_image {
        media::image_fingerprint(source)
    } else {
        media::video_fingerprint(source)
    }
}

/// Extension of an automatic name: the source's own if it can be written.
pub fn ending_of(source: &Path, is_image: bool) -> String {
    let own = source
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let format = VideoFormat::from_path(source);
    let fits =
        format.is_ok_and(|format| format.holds_images() == is_image || format == VideoFormat::WebP);
    if fits {
        own
    } else if is_image {
        "png".to_owned()
    } else {
        DEFAULT_VIDEO_ENDING.to_owned()
    }
}

/// Number of passes through the network that give the requested size.
fn passes(
    config: &UpscalerConfig,
    before: &VideoInfo,
    (width, height): (u32, u32),
) -> Result<u32, JobError> {
    let wanted = f64::max(
        f64::from(width) / f64::from(before.width.max(1)),
        f64::from(height) / f64::from(before.height.max(1)),
    );
    let scale = f64::from(config.scale());
    let enough = |passes: &u32| scale.powi(*passes as i32) * (1.0 + 1e-9) >= wanted;
    (1..=MAX_PASSES).find(enough).ok_or_else(|| {
        let kind = match config.scale() {
            1 => "does not enlarge, and".to_owned(),
            scale => format!("enlarges ×{scale}, and at most {MAX_PASSES} times, but"),
        };
        let wanted = (wanted * 100.0).round() / 100.0;
        JobError::invalid(format!("this network {kind} ×{wanted} was asked for"))
            .advise("Choose another network or a smaller size")
    })
}

fn check_out(out: &Path, is_image: bool, after: &VideoInfo) -> Result<(), JobError> {
    let format = VideoFormat::from_path(out)?;
    if is_image && !format.holds_images() {
        return Err(JobError::invalid(format!(
            "an image cannot be saved as {}: choose a name that ends in .png, .jpg or .webp",
            format.name()
        )));
    }
    check_frame_size(out, after.width, after.height)?;
    Ok(check_frames_writable(out, after.num_frames as usize)?)
}

#[cfg(test)]
pub(super) mod tests;
