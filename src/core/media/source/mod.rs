//! Reading videos: MP4 and MOV with H.264 (in builds that have it), animated GIF, WebP and PNG, and numbered PNG images;
//! other codecs and containers through the user's ffmpeg.
//!
//! Frames come upright, with square pixels, in the order in which they are shown, as sRGB. Sound is found and not
//! decoded. Frames whose times are uneven have their starts next to the average rate ([`FrameStarts`]).

mod animation;
mod apng;
mod display;
mod ffmpeg;
mod ffprobe;
mod foreign_sound;
#[cfg_attr(
    not(feature = "h264"),
    expect(dead_code, reason = "what is found is not decoded")
)]
mod mp4;
mod numbered;
mod reader;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use ffmpeg::input as ffmpeg_input;
pub(super) use foreign_sound::sound as foreign_sound;
pub(super) use mp4::sound as mp4_sound;
pub use reader::{TakeFrame, VideoReader};

use super::{FrameStarts, MediaError, OpenedImage, RgbPixels};

/// Videos with more pixels in all their frames together are refused before they fill the memory: three bytes each make 3
/// GB, which is a minute of 1280 × 720 at 18 frames a second.
pub const MAX_VIDEO_PIXELS: u64 = 1_000_000_000;

/// Decoded frames of a video.
#[derive(Clone, Debug, Default)]
pub struct Video {
    pub frames: Vec<Arc<RgbPixels>>,
    pub fps: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct VideoInfo {
    /// Pixels, upright.
    pub width: u32,
    /// Pixels, upright.
    pub height: u32,
    /// Frames a second, on average.
    pub fps: f64,
    pub num_frames: u32,
    /// Frames are shown for different times.
    #[serde(default)]
    pub is_uneven: bool,
}

impl VideoInfo {
    /// Rate and length of the video as a model of `fps` frames per second gets it: uneven frames are resampled, even ones
    /// keep their own rate.
    #[must_use]
    pub fn for_model(self, fps: f64) -> Self {
        if !self.is_uneven || self.fps <= 0.0 {
            return self;
        }
        let num_frames = (f64::from(self.num_frames) / self.fps * fps)
            .round()
            .max(1.0);
        Self {
            fps,
            num_frames: num_frames as u32,
            is_uneven: false,
            ..self
        }
    }

    /// Facts of a single image.
    pub(super) fn image(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            fps: 0.0,
            num_frames: 1,
            is_uneven: false,
        }
    }
}

/// All frames of the video at `path`, whatever its extension says; uneven ones are resampled to their average rate.
pub fn open_video(path: &Path) -> Result<Video, MediaError> {
    let reader = VideoReader::open(path)?;
    let fps = reader.info().fps;
    read_video(reader, fps)
}

/// Like [`open_video`], for a model of `fps` frames per second: see [`VideoReader::read_even`].
pub fn open_video_for_model(path: &Path, fps: f64) -> Result<Video, MediaError> {
    read_video(VideoReader::open(path)?, fps)
}

fn read_video(mut reader: VideoReader, fps: f64) -> Result<Video, MediaError> {
    let info = reader.info().for_model(fps);
    let path = &reader.path().to_owned();
    check_amount(info.num_frames, info.width, info.height, path)?;
    let mut frames = Vec::new();
    reader.resample(fps, &mut |_, frame| {
        let (width, height) = (frame.image.width, frame.image.height);
        // Headers may promise less than there is.
        check_amount(frames.len() as u32 + 1, width, height, path)?;
        frames.push(Arc::new(frame.image));
        Ok(())
    })?;
    check_sizes(&frames, path)?;
    Ok(Video {
        frames,
        fps: info.fps,
    })
}

/// Size, rate and length of the video at `path`, from its headers.
pub fn video_info(path: &Path) -> Result<VideoInfo, MediaError> {
    VideoReader::open(path).map(|reader| reader.info())
}

/// Starts of the frames of the video at `path`; `None` where they have an even rate.
pub fn frame_starts(path: &Path) -> Result<Option<FrameStarts>, MediaError> {
    VideoReader::open(path).map(|reader| reader.starts().cloned())
}

/// The last frame of the video at `path`, exactly as [`open_video`] gives it.
pub fn last_frame(path: &Path) -> Result<RgbPixels, MediaError> {
    let mut last = None;
    let mut reader = VideoReader::open(path)?;
    let first = reader.num_certain_frames().saturating_sub(1);
    reader.read_from(first, &mut |number, frame| {
        let (width, height) = (frame.image.width, frame.image.height);
        check_amount(number + 1 - first, width, height, path)?;
        last = Some(frame.image);
        Ok(())
    })?;
    last.ok_or_else(|| MediaError::no_frames(path))
}

/// The first frame of the video at `path`; the others are not decoded.
pub(crate) fn first_frame(path: &Path) -> Result<OpenedImage, MediaError> {
    let mut first = None;
    let mut reader = VideoReader::open(path)?;
    reader.read_with_alpha(0, &mut |_, frame| {
        first = Some(frame);
        ControlFlow::Break(())
    })?;
    first.ok_or_else(|| MediaError::no_frames(path))
}

/// All files that the video at `path` consists of, in order: more than one only for numbered images.
pub fn video_files(path: &Path) -> Result<Vec<PathBuf>, MediaError> {
    VideoReader::open(path).map(VideoReader::into_files)
}

/// Takes one decoded frame; its error ends the reading.
type FrameSink<'a> = dyn FnMut(OpenedImage) -> Result<(), MediaError> + 'a;

/// Takes one decoded frame and its number.
type NumberedSink<'a> = dyn FnMut(u32, OpenedImage) -> Result<(), MediaError> + 'a;

/// Properties of a video that its headers and first frame give.
struct VideoFacts {
    info: VideoInfo,
    /// `None` where the frames have an even rate.
    starts: Option<FrameStarts>,
    /// Properties that the frames do not keep, all but transparency, each as a sentence.
    notices: Vec<String>,
    /// Conversions of the frames that lose nothing of note, as sentences.
    conversions: Vec<String>,
}

/// Notices on all tracks but the first video track. Sound has its own.
fn track_notices(num_videos: usize, num_subtitles: usize) -> Vec<String> {
    let videos =
        (num_videos > 1).then(|| format!("Only the first of {num_videos} video tracks is used"));
    let subtitles = (num_subtitles > 0).then(|| "Subtitles are not used".to_owned());
    videos.into_iter().chain(subtitles).collect()
}

/// A video that no decoder here reads.
enum UnsupportedVideo {
    /// Only ffmpeg may decode it; a noun phrase that follows "found".
    Codec(String),
    Failed(MediaError),
}

fn check_amount(num_frames: u32, width: u32, height: u32, path: &Path) -> Result<(), MediaError> {
    let pixels = u64::from(num_frames) * u64::from(width) * u64::from(height);
    if pixels <= MAX_VIDEO_PIXELS {
        return Ok(());
    }
    let most = MAX_VIDEO_PIXELS / 1_000_000;
    Err(MediaError::with_path(
        format_args!(
            "this video is too long: {num_frames} frames of {width} × {height}, and at most {most} megapixels in all frames can be read"
        ),
        path,
    ))
}

/// A video's frames are all of one size, and there is at least one.
fn check_sizes(frames: &[Arc<RgbPixels>], path: &Path) -> Result<(), MediaError> {
    let Some(first) = frames.first() else {
        return Err(MediaError::no_frames(path));
    };
    let expected = (first.width, first.height);
    let is_other = |frame: &&Arc<RgbPixels>| (frame.width, frame.height) != expected;
    match frames.iter().find(is_other) {
        None => Ok(()),
        Some(other) => Err(MediaError::frame_size(expected, other, path)),
    }
}

#[cfg(test)]
mod tests;
