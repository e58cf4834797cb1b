//! Videos that are not decoded here, through the ffmpeg that the user has installed.
//!
//! It gets the container's name, reads this one file and nothing else, and never writes a file. Without it
//! there is a sentence that names it. It turns frames upright, makes their pixels square and deinterlaces them;
//! primaries and transfer are converted here.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::display::conversions;
use super::ffprobe::{self, MICROS, ProbedStream, VIDEO_STREAM};
use super::{FrameSink, VideoFacts, VideoInfo, track_notices};
use crate::formats::{ByteSource, cut};
use crate::media::colour::ColourConversion;
use crate::media::ffmpeg_images::{FfmpegImages, FfmpegPixels};
use crate::media::open::{DecodeFailure, image_from_rgb};
use crate::media::{
    AlphaChannel, FrameStarts, HAS_H264, MediaError, MediaErrorKind, OpenedImage, RgbPixels,
};

/// The rate of a video that tells none.
const DEFAULT_FPS: f64 = 24.0;

pub(super) struct FfmpegSource {
    path: PathBuf,
    /// The container's name in ffmpeg.
    container: &'static str,
    /// Filters of each frame, in ffmpeg's words.
    filters: String,
    conversion: Option<ColourConversion>,
    /// Decoder that gives alpha, where ffmpeg's own choice does not.
    alpha_decoder: Option<&'static str>,
    pub has_alpha: bool,
}

/// Processor seconds for the first frame: a list of a million edits keeps ffmpeg busy for minutes.
const FIRST_FRAME_SECS: &str = "10";

impl FfmpegSource {
    /// Opens a video of which it is known that nothing else here can read it, and what it is. `kind` is the name of the
    /// container.
    pub fn open(
        path: &Path,
        kind: &'static str,
        container: &'static str,
        found: String,
    ) -> Result<(Self, VideoFacts), MediaError> {
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
            MediaError::with_path(
                format_args!(
                    "this video is {found}{here}: install ffmpeg to read it, or convert it to {readable}"
                ),
                &path,
            )
        };
        let video = Some(VIDEO_STREAM);
        let probe = |streams, entries, options: &[&str]| {
            ffprobe::probe(&path, container, streams, entries, options)
        };
        let mut probed = match probe(video, ffprobe::VIDEO_ENTRIES, &[]) {
            Err(err) if err.kind == MediaErrorKind::NotFound => return Err(missing(found)),
            probed => probed?,
        };
        let (times, mut num_frames) = (probed.times(), probed.num_packets);
        let rate = probed.streams.first().and_then(ProbedStream::rate);
        let fps = rate.unwrap_or(DEFAULT_FPS);
        let found_secs = times.as_deref().map_or_else(
            || f64::from(num_frames) / fps,
            |ticks| (ticks[ticks.len() - 1] - ticks[0]) as f64 / MICROS,
        );
        let is_cut = is_cut_off(&path, container);
        let shortfall = probed.shortfall(found_secs, container, is_cut);
        let tracks = if probed.num_streams > 1 {
            probe(None, ffprobe::TRACK_ENTRIES, &[])?.streams
        } else {
            Vec::new()
        };
        let count = |kind| {
            let is_track =
                |it: &&ProbedStream| it.get("codec_type") == kind && it.get("attached_pic") != "1";
            tracks.iter().filter(is_track).count()
        };
        let mut notices = track_notices(count("video"), count("subtitle"));
        notices.extend(shortfall);
        let Some(stream) = probed.streams.first_mut() else {
            return Err(if probed.num_streams > 0 {
                DecodeFailure::NoVideo.into_error(kind, &path)
            } else {
                unreadable(&path)
            });
        };
        if stream.lacks_peak() {
            let frames = probe(video, ffprobe::PEAK_ENTRIES, &ffprobe::FIRST_FRAME)?.streams;
            for frame in frames {
                stream.fill_from(frame);
            }
        }
        let stream = &*stream;
        let colours = stream.colours();
        notices.extend(stream.notices());
        notices.extend(colours.notice);
        let has_alpha = stream.has_alpha();
        let alpha_decoder = match stream.get("codec_name") {
            "vp8" if has_alpha => Some("libvpx"),
            "vp9" if has_alpha => Some("libvpx-vp9"),
            _ => None,
        };
        let (mut fps, mut starts) = (fps, None);
        if let Some(ticks) = times {
            num_frames = ticks.len() as u32 - 1;
            let length = (ticks[ticks.len() - 2] - ticks[0]) as f64;
            let average = f64::from(num_frames - 1) * MICROS / length;
            (fps, starts) = FrameStarts::find(&ticks, MICROS, &[fps, average]);
        }
        let mut ffmpeg = Self {
            path: path.clone(),
            container,
            filters: stream.filters(),
            conversion: colours.conversion,
            alpha_decoder,
            has_alpha: false,
        };
        // Only a decoded frame tells its size upright.
        let only_first = ["-frames:v", "1", "-timelimit", FIRST_FRAME_SECS];
        let mut frames = match ffmpeg.start(&only_first) {
            Err(err) if err.kind == MediaErrorKind::NotFound => return Err(missing(found)),
            frames => frames?,
        };
        let first = ffmpeg.next(&mut frames)?;
        let first = first.ok_or_else(|| unreadable(&path))?;
        if has_alpha {
            let alpha = ffmpeg.start_alpha(&only_first);
            let alpha = alpha.map(|mut frames| frames.next(|_, _| Ok(())));
            ffmpeg.has_alpha = matches!(alpha, Ok(Ok(Some(_))));
        }
        if has_alpha && !ffmpeg.has_alpha {
            notices.push(
                "The installed ffmpeg cannot read its transparency: frames become opaque"
                    .to_owned(),
            );
        }
        let info = VideoInfo {
            width: first.width,
            height: first.height,
            fps,
            num_frames,
            is_uneven: starts.is_some(),
        };
        let facts = VideoFacts {
            info,
            starts,
            notices,
            conversions: conversions(colours.words, stream.pixel_aspect()),
        };
        Ok((ffmpeg, facts))
    }

    pub fn read(&self, sink: &mut FrameSink<'_>) -> Result<(), MediaError> {
        let mut frames = self.start(&[])?;
        let mut alphas = None;
        if self.has_alpha {
            alphas = Some(self.start_alpha(&[])?);
        }
        while let Some(image) = self.next(&mut frames)? {
            let mut alpha = None;
            if let Some(alphas) = &mut alphas {
                alpha = self.next_alpha(alphas)?;
            }
            sink(OpenedImage {
                alpha,
                ..image.into()
            })?;
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
        self.start_with(None, options, &self.filters, pixels)
    }

    /// Starts a second ffmpeg, which gives the alpha of each frame.
    fn start_alpha(&self, options: &[&str]) -> Result<FfmpegImages, MediaError> {
        let filters = format!("{},alphaextract", self.filters);
        self.start_with(self.alpha_decoder, options, &filters, FfmpegPixels::Grey8)
    }

    fn start_with(
        &self,
        decoder: Option<&str>,
        options: &[&str],
        filters: &str,
        pixels: FfmpegPixels,
    ) -> Result<FfmpegImages, MediaError> {
        let stream = format!("0:{VIDEO_STREAM}");
        let options = [&["-map", &stream], options, &["-vf", filters]].concat();
        let decoder = decoder.map(|decoder| ["-c:v", decoder]);
        let decoder = decoder.into_iter().flatten().map(OsString::from);
        let input = decoder.chain(input(self.container, &self.path));
        FfmpegImages::start(input, Stdio::null(), &options, pixels)
            .map_err(|err| MediaError::from_io("start ffmpeg", &err, &self.path))
    }

    /// Alpha of the next frame; `None` where all of it is opaque.
    fn next_alpha(&self, alphas: &mut FfmpegImages) -> Result<Option<AlphaChannel>, MediaError> {
        let next = alphas.next(|_, _| Ok(()));
        let image = next.map_err(|failure| failure.into_error("video", &self.path))?;
        let image = image.ok_or_else(|| unreadable(&self.path))?.into_luma8();
        Ok(AlphaChannel::new(image))
    }

    /// The next frame; `None` after the last one.
    fn next(&self, frames: &mut FfmpegImages) -> Result<Option<RgbPixels>, MediaError> {
        let next = frames.next(|_, _| Ok(())).and_then(|image| {
            let Some(image) = image else { return Ok(None) };
            let (width, height) = (image.width(), image.height());
            let rgb = match &self.conversion {
                Some(conversion) => conversion
                    .convert_words(image.into_rgb16().as_raw())
                    .map_err(DecodeFailure::Unsupported)?,
                None => image.into_rgb8().into_raw(),
            };
            image_from_rgb(width, height, rgb).map(Some)
        });
        next.map_err(|failure| failure.into_error("video", &self.path))
    }
}

pub(in crate::media) fn input(container: &str, path: &Path) -> [OsString; 6] {
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

fn is_cut_off(path: &Path, container: &str) -> bool {
    let read = || {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok::<_, std::io::Error>(cut::is_cut_off(&mut ByteSource::new(file, len), container))
    };
    read().unwrap_or(false)
}

fn unreadable(path: &Path) -> MediaError {
    DecodeFailure::Damaged("ffmpeg cannot decode it".to_owned()).into_error("video", path)
}
