//! Reading videos: MP4 and MOV with H.264 (in builds that have it), animated GIF, WebP and PNG, and numbered PNG images;
//! other codecs and containers through the user's ffmpeg.
//!
//! Frames come upright, with square pixels, in the order in which they are shown, as sRGB. Sound is found and not
//! decoded. Frames whose times are uneven have their starts beside the average rate ([`FrameStarts`]).

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

use std::path::{Path, PathBuf};
use std::sync::Arc;

use animation::Animation;
pub(super) use apng::is_animated as is_animated_png;
use ffmpeg::Ffmpeg;
pub(super) use foreign_sound::sound as foreign_sound;
use mp4::Movie;
pub(super) use mp4::sound as mp4_sound;
use numbered::Numbered;
pub use reader::{ClipReader, TakeFrame};

use super::kind::{self, Kind};
use super::{FrameStarts, MediaError, Picture};
use crate::job::Clip;

/// Clips with more pixels in all their frames together are refused before they fill the memory: three
/// bytes each make 3 GB, which is a minute of 1280 × 720 at 18 frames a second.
pub const MAX_CLIP_PIXELS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ClipInfo {
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

impl ClipInfo {
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

    /// What is said of a single picture.
    pub(super) fn picture(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            fps: 0.0,
            num_frames: 1,
            is_uneven: false,
        }
    }
}

/// All frames of the clip at `path`, whatever its extension says; uneven ones are resampled to their average rate.
pub fn open_clip(path: &Path) -> Result<Clip, MediaError> {
    let source = Source::open(path)?;
    let fps = source.info().fps;
    read_clip(source, fps, path)
}

/// Like [`open_clip`], for a model of `fps` frames per second: see [`ClipReader::read_even`].
pub fn open_clip_for_model(path: &Path, fps: f64) -> Result<Clip, MediaError> {
    read_clip(Source::open(path)?, fps, path)
}

fn read_clip(mut source: Source, fps: f64, path: &Path) -> Result<Clip, MediaError> {
    let info = source.info().for_model(fps);
    check_amount(info.num_frames, info.width, info.height, path)?;
    let mut frames = Vec::new();
    source.read_even(fps, &mut |_, frame| {
        // Headers may promise less than there is.
        check_amount(frames.len() as u32 + 1, frame.width, frame.height, path)?;
        frames.push(Arc::new(frame));
        Ok(())
    })?;
    check_sizes(&frames, path)?;
    Ok(Clip {
        frames,
        fps: info.fps,
    })
}

/// Size, rate and length of the clip at `path`, from its headers.
pub fn clip_info(path: &Path) -> Result<ClipInfo, MediaError> {
    Source::open(path).map(|source| source.info())
}

/// Starts of the frames of the clip at `path`; `None` where they have an even rate.
pub fn frame_starts(path: &Path) -> Result<Option<FrameStarts>, MediaError> {
    Source::open(path).map(|source| source.starts().cloned())
}

/// The last frame of the clip at `path`, exactly as [`open_clip`] gives it.
pub fn last_frame(path: &Path) -> Result<Picture, MediaError> {
    let mut last = None;
    let mut source = Source::open(path)?;
    let first = source.certain_frames().saturating_sub(1);
    source.read_from(first, &mut |number, frame| {
        check_amount(number + 1 - first, frame.width, frame.height, path)?;
        last = Some(frame);
        Ok(())
    })?;
    last.ok_or_else(|| MediaError::no_frames(path))
}

/// The first frame of the clip at `path`; the others are not decoded.
pub(super) fn first_frame(path: &Path) -> Result<Picture, MediaError> {
    let none = || MediaError::no_frames(path);
    let mut first = None;
    // The error only ends the reading.
    let read = Source::open(path)?.read_from(0, &mut |_, frame| {
        first = Some(frame);
        Err(none())
    });
    first.map_or_else(|| Err(read.err().unwrap_or_else(none)), Ok)
}

/// All files that the clip at `path` consists of, in order: more than one only for numbered pictures.
pub fn clip_files(path: &Path) -> Result<Vec<PathBuf>, MediaError> {
    match Source::open(path)? {
        Source::Numbered(numbered) => Ok(numbered.files().to_vec()),
        _ => Ok(vec![path.to_path_buf()]),
    }
}

/// Takes one decoded frame; its error ends the reading.
type Sink<'a> = dyn FnMut(Picture) -> Result<(), MediaError> + 'a;

/// The same with the frame's number.
type NumberedSink<'a> = dyn FnMut(u32, Picture) -> Result<(), MediaError> + 'a;

const ALPHA_DROPPED: &str = "Transparency is dropped: frames become opaque";

/// Why a reader does not read a clip.
enum Unread {
    /// It may be sound, but only ffmpeg could decode it; what it is, in words that fit behind "found".
    Codec(String),
    Failed(MediaError),
}

enum Source {
    Animation(Animation),
    Movie(Box<Movie>),
    Numbered(Numbered),
    Ffmpeg(Ffmpeg),
}

impl Source {
    fn open(path: &Path) -> Result<Self, MediaError> {
        let opened = kind::open_file(path, "read the clip")?;
        let not_a_clip = |found: &str| MediaError::NotAClip {
            found: found.to_owned(),
            path: path.to_path_buf(),
        };
        if opened.len == 0 {
            return Err(not_a_clip("an empty file"));
        }
        let kind = opened.kind;
        let found = match kind {
            Kind::Gif | Kind::WebP => return Animation::open(path, opened).map(Self::Animation),
            Kind::Png if apng::is_animated(path) => {
                return Animation::open(path, opened).map(Self::Animation);
            }
            Kind::Png => {
                let numbered = Numbered::open(path)?.map(Self::Numbered);
                return numbered.ok_or_else(|| not_a_clip("a PNG picture without a number"));
            }
            Kind::Mp4 => match Movie::open(path, opened.file, opened.len) {
                Ok(movie) => return Ok(Self::Movie(Box::new(movie))),
                Err(Unread::Failed(err)) => return Err(err),
                Err(Unread::Codec(found)) => found,
            },
            other => other.described().to_owned(),
        };
        let Some(demuxer) = kind.demuxer() else {
            return Err(not_a_clip(&found));
        };
        Ffmpeg::open(path, kind.name(), demuxer, found).map(Self::Ffmpeg)
    }

    fn notices(&self) -> Vec<String> {
        match self {
            Self::Animation(animation) => animation.notices(),
            Self::Movie(movie) => movie.notices.clone(),
            Self::Numbered(_) => Vec::new(),
            Self::Ffmpeg(ffmpeg) => ffmpeg.notices.clone(),
        }
    }

    fn info(&self) -> ClipInfo {
        match self {
            Self::Animation(animation) => animation.info,
            Self::Movie(movie) => movie.info,
            Self::Numbered(numbered) => numbered.info,
            Self::Ffmpeg(ffmpeg) => ffmpeg.info,
        }
    }

    fn starts(&self) -> Option<&FrameStarts> {
        match self {
            Self::Animation(animation) => animation.starts.as_ref(),
            Self::Movie(movie) => movie.starts.as_ref(),
            Self::Numbered(_) => None,
            Self::Ffmpeg(ffmpeg) => ffmpeg.starts.as_ref(),
        }
    }

    /// Gives all frames; where their times are uneven those at an even rate, some left out and others repeated.
    fn read_even(&mut self, fps: f64, sink: &mut NumberedSink<'_>) -> Result<(), MediaError> {
        let Some(starts) = self.starts().cloned() else {
            return self.read_from(0, sink);
        };
        let mut index = 0;
        self.read_from(0, &mut |number, picture| {
            while index < starts.num_at(fps) && starts.resampled(index, fps) <= number as usize {
                sink(index as u32, picture.clone())?;
                index += 1;
            }
            Ok(())
        })
    }

    /// How many frames there are for certain: those that have an index. Headers may promise more than there are.
    fn certain_frames(&self) -> u32 {
        match self {
            Self::Movie(_) | Self::Numbered(_) => self.info().num_frames,
            Self::Animation(_) | Self::Ffmpeg(_) => 0,
        }
    }

    fn read_from(&mut self, first: u32, sink: &mut NumberedSink<'_>) -> Result<(), MediaError> {
        if let Self::Movie(movie) = self {
            return movie.read_from_frame(first, sink);
        }
        // What has an index begins there; the others decode what comes before.
        let mut number = match self {
            Self::Numbered(_) => first,
            _ => 0,
        };
        let mut count_up = |picture| {
            let current = number;
            number += 1;
            if current < first {
                return Ok(());
            }
            sink(current, picture)
        };
        match self {
            Self::Animation(animation) => animation.read(&mut count_up),
            Self::Ffmpeg(ffmpeg) => ffmpeg.read(&mut count_up),
            Self::Numbered(numbered) => numbered.read(first as usize, &mut count_up),
            Self::Movie(_) => Ok(()),
        }
    }
}

fn check_amount(num_frames: u32, width: u32, height: u32, path: &Path) -> Result<(), MediaError> {
    let pixels = u64::from(num_frames) * u64::from(width) * u64::from(height);
    if pixels <= MAX_CLIP_PIXELS {
        return Ok(());
    }
    let most = MAX_CLIP_PIXELS / 1_000_000;
    Err(MediaError::said(
        format_args!(
            "this clip is too long: {num_frames} frames of {width} × {height}, and at most {most} megapixels in all frames can be read"
        ),
        path,
    ))
}

/// A clip's frames are all of one size, and there is at least one.
fn check_sizes(frames: &[Arc<Picture>], path: &Path) -> Result<(), MediaError> {
    let Some(first) = frames.first() else {
        return Err(MediaError::no_frames(path));
    };
    let expected = (first.width, first.height);
    let is_other = |frame: &&Arc<Picture>| (frame.width, frame.height) != expected;
    match frames.iter().find(is_other) {
        None => Ok(()),
        Some(other) => Err(MediaError::frame_size(expected, other, path)),
    }
}

#[cfg(test)]
mod tests;
