//! A video that is made over a long time: segments of encoded frames in a folder, each complete, joined in the end.
//!
//! A resumed job finds the number of frames; only a segment that was not finished is encoded twice. An
//! MP4's runs are the very bytes that its file gets; frames of other formats are kept without loss until then.

#[cfg(any(feature = "h264", test))]
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[cfg(feature = "h264")]
use serde::{Deserialize, Serialize};

#[cfg(feature = "h264")]
use super::{FrameTimes, h264, mp4};
use super::{VideoFormat, VideoOptions, VideoWriter, check_writable, png};
use crate::files::{sorted_entries, write_private};
use crate::media::open::open_rgb;
use crate::media::{AlphaChannel, MediaError, RgbPixels, SoundTrack, VideoReader, open_image};

/// Extension of segment files, after the number of the first frame and the count.
const ENDING: &str = "run";
/// As many bytes of frames as are copied at a time.
#[cfg(feature = "h264")]
const COPIED_BYTES: usize = 1 << 20;
/// Limit of a segment's header.
#[cfg(feature = "h264")]
const MAX_HEAD_BYTES: u32 = 16 << 20;

/// The runs of one video.
#[derive(Clone, Debug)]
pub struct FrameSegments {
    folder: PathBuf,
    out: PathBuf,
    options: VideoOptions,
}

/// Header of a segment, after its own length and before the frames.
#[cfg(feature = "h264")]
#[derive(Serialize, Deserialize)]
struct SegmentHeader {
    size: (u32, u32),
    coded: h264::CodedFrames,
}

struct FrameSegment {
    first: u32,
    count: u32,
    path: PathBuf,
}

impl FrameSegments {
    /// Segments, in the existing `folder`, of a video that will be written to `out`.
    pub fn new(folder: &Path, out: &Path, options: VideoOptions) -> Result<Self, MediaError> {
        check_writable(out)?;
        options.check(out)?;
        Ok(Self {
            folder: folder.to_owned(),
            out: out.to_owned(),
            options,
        })
    }

    /// Number of frames from the first one on, without a gap.
    pub fn num_frames(&self) -> u32 {
        Self::at(&self.folder)
    }

    /// Number of frames of any video whose segments are in a folder, without a gap.
    pub fn at(folder: &Path) -> u32 {
        found_in(folder)
            .last()
            .map_or(0, |run| run.first + run.count)
    }

    /// Returns true if a run has a single frame: in formats whose frames are kept without loss until the end.
    pub fn hold_one_frame(&self) -> bool {
        !matches!(VideoFormat::from_path(&self.out), Ok(VideoFormat::Mp4))
    }

    /// Begins a run whose first frame has this number.
    pub fn begin(&self, first: u32) -> SegmentWriter {
        SegmentWriter {
            runs: self.clone(),
            first,
            count: 0,
            frames: PendingFrames::Bytes(Vec::new()),
        }
    }

    /// Writes the video and returns its files. `settings`: as in [`VideoOptions`]. `sound`: as
    /// [`sound_for`](crate::media::sound_for) finds it for this file. `alpha_source`: an image or video whose alpha the
    /// frames of the same numbers get, in a format that has one.
    pub fn join(
        mut self,
        settings: Option<String>,
        sound: Option<&SoundTrack>,
        alpha_source: Option<&Path>,
    ) -> Result<Vec<PathBuf>, MediaError> {
        self.options.settings = settings;
        self.options.check(&self.out)?;
        let runs = found_in(&self.folder);
        if runs.is_empty() {
            return Err(MediaError::no_frames(&self.out));
        }
        #[cfg(feature = "h264")]
        if VideoFormat::from_path(&self.out)? == VideoFormat::Mp4 {
            return self.join_mp4(&runs, sound);
        }
        let mut writer = VideoWriter::create(&self.out, self.options)?;
        let mut waiting = runs.iter();
        let mut push_next = |alpha: Option<AlphaChannel>| {
            let Some(run) = waiting.next() else {
                return Ok(false);
            };
            let image = open_rgb(&run.path)?;
            let (width, height) = (image.width, image.height);
            let alpha = alpha
                .map(|alpha| alpha.resized(width, height))
                .transpose()?;
            writer.push_with_alpha(&image, alpha.as_ref())?;
            Ok::<_, MediaError>(true)
        };
        match alpha_source {
            Some(source) if runs.len() == 1 => drop(push_next(open_image(source)?.alpha)?),
            Some(source) => {
                let mut pushed = Ok(true);
                VideoReader::open(source)?.read_with_alpha(0, &mut |_, frame| {
                    pushed = push_next(frame.alpha);
                    match pushed {
                        Ok(true) => ControlFlow::Continue(()),
                        _ => ControlFlow::Break(()),
                    }
                })?;
                pushed?;
            }
            None => {}
        }
        while push_next(None)? {}
        writer.finish()
    }

    #[cfg(feature = "h264")]
    fn join_mp4(
        &self,
        runs: &[FrameSegment],
        sound: Option<&SoundTrack>,
    ) -> Result<Vec<PathBuf>, MediaError> {
        use std::io::Read as _;

        use crate::media::place::AtomicFile;

        let out = &self.out;
        let mut coded = h264::CodedFrames::default();
        let mut size = None;
        for run in runs {
            let (head, _) = read_head(&run.path)?;
            let fits = coded.append(&head.coded) && *size.get_or_insert(head.size) == head.size;
            if !fits || head.coded.sizes.len() as u32 != run.count {
                return Err(MediaError::with_path(
                    "a part of this video does not fit to the others",
                    &run.path,
                ));
            }
        }
        let boxes = mp4::Mp4Boxes {
            coded: &coded,
            size: size.unwrap_or_default(),
            times: FrameTimes::new(&self.options),
            sound,
        };
        let head = boxes.before_frames(self.options.settings.as_deref());
        let head = head.map_err(|detail| {
            MediaError::with_path(format_args!("the MP4 encoder failed ({detail})"), out)
        })?;
        let mut file = AtomicFile::new(out)?;
        file.write(&head)?;
        if let Some(sound) = sound {
            sound.copy(&mut |packet| file.write(packet))?;
        }
        let mut buffer = vec![0; COPIED_BYTES];
        for run in runs {
            let (_, mut frames) = read_head(&run.path)?;
            loop {
                let read = frames.read(&mut buffer);
                match read.map_err(|err| MediaError::from_io("read the file", &err, &run.path))? {
                    0 => break,
                    got => file.write(&buffer[..got])?,
                }
            }
        }
        super::named(file, out, self.options.keeps_others)
    }
}

/// Runs that follow each other from the first frame on. One that is there is whole.
fn found_in(folder: &Path) -> Vec<FrameSegment> {
    let all = sorted_entries(folder).unwrap_or_default();
    let mut found: Vec<FrameSegment> = Vec::new();
    for path in all {
        let Some((first, count)) = numbers_of(&path) else {
            continue;
        };
        let next = found.last().map_or(0, |run| run.first + run.count);
        if first == next && count > 0 {
            found.push(FrameSegment { first, count, path });
        }
    }
    found
}

/// The number of the first frame of a run, and how many it has.
fn numbers_of(path: &Path) -> Option<(u32, u32)> {
    let name = path.file_name()?.to_str()?;
    let (first, count) = name.strip_suffix(&format!(".{ENDING}"))?.split_once('-')?;
    Some((first.parse().ok()?, count.parse().ok()?))
}

/// The header of a run, and its file where the frames begin.
#[cfg(feature = "h264")]
fn read_head(path: &Path) -> Result<(SegmentHeader, fs::File), MediaError> {
    use std::io::{self, Read as _};

    let read = || {
        let mut file = fs::File::open(path)?;
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MAX_HEAD_BYTES {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut json = vec![0; length as usize];
        file.read_exact(&mut json)?;
        let head = serde_json::from_slice(&json).map_err(io::Error::other)?;
        Ok((head, file))
    };
    read().map_err(|err| MediaError::from_io("read the file", &err, path))
}

/// Frames on their way to the folder.
enum PendingFrames {
    /// A single image as PNG.
    Bytes(Vec<u8>),
    #[cfg(feature = "h264")]
    Mp4(Box<mp4::Mp4Writer>, (u32, u32)),
}

/// One run. Dropped before [`SegmentWriter::finish`], nothing of it remains.
pub struct SegmentWriter {
    runs: FrameSegments,
    first: u32,
    count: u32,
    frames: PendingFrames,
}

impl SegmentWriter {
    /// Encodes the next frame. All of a video must have one size.
    pub fn push(&mut self, image: &RgbPixels) -> Result<(), MediaError> {
        let out = &self.runs.out;
        let format = VideoFormat::from_path(out)?;
        let failed = |detail: String| {
            let kind = format.name();
            MediaError::with_path(format_args!("the {kind} encoder failed ({detail})"), out)
        };
        #[cfg(feature = "h264")]
        if format == VideoFormat::Mp4 {
            let size = (image.width, image.height);
            if self.count == 0 {
                super::check_frame_size(out, size.0, size.1)?;
                let options = &self.runs.options;
                let times = FrameTimes::new(options);
                let mp4 =
                    mp4::Mp4Writer::new(size.0, size.1, times, options.crf).map_err(failed)?;
                self.frames = PendingFrames::Mp4(Box::new(mp4), size);
            }
            if let PendingFrames::Mp4(mp4, expected) = &mut self.frames {
                if *expected != size {
                    return Err(MediaError::frame_size(*expected, image, out));
                }
                mp4.push(image).map_err(failed)?;
            }
            self.count += 1;
            return Ok(());
        }
        self.frames = PendingFrames::Bytes(png::encode(image, None, None).map_err(failed)?);
        self.count = 1;
        Ok(())
    }

    /// Puts the run into its folder, whole or not at all.
    pub fn finish(self) -> Result<(), MediaError> {
        let name = format!("{:08}-{}.{ENDING}", self.first, self.count);
        let path = self.runs.folder.join(name);
        let bytes = match self.frames {
            PendingFrames::Bytes(bytes) => bytes,
            #[cfg(feature = "h264")]
            PendingFrames::Mp4(mp4, size) => {
                let (coded, frames) = mp4.into_coded();
                let json = serde_json::to_vec(&SegmentHeader { size, coded });
                let json = json.map_err(|err| MediaError::other(err.to_string()))?;
                [(json.len() as u32).to_le_bytes().as_slice(), &json, &frames].concat()
            }
        };
        if self.count == 0 {
            return Ok(());
        }
        write_private(&path, &bytes).map_err(|err| MediaError::from_io("write", &err, &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{open_video, read_settings, write_video};
    use crate::testing::{assert_has, at_rate};

    fn frames(count: u8) -> Vec<RgbPixels> {
        let grey = |index| [index * 9, 90, 255 - index * 9];
        (0..count)
            .map(|index| RgbPixels::from_fn(48, 32, |_, _| grey(index)).unwrap())
            .collect()
    }

    fn runs(folder: &Path, out: &str) -> FrameSegments {
        let parts = folder.join("parts");
        fs::create_dir_all(&parts).unwrap();
        FrameSegments::new(&parts, &folder.join(out), at_rate(12.0)).unwrap()
    }

    /// Writes frames in runs of these lengths.
    fn write(runs: &FrameSegments, frames: &[RgbPixels], lengths: &[usize]) {
        let mut rest = frames;
        for &length in lengths {
            let (these, others) = rest.split_at(length);
            let at_once = if runs.hold_one_frame() { 1 } else { length };
            for frames in these.chunks(at_once) {
                let mut run = runs.begin(runs.num_frames());
                for frame in frames {
                    run.push(frame).unwrap();
                }
                run.finish().unwrap();
            }
            rest = others;
        }
    }

    #[test]
    fn joined_segments_match_a_video_written_in_one_pass() {
        let folder = tempfile::tempdir().unwrap();
        let frames = frames(14);
        for out in [
            #[cfg(feature = "h264")]
            "video.mp4",
            "video.webp",
            "video.gif",
        ] {
            let runs = runs(folder.path(), out);
            write(&runs, &frames, &[5, 1, 8]);
            assert_eq!(runs.num_frames(), 14);
            let settings = Some(r#"{"a":1}"#.to_owned());
            let written = runs.join(settings, None, None).unwrap();
            assert_eq!(written, [folder.path().join(out)]);
            let joined = open_video(&written[0]).unwrap();
            assert_eq!(joined.frames.len(), 14, "{out}");
            assert!((joined.fps - 12.0).abs() < 0.2, "{out}: {}", joined.fps);
            let read = read_settings(&written[0]).unwrap();
            assert_eq!(read.as_deref(), Some(r#"{"a":1}"#));
            let once = folder.path().join(format!("once-{out}"));
            write_video(&once, &frames, at_rate(12.0)).unwrap();
            let at_once = open_video(&once).unwrap();
            for (a, b) in joined.frames.iter().zip(&at_once.frames) {
                let (a, b) = (a.pixel(20, 20), b.pixel(20, 20));
                let is_near = a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 2);
                assert!(is_near, "{out}: {a:?} {b:?}");
            }
            fs::remove_dir_all(folder.path().join("parts")).unwrap();
        }
    }

    #[test]
    fn only_frames_without_a_gap_count_and_half_a_run_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let runs = runs(folder.path(), "video.webp");
        assert_eq!(runs.num_frames(), 0);
        write(&runs, &frames(3), &[3]);
        let mut dropped = runs.begin(3);
        dropped.push(&frames(1)[0]).unwrap();
        drop(dropped);
        let mut far = runs.begin(9);
        far.push(&frames(1)[0]).unwrap();
        far.finish().unwrap();
        fs::write(folder.path().join("parts/00000003-x.run"), b"").unwrap();
        assert_eq!(runs.num_frames(), 3);
        let empty = tempfile::tempdir().unwrap();
        let none = super::tests::runs(empty.path(), "a.gif");
        let err = none.join(None, None, None).unwrap_err();
        assert_has(&err.to_string(), &["there is no frame to write"]);
    }

    #[cfg(feature = "h264")]
    #[test]
    fn runs_of_different_videos_are_not_joined() {
        let folder = tempfile::tempdir().unwrap();
        let runs = runs(folder.path(), "video.mp4");
        write(&runs, &frames(2), &[2]);
        let mut other = runs.begin(2);
        let large = RgbPixels::from_fn(64, 64, |_, _| [5; 3]).unwrap();
        other.push(&large).unwrap();
        other.finish().unwrap();
        let err = runs.join(None, None, None).unwrap_err();
        assert_has(&err.to_string(), &["a part of this video does not fit"]);
        assert!(!folder.path().join("video.mp4").exists());
    }
}
