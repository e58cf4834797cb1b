//! Videos that are not decoded here, through the ffmpeg that the user has installed.
//!
//! It is told the container, reads this one file and nothing else, and never writes a file. Without it
//! there is a sentence that names it. It turns frames upright, makes their pixels square and deinterlaces them;
//! primaries and transfer are converted here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::ffprobe::{self, MICROS, VIDEO_STREAM};
use super::{ClipInfo, Sink};
use crate::media::colour::ColourConversion;
use crate::media::ffmpeg_images::{FfmpegImages, FfmpegPixels};
use crate::media::open::{Failure, picture_from_rgb};
use crate::media::{FrameStarts, HAS_H264, MediaError, Picture};

/// The rate of a clip that tells none.
const DEFAULT_FPS: f64 = 24.0;

pub(super) struct Ffmpeg {
    path: PathBuf,
    /// The container's name in ffmpeg.
    container: &'static str,
    /// Filters of each frame, in ffmpeg's words.
    filters: String,
    conversion: Option<ColourConversion>,
    pub info: ClipInfo,
    pub notices: Vec<String>,
    pub starts: Option<FrameStarts>,
}

/// What a first frame may take of the processor: a list of a million edits keeps ffmpeg busy for minutes.
const FIRST_FRAME_SECS: &str = "10";

impl Ffmpeg {
    /// Opens a clip of which it is known that nothing else here can read it, and what it is. `kind` is the name of the
    /// container.
    pub fn open(
        path: &Path,
        kind: &'static str,
        container: &'static str,
        found: String,
    ) -> Result<Self, MediaError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let (here, readable) = if HAS_H264 {
            ("", "MP4 with 8-bit H.264 (4:2:0)")
        } else {
            (
                ", and this build of Safelight has no H.264",
                "an animated WebP or GIF",
            )
        };
        let missing = |found: String| {
            MediaError::said(
                format_args!(
                    "this clip is {found}{here}: install ffmpeg to read it, or convert it to {readable}"
                ),
                &path,
            )
        };
        let probed = ffprobe::probe(&path, container, VIDEO_STREAM, ffprobe::VIDEO_ENTRIES);
        let probe = match probed {
            Err(MediaError::NotFound { .. }) => return Err(missing(found)),
            probed => probed?,
        };
        let Some(stream) = probe.streams.first() else {
            return Err(if probe.num_streams > 0 {
                Failure::NoVideo.into_error(kind, &path)
            } else {
                unreadable(&path)
            });
        };
        let (conversion, colour_notice) = stream.conversion();
        let mut notices = stream.notices();
        notices.extend(colour_notice);
        let mut fps = stream.rate().unwrap_or(DEFAULT_FPS);
        let (mut num_frames, mut starts) = (probe.num_packets, None);
        if let Some(ticks) = probe.times() {
            num_frames = ticks.len() as u32 - 1;
            let length = (ticks[ticks.len() - 2] - ticks[0]) as f64;
            let average = f64::from(num_frames - 1) * MICROS / length;
            (fps, starts) = FrameStarts::find(&ticks, MICROS, &[fps, average]);
        }
        let mut ffmpeg = Self {
            path: path.clone(),
            container,
            filters: stream.filters(),
            conversion,
            info: ClipInfo {
                width: 0,
                height: 0,
                fps,
                num_frames,
                is_uneven: starts.is_some(),
            },
            notices,
            starts,
        };
        // Only a decoded frame tells its size upright.
        let only_first = ["-frames:v", "1", "-timelimit", FIRST_FRAME_SECS];
        let mut frames = match ffmpeg.start(&only_first) {
            Err(MediaError::NotFound { .. }) => return Err(missing(found)),
            frames => frames?,
        };
        let first = ffmpeg.next(&mut frames)?;
        let first = first.ok_or_else(|| unreadable(&path))?;
        (ffmpeg.info.width, ffmpeg.info.height) = (first.width, first.height);
        Ok(ffmpeg)
    }

    pub fn read(&self, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        let mut frames = self.start(&[])?;
        while let Some(frame) = self.next(&mut frames)? {
            sink(frame)?;
        }
        if frames.finish() {
            Ok(())
        } else {
            Err(unreadable(&self.path))
        }
    }

    fn start(&self, options: &[&str]) -> Result<FfmpegImages, MediaError> {
        let pixels = match self.conversion {
            Some(_) => FfmpegPixels::Rgb16,
            None => FfmpegPixels::Rgb8,
        };
        let stream = format!("0:{VIDEO_STREAM}");
        let options = [&["-map", &stream], options, &["-vf", &self.filters]].concat();
        let input = input(self.container, &self.path);
        FfmpegImages::start(input, Stdio::null(), &options, pixels)
            .map_err(|err| MediaError::from_io("start ffmpeg", err, &self.path))
    }

    /// The next frame; `None` after the last one.
    fn next(&self, frames: &mut FfmpegImages) -> Result<Option<Picture>, MediaError> {
        let next = frames.next(|_, _| Ok(())).and_then(|image| {
            let Some(image) = image else { return Ok(None) };
            let (width, height) = (image.width(), image.height());
            let rgb = match &self.conversion {
                Some(conversion) => conversion
                    .convert_words(image.into_rgb16().as_raw())
                    .map_err(Failure::Unsupported)?,
                None => image.into_rgb8().into_raw(),
            };
            picture_from_rgb(width, height, rgb).map(Some)
        });
        next.map_err(|failure| failure.into_error("video", &self.path))
    }
}

pub(super) fn input(container: &str, path: &Path) -> [OsString; 6] {
    // With its protocol in front, no name can be taken for another address or an option.
    let mut file = OsString::from("file:");
    file.push(path);
    [
        "-protocol_whitelist".into(),
        "file".into(),
        "-f".into(),
        container.into(),
        "-i".into(),
        file,
    ]
}

fn unreadable(path: &Path) -> MediaError {
    Failure::Damaged("ffmpeg cannot decode it".to_owned()).into_error("video", path)
}
