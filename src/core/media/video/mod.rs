//! Writing of videos and images: `.mp4` (in builds with H.264), `.gif`, `.webp`, `.png` or `.jpg`, by the file's
//! extension.
//!
//! Frames are encoded as they come and the file appears under its name when all are complete: an error, a cancelled job
//! or a full disk leaves nothing, and an old file of that name stays until then.
//! `source` reads videos.

#[cfg(feature = "h264")]
mod encoder;
mod frame_times;
mod gif;
#[cfg(feature = "h264")]
mod h264;
mod jpeg;
pub use jpeg::{jpeg_bytes, open_jpeg};
#[cfg(feature = "h264")]
mod mp4;
mod options;
mod png;
mod segments;
#[cfg(feature = "h264")]
mod sound_track;
mod webp;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::place::{self, AtomicFile, AtomicFiles};
use super::{AlphaChannel, HAS_H264, MediaError, RgbPixels, SoundTrack};
use crate::enum_macros::named;
use crate::naming::{self, numbered_path};

pub use options::VideoOptions;
pub use segments::{FrameSegments, SegmentWriter};

use frame_times::FrameTimes;

/// Program name in the file's metadata.
const MADE_BY: &str = concat!("Safelight ", env!("CARGO_PKG_VERSION"));

const MP4: &str = "mp4";

/// All that is written.
const WRITTEN: &str = if HAS_H264 {
    ".mp4, .gif, .webp, .png or .jpg"
} else {
    ".gif, .webp, .png or .jpg"
};

/// Extension of videos by default.
pub const DEFAULT_VIDEO_ENDING: &str = if HAS_H264 { MP4 } else { "webp" };

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum VideoFormat {
        Mp4 = "MP4",
        Gif = "GIF",
        WebP = "WebP",
        /// One frame, or a numbered file a frame.
        Png = "PNG",
        /// Like PNG, with a little loss.
        Jpeg = "JPEG",
    }
}

impl VideoFormat {
    /// The format that the extension of `path` asks for, in capitals or not.
    pub fn from_path(path: &Path) -> Result<Self, MediaError> {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some(MP4) if HAS_H264 => Ok(Self::Mp4),
            Some(MP4) => Err(MediaError::with_path(
                "this build of Safelight has no H.264 and writes no .mp4: choose a name that ends in .webp or .gif, or in .png for numbered images",
                path,
            )),
            Some("gif") => Ok(Self::Gif),
            Some("webp") => Ok(Self::WebP),
            Some("png") => Ok(Self::Png),
            Some("jpg" | "jpeg") => Ok(Self::Jpeg),
            other => {
                let found = other.map_or_else(
                    || "one without an ending".to_owned(),
                    |other| format!(".{other}"),
                );
                Err(MediaError::with_path(
                    format_args!("choose a file name that ends in {WRITTEN}, not {found}"),
                    path,
                ))
            }
        }
    }

    /// Returns true if it holds a single image; a video becomes numbered files.
    pub fn is_still(self) -> bool {
        matches!(self, Self::Png | Self::Jpeg)
    }

    /// Returns true if images and videos in it keep their transparency.
    pub fn has_alpha(self) -> bool {
        matches!(self, Self::Png | Self::WebP)
    }

    /// Returns true if a single image in it is an image to every program, rather than a video of one frame.
    pub fn holds_images(self) -> bool {
        self.is_still() || self == Self::WebP
    }

    /// Size limit of the format, if `width × height` exceeds it.
    fn broken_limit(self, width: u32, height: u32) -> Option<&'static str> {
        let long = width.max(height);
        match self {
            #[cfg(feature = "h264")]
            Self::Mp4 if long > h264::MAX_LONG_SIDE || width.min(height) > h264::MAX_SHORT_SIDE => {
                Some("3840 × 2160 or 2160 × 3840")
            }
            Self::WebP if long > webp::MAX_SIDE => Some("16383 × 16383"),
            Self::Gif | Self::Jpeg if long > gif::MAX_SIDE => Some("65535 × 65535"),
            _ => None,
        }
    }
}

/// Tells whether a video could be written to `path` now: whether its extension is known, its folder can be written into,
/// and nothing is in the way. For checks before a long job starts.
pub fn check_writable(path: &Path) -> Result<(), MediaError> {
    VideoFormat::from_path(path)?;
    place::check_place(path)
}

/// Like [`check_writable`], for a video with this number of frames: if each becomes a numbered file, all paths are
/// checked.
pub fn check_frames_writable(path: &Path, num_frames: usize) -> Result<(), MediaError> {
    check_writable(path)?;
    if VideoFormat::from_path(path)?.is_still() && num_frames > 1 {
        for number in 1..=num_frames {
            place::check_target(&numbered_path(path, number))?;
        }
    }
    Ok(())
}

/// Tells whether frames of this size could be written to `path`.
pub fn check_frame_size(path: &Path, width: u32, height: u32) -> Result<(), MediaError> {
    let format = VideoFormat::from_path(path)?;
    match format.broken_limit(width, height) {
        None => Ok(()),
        Some(limit) => {
            let expected = format!("frames in {} may be at most {limit}", format.name());
            let sentence = format_args!("{expected}, not {width} × {height}");
            Err(MediaError::with_path(sentence, path))
        }
    }
}

/// Writes `frames` to `path` and tells the files that came of it: one, or for PNG and JPEG one a frame.
pub fn write_video(
    path: &Path,
    frames: &[RgbPixels],
    options: VideoOptions,
) -> Result<Vec<PathBuf>, MediaError> {
    let mut writer = VideoWriter::create(path, options)?;
    for frame in frames {
        writer.push(frame)?;
    }
    writer.finish()
}

/// Writes one image as PNG, without settings.
pub fn write_png(path: &Path, image: &RgbPixels) -> Result<(), MediaError> {
    let mut writer = VideoWriter::create(path, VideoOptions::default())?;
    writer.push(image)?;
    writer.finish().map(drop)
}

/// A video on its way to a file. Dropped before [`VideoWriter::finish`], nothing of it remains.
pub struct VideoWriter {
    path: PathBuf,
    format: VideoFormat,
    options: VideoOptions,
    /// Made with the first frame, whose size all others must have.
    started: Option<StartedVideo>,
}

struct StartedVideo {
    size: (u32, u32),
    encoder: VideoEncoder,
}

enum VideoEncoder {
    #[cfg(feature = "h264")]
    Mp4(Box<mp4::Mp4Writer>),
    Gif(gif::GifWriter),
    WebP(webp::WebP),
    /// Files that wait for their names.
    Stills(AtomicFiles),
}

impl VideoWriter {
    /// Begins a video after the checks of [`check_writable`].
    pub fn create(path: &Path, options: VideoOptions) -> Result<Self, MediaError> {
        check_writable(path)?;
        options.check(path)?;
        let format = VideoFormat::from_path(path)?;
        Ok(Self {
            path: path.to_path_buf(),
            format,
            options,
            started: None,
        })
    }

    pub fn push(&mut self, image: &RgbPixels) -> Result<(), MediaError> {
        self.push_with_alpha(image, AlphaChannel::of(image).as_ref())
    }

    /// Like [`push`](Self::push), with alpha of the same size, which PNG and WebP keep.
    pub fn push_with_alpha(
        &mut self,
        image: &RgbPixels,
        alpha: Option<&AlphaChannel>,
    ) -> Result<(), MediaError> {
        let (width, height) = (image.width, image.height);
        if !image.is_consistent() {
            // The constructor words what is wrong.
            RgbPixels::new(width, height, image.rgb.clone())?;
        }
        let mut started = match self.started.take() {
            Some(started) => started,
            None => self.start(width, height)?,
        };
        if started.size != (width, height) {
            return Err(MediaError::frame_size(started.size, image, &self.path));
        }
        let pushed = match &mut started.encoder {
            #[cfg(feature = "h264")]
            VideoEncoder::Mp4(mp4) => mp4.push(image),
            VideoEncoder::Gif(gif) => gif.push(image),
            VideoEncoder::WebP(webp) => webp.push(image, alpha),
            VideoEncoder::Stills(files) => {
                let bytes = self.encode_still(image, alpha);
                let mut file = AtomicFile::new(&self.path)?;
                file.write(&bytes.map_err(|detail| self.failed(detail))?)?;
                file.complete()?;
                files.push(file);
                Ok(())
            }
        };
        pushed.map_err(|detail| self.failed(detail))?;
        self.started = Some(started);
        Ok(())
    }

    /// Writes what is left, gives the file its name, and tells which files there are now.
    pub fn finish(self) -> Result<Vec<PathBuf>, MediaError> {
        self.finish_with(None)
    }

    /// Like [`finish`](Self::finish), with the sound of an MP4, as [`sound_for`](crate::media::sound_for) finds it.
    pub fn finish_with(mut self, sound: Option<&SoundTrack>) -> Result<Vec<PathBuf>, MediaError> {
        let Some(started) = self.started.take() else {
            return Err(MediaError::no_frames(&self.path));
        };
        let settings = self.options.settings.as_deref();
        let parts = match started.encoder {
            #[cfg(feature = "h264")]
            VideoEncoder::Mp4(mp4) => mp4.finish(settings, sound).map(Vec::from),
            VideoEncoder::Gif(gif) => gif.finish().map(|bytes| vec![bytes]),
            VideoEncoder::WebP(webp) => webp.finish(settings).map(|bytes| vec![bytes]),
            VideoEncoder::Stills(files) => return self.name_files(files),
        };
        let mut file = AtomicFile::new(&self.path)?;
        for (index, part) in parts
            .map_err(|detail| self.failed(detail))?
            .iter()
            .enumerate()
        {
            #[cfg(feature = "h264")]
            if let Some(sound) = sound.filter(|_| index == 1) {
                // Between the header and the frames.
                sound.copy(&mut |packet| file.write(packet))?;
            }
            #[cfg(not(feature = "h264"))]
            let _ = (index, sound);
            file.write(part)?;
        }
        named(file, &self.path, self.options.keeps_others)
    }

    fn start(&self, width: u32, height: u32) -> Result<StartedVideo, MediaError> {
        check_frame_size(&self.path, width, height)?;
        let VideoOptions { crf, settings, .. } = &self.options;
        let (times, crf) = (FrameTimes::new(&self.options), *crf);
        let encoder = match self.format {
            #[cfg(not(feature = "h264"))]
            VideoFormat::Mp4 => Err("this build has no H.264".to_owned()),
            #[cfg(feature = "h264")]
            VideoFormat::Mp4 => mp4::Mp4Writer::new(width, height, times, crf)
                .map(|mp4| VideoEncoder::Mp4(Box::new(mp4))),
            VideoFormat::Gif => gif::GifWriter::new(width, height, times, settings.as_deref())
                .map(VideoEncoder::Gif),
            VideoFormat::WebP => Ok(VideoEncoder::WebP(webp::WebP::new(
                width, height, times, crf,
            ))),
            VideoFormat::Png | VideoFormat::Jpeg => {
                Ok(VideoEncoder::Stills(AtomicFiles::default()))
            }
        };
        Ok(StartedVideo {
            size: (width, height),
            encoder: encoder.map_err(|detail| self.failed(detail))?,
        })
    }

    fn encode_still(
        &self,
        image: &RgbPixels,
        alpha: Option<&AlphaChannel>,
    ) -> Result<Vec<u8>, String> {
        let settings = self.options.settings.as_deref();
        match self.format {
            VideoFormat::Jpeg => jpeg::encode(&image.over_white(), settings),
            _ => png::encode(image, alpha, settings),
        }
    }

    fn name_files(&self, mut files: AtomicFiles) -> Result<Vec<PathBuf>, MediaError> {
        let count = files.len();
        let named_like = |path: &Path| -> Vec<PathBuf> {
            match count {
                1 => vec![path.to_path_buf()],
                _ => (1..=count)
                    .map(|number| numbered_path(path, number))
                    .collect(),
            }
        };
        if self.options.keeps_others {
            for path in naming::names_like(&self.path) {
                let paths = named_like(&path);
                if files.finish_new(&paths)? {
                    return Ok(paths);
                }
            }
        }
        let paths = named_like(&self.path);
        for path in &paths {
            place::check_target(path)?;
        }
        let mut named = Vec::new();
        for (file, path) in files.take().zip(paths) {
            match file.finish_as(&path) {
                Ok(path) => named.push(path),
                Err(err) => {
                    // Half a sequence is half a video.
                    for path in &named {
                        std::fs::remove_file(path).ok();
                    }
                    return Err(err);
                }
            }
        }
        Ok(named)
    }

    fn failed(&self, detail: impl Display) -> MediaError {
        let kind = self.format.name();
        MediaError::with_path(
            format_args!("the {kind} encoder failed ({detail})"),
            &self.path,
        )
    }
}

/// Gives a file that is complete its name, or the next free one where it keeps others.
fn named(
    mut file: AtomicFile,
    path: &Path,
    keeps_others: bool,
) -> Result<Vec<PathBuf>, MediaError> {
    if !keeps_others {
        return Ok(vec![file.finish_as(path)?]);
    }
    for path in naming::names_like(path) {
        if file.finish_new(&path)? {
            return Ok(vec![path]);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests;
