//! A video that is read from any of its frames on: decoding begins at the last keyframe before it, and no frame is
//! cached.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::animation::AnimationSource;
use super::ffmpeg::FfmpegSource;
use super::mp4::Mp4Source;
use super::numbered::NumberedSource;
use super::{NumberedSink, UnsupportedVideo, VideoFacts, VideoInfo};
use crate::formats::kind::{FileFormat, video_formats};
use crate::media::open::png;
use crate::media::opened::open_file;
use crate::media::{FrameStarts, MediaError, OpenedImage, RgbPixels};

/// Takes one decoded frame and its number; breaks off when it needs no more.
pub type TakeFrame<'a> = dyn FnMut(u32, RgbPixels) -> ControlFlow<()> + 'a;

/// Takes one decoded frame with its alpha, and its number; breaks off when it needs no more.
pub type TakeAlphaFrame<'a> = dyn FnMut(u32, OpenedImage) -> ControlFlow<()> + 'a;

pub struct VideoReader {
    path: PathBuf,
    decoder: VideoDecoder,
    facts: VideoFacts,
}

enum VideoDecoder {
    Animation(AnimationSource),
    Movie(Box<Mp4Source>),
    Numbered(NumberedSource),
    Ffmpeg(FfmpegSource),
}

impl VideoReader {
    /// Opens the video at `path`, whatever its extension says; decodes at most its first frame.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        let opened = open_file(path, "read the video")?;
        let not_a_video = |found: &str| {
            let formats = video_formats();
            let sentence = format_args!(
                "this is {found}, not an {formats} video, an animated GIF, WebP or PNG, or numbered PNG images"
            );
            MediaError::with_path(sentence, path)
        };
        if opened.len == 0 {
            return Err(not_a_video("an empty file"));
        }
        let kind = opened.kind;
        let reader = |(decoder, facts)| Self {
            path: path.to_path_buf(),
            decoder,
            facts,
        };
        let found = match kind {
            FileFormat::Gif | FileFormat::WebP => {
                let (animation, facts) = AnimationSource::open(path, opened)?;
                return Ok(reader((VideoDecoder::Animation(animation), facts)));
            }
            FileFormat::Png if png::is_animated(path) => {
                let (animation, facts) = AnimationSource::open(path, opened)?;
                return Ok(reader((VideoDecoder::Animation(animation), facts)));
            }
            FileFormat::Png => {
                let (numbered, facts) = NumberedSource::open(path)?
                    .ok_or_else(|| not_a_video("a PNG image without a number"))?;
                return Ok(reader((VideoDecoder::Numbered(numbered), facts)));
            }
            FileFormat::Mp4 => match Mp4Source::open(path, opened.file, opened.len) {
                Ok((movie, facts)) => {
                    return Ok(reader((VideoDecoder::Movie(Box::new(movie)), facts)));
                }
                Err(UnsupportedVideo::Failed(err)) => return Err(err),
                Err(UnsupportedVideo::Codec(found)) => found,
            },
            other => other.described().to_owned(),
        };
        let demuxer = kind.demuxer().ok_or_else(|| not_a_video(&found))?;
        let (ffmpeg, facts) = FfmpegSource::open(path, kind.name(), demuxer, found)?;
        Ok(reader((VideoDecoder::Ffmpeg(ffmpeg), facts)))
    }

    /// Opens the video or animation at `path`; `None` for an image, also the only one of a video. A numbered image is
    /// taken alone.
    pub fn open_moving(path: &Path) -> Result<Option<Self>, MediaError> {
        let may_move = match open_file(path, "read the file")?.kind {
            FileFormat::Png => png::is_animated(path),
            FileFormat::Gif | FileFormat::WebP => true,
            kind => kind.demuxer().is_some(),
        };
        let reader = may_move.then(|| Self::open(path)).transpose()?;
        Ok(reader.filter(|reader| reader.info().num_frames > 1))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn info(&self) -> VideoInfo {
        self.facts.info
    }

    /// Starts of the frames; `None` where they have an even rate.
    pub fn starts(&self) -> Option<&FrameStarts> {
        self.facts.starts.as_ref()
    }

    /// Losses where the frames are used as opaque ones, each as a sentence.
    pub fn notices(&self) -> Vec<String> {
        let opaque = self
            .has_alpha()
            .then(|| "Transparency is dropped: frames become opaque".to_owned());
        opaque
            .into_iter()
            .chain(self.facts.notices.clone())
            .collect()
    }

    /// Properties that the frames do not keep, such as HDR and interlacing, each as a sentence; all but transparency.
    pub fn format_notices(&self) -> &[String] {
        &self.facts.notices
    }

    /// Returns true if frames have transparent parts: any frame of an animation or among numbered images; of a video, if
    /// its headers say so.
    pub fn has_alpha(&self) -> bool {
        match &self.decoder {
            VideoDecoder::Animation(animation) => animation.has_alpha(),
            VideoDecoder::Movie(_) => false,
            VideoDecoder::Numbered(numbered) => numbered.has_alpha(),
            VideoDecoder::Ffmpeg(ffmpeg) => ffmpeg.has_alpha,
        }
    }

    /// Times that an animation plays; 0 for endless.
    pub fn num_plays(&self) -> u16 {
        match &self.decoder {
            VideoDecoder::Animation(animation) => animation.num_plays,
            _ => 0,
        }
    }

    /// Conversions of the frames that lose nothing of note, each as a sentence.
    pub fn conversions(&self) -> &[String] {
        &self.facts.conversions
    }

    pub(super) fn into_files(self) -> Vec<PathBuf> {
        match self.decoder {
            VideoDecoder::Numbered(numbered) => numbered.files,
            _ => vec![self.path],
        }
    }

    /// Gives the frames from number `first` on, in order, until there are no more or `take` breaks off. Formats without
    /// a keyframe near it decode the frames before it, too.
    pub fn read(&mut self, first: u32, take: &mut TakeFrame<'_>) -> Result<(), MediaError> {
        self.read_with_alpha(first, &mut |number, frame| take(number, frame.image))
    }

    /// Gives the frames like [`read`](Self::read), with their alpha.
    pub fn read_with_alpha(
        &mut self,
        first: u32,
        take: &mut TakeAlphaFrame<'_>,
    ) -> Result<(), MediaError> {
        self.read_by(take, |reader, sink| reader.read_from(first, sink))
    }

    /// Gives all frames like [`read`](Self::read), for a model of `fps` frames per second: if their times are uneven, the
    /// frames that are shown in the middle of each of the model's frames.
    pub fn read_even(&mut self, fps: f64, take: &mut TakeFrame<'_>) -> Result<(), MediaError> {
        let mut take = |number, frame: OpenedImage| take(number, frame.image);
        self.read_by(&mut take, |reader, sink| reader.resample(fps, sink))
    }

    fn read_by(
        &mut self,
        take: &mut TakeAlphaFrame<'_>,
        read: impl FnOnce(&mut Self, &mut NumberedSink<'_>) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let mut has_broken_off = false;
        let path = self.path.clone();
        let read = read(self, &mut |number, frame| {
            if take(number, frame).is_break() {
                has_broken_off = true;
                // Only ends the reading.
                return Err(MediaError::no_frames(&path));
            }
            Ok(())
        });
        if has_broken_off { Ok(()) } else { read }
    }

    /// Gives all frames; uneven ones at an even rate, some left out and others repeated.
    pub(super) fn resample(
        &mut self,
        fps: f64,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(), MediaError> {
        let Some(starts) = self.starts().cloned() else {
            return self.read_from(0, sink);
        };
        let mut index = 0;
        self.read_from(0, &mut |number, frame| {
            while index < starts.num_at(fps) && starts.resampled(index, fps) <= number as usize {
                sink(index as u32, frame.clone())?;
                index += 1;
            }
            Ok(())
        })
    }

    /// Number of frames that have an index. Other headers may promise more than there are.
    pub(super) fn num_certain_frames(&self) -> u32 {
        match self.decoder {
            VideoDecoder::Movie(_) | VideoDecoder::Numbered(_) => self.facts.info.num_frames,
            VideoDecoder::Animation(_) | VideoDecoder::Ffmpeg(_) => 0,
        }
    }

    pub(super) fn read_from(
        &mut self,
        first: u32,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(), MediaError> {
        // Decoders without an index decode the frames before, too.
        let mut number = match self.decoder {
            VideoDecoder::Numbered(_) => first,
            _ => 0,
        };
        let mut count_up = |frame| {
            let current = number;
            number += 1;
            if current < first {
                return Ok(());
            }
            sink(current, frame)
        };
        match &mut self.decoder {
            VideoDecoder::Animation(animation) => animation.read(&mut count_up),
            VideoDecoder::Ffmpeg(ffmpeg) => ffmpeg.read(&mut count_up),
            VideoDecoder::Numbered(numbered) => numbered.read(first as usize, &mut count_up),
            VideoDecoder::Movie(movie) => movie.read_from_frame(first, sink),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{VideoOptions, open_video, write_video};

    /// A video of 110 frames, each of its own brightness, with keyframes in the middle.
    fn video(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let frames: Vec<RgbPixels> = (0..110_u8)
            .map(|index| RgbPixels::from_fn(32, 32, |_, _| [index * 2, 80, 60]).unwrap())
            .collect();
        write_video(&path, &frames, VideoOptions::default()).unwrap();
        path
    }

    #[test]
    fn reading_from_any_frame_gives_the_same_pixels_as_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let first_png = crate::naming::numbered_path(&video(folder.path(), "a.png"), 1);
        for (path, num_frames) in [
            #[cfg(feature = "h264")]
            (video(folder.path(), "a.mp4"), 110),
            (video(folder.path(), "a.gif"), 110),
            (first_png, 110),
        ] {
            let whole = open_video(&path).unwrap();
            let mut reader = VideoReader::open(&path).unwrap();
            assert_eq!(reader.info().num_frames, num_frames);
            let firsts = [0, 1, 47, 48, 49, 97, num_frames - 1];
            for first in firsts.into_iter().filter(|first| *first < num_frames) {
                let mut given = Vec::new();
                let read = reader.read(first, &mut |number, image| {
                    assert_eq!(image, *whole.frames[number as usize], "{number}");
                    given.push(number);
                    if given.len() == 3 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                read.unwrap();
                let expected: Vec<u32> = (first..num_frames).take(3).collect();
                assert_eq!(given, expected, "{}", path.display());
            }
        }
    }

    #[test]
    fn reading_past_the_last_frame_returns_no_frames() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            #[cfg(feature = "h264")]
            video(folder.path(), "a.mp4"),
            video(folder.path(), "a.gif"),
        ] {
            let mut reader = VideoReader::open(&path).unwrap();
            let read = reader.read(500, &mut |_, _| unreachable!("there is no such frame"));
            read.unwrap();
        }
    }
}
