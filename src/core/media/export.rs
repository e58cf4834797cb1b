//! Export of a video, or of some of its frames, to another file or format. The original stays as it is.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    AlphaChannel, HAS_H264, MediaError, RgbPixels, Video, VideoFormat, VideoOptions, VideoReader,
    VideoWriter, open_sound, read_settings, sound_for,
};
use crate::files::has_ending;
use crate::naming::names_like;

/// Ending of the sound alone.
const WAV: &str = "wav";
/// Times that are closer are the same, in seconds.
const TIME_ROUNDING: f64 = 1e-6;

/// Formats that a video is exported in by this build, with their extensions.
pub const EXPORT_FORMATS: &[(VideoFormat, &str)] = if HAS_H264 {
    &ALL_FORMATS
} else {
    ALL_FORMATS.split_at(1).1
};
const ALL_FORMATS: [(VideoFormat, &str); 4] = [
    (VideoFormat::Mp4, "mp4"),
    (VideoFormat::Gif, "gif"),
    (VideoFormat::WebP, "webp"),
    (VideoFormat::Png, "png"),
];

pub struct VideoExport {
    pub source: PathBuf,
    /// Frames of the source without loss, where they are in memory.
    pub frames: Option<Arc<Video>>,
    /// First and last frame that are kept, counted from 0.
    pub range: RangeInclusive<usize>,
    /// A file of the format of its extension, or the next free name; `.wav` gets the sound alone. PNG and JPEG become a folder of this name without
    /// the extension, with a numbered file a frame.
    pub out: PathBuf,
    /// As in [`VideoOptions`].
    pub crf: u8,
}

#[derive(Debug)]
pub struct ExportedVideo {
    /// The file, or the folder of the numbered files.
    pub path: PathBuf,
    /// Losses of this format, each as a sentence.
    pub notices: Vec<String>,
}

/// Name of an exported file: that of the source, with the first and last frame where these are a part of it.
pub fn export_name(source: &Path, part: Option<&RangeInclusive<usize>>, ending: &str) -> String {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    match part {
        Some(part) => format!(
            "{stem}_{:04}-{:04}.{ending}",
            part.start() + 1,
            part.end() + 1
        ),
        None => format!("{stem}.{ending}"),
    }
}

/// Frames of a video that are shown from one time to another, in seconds; `None` without any.
pub fn frames_between(
    reader: &VideoReader,
    from_secs: f64,
    to_secs: f64,
) -> Option<RangeInclusive<usize>> {
    let num_frames = reader.info().num_frames as usize;
    let starts_before = |secs: f64| {
        let start = |frame: usize| match reader.starts() {
            Some(starts) => starts.secs(frame),
            None => frame as f64 / reader.info().fps,
        };
        (0..num_frames)
            .take_while(|frame| start(*frame) < secs)
            .count()
    };
    // A frame is shown from its start until the next one's.
    let first = starts_before(from_secs + TIME_ROUNDING).checked_sub(1)?;
    let last = starts_before(to_secs - TIME_ROUNDING).checked_sub(1)?;
    let is_within = from_secs < num_frames as f64 / reader.info().fps;
    (is_within && first <= last).then_some(first..=last)
}

impl VideoExport {
    /// Writes the file. `progress` gets the number of frames so far; `None` if it breaks off, and then nothing is left.
    pub fn write(
        &self,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<ExportedVideo>, MediaError> {
        let mut reader = VideoReader::open(&self.source)?;
        let (first, last) = (*self.range.start(), *self.range.end());
        let starts = reader.starts().cloned();
        let secs = |frame: usize| match &starts {
            Some(starts) => starts.secs(frame),
            None => frame as f64 / reader.info().fps,
        };
        let (from, to) = (secs(first), secs(last + 1));
        if has_ending(&self.out, &[WAV]) {
            return self.write_wav(from, to).map(Some);
        }
        let format = VideoFormat::from_path(&self.out)?;
        let mut notices = reader.format_notices().to_vec();
        if reader.has_alpha() && !format.has_alpha() {
            let sentence = format!(
                "{} has no transparency: frames become opaque",
                format.name()
            );
            notices.push(sentence);
        }
        if starts.is_some() && format.is_still() {
            notices.push("Images do not keep how long each frame is shown".to_owned());
        }
        let found = sound_for(&self.source, &self.out)?;
        notices.extend(found.left_out);
        let sound = found.sound.and_then(|sound| sound.cut(from, to));
        let options = VideoOptions {
            fps: reader.info().fps,
            starts: starts.as_ref().map(|starts| starts.cut(first, last)),
            crf: self.crf,
            settings: read_settings(&self.source)?,
            keeps_others: true,
            ..VideoOptions::default()
        };
        let folder = format
            .is_still()
            .then(|| new_folder(&self.out))
            .transpose()?;
        let name = self.out.file_name().unwrap_or_default();
        let out = folder
            .as_ref()
            .map_or_else(|| self.out.clone(), |it| it.join(name));
        let mut writer = VideoWriter::create(&out, options)?;
        let is_whole = self.push_all(&mut reader, &mut writer, progress);
        let written = is_whole.and_then(|is_whole| {
            let finish = is_whole.then(|| writer.finish_with(sound.as_ref()));
            finish.transpose()
        });
        if let (Some(folder), Ok(None) | Err(_)) = (&folder, &written) {
            // Its files have no names yet.
            fs::remove_dir(folder).ok();
        }
        let file = written?.and_then(|files| files.into_iter().next());
        Ok(file.map(|file| ExportedVideo {
            path: folder.unwrap_or(file),
            notices,
        }))
    }

    /// Writes the sound alone, between two times of the video in seconds.
    fn write_wav(&self, from: f64, to: f64) -> Result<ExportedVideo, MediaError> {
        let none = || MediaError::with_path("this video has no sound", &self.source);
        let sound = open_sound(&self.source)?.ok_or_else(none)?.cut(from, to);
        for path in names_like(&self.out) {
            match sound.write_new_wav(&path) {
                Ok(()) => {
                    let notices = Vec::new();
                    return Ok(ExportedVideo { path, notices });
                }
                Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
                Err(err) => return Err(MediaError::from_io("write the sound", &err, &path)),
            }
        }
        let err = ErrorKind::AlreadyExists.into();
        Err(MediaError::from_io("write the sound", &err, &self.out))
    }

    /// Encodes the frames; `false` if it was broken off.
    fn push_all(
        &self,
        reader: &mut VideoReader,
        writer: &mut VideoWriter,
        progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<bool, MediaError> {
        let (first, last) = (*self.range.start(), *self.range.end());
        let mut next = first;
        let mut failure = None;
        let mut push = |image: &RgbPixels, alpha: Option<&AlphaChannel>| {
            if let Err(err) = writer.push_with_alpha(image, alpha) {
                failure = Some(err);
                return ControlFlow::Break(());
            }
            next += 1;
            progress(next - first)?;
            if next > last {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        match &self.frames {
            Some(video) => {
                for frame in video.frames.iter().skip(first) {
                    if push(frame, None).is_break() {
                        break;
                    }
                }
            }
            None => reader.read_with_alpha(first as u32, &mut |_, frame| {
                push(&frame.image, frame.alpha.as_ref())
            })?,
        }
        match failure {
            Some(err) => Err(err),
            None => Ok(next > last),
        }
    }
}

/// A folder of the name of `out` without its extension, or of the next free name.
fn new_folder(out: &Path) -> Result<PathBuf, MediaError> {
    let folder = out.with_extension("");
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let others = (2_u32..1000).map(|number| folder.with_file_name(format!("{name}-{number}")));
    let failed = |err| MediaError::from_io("make the folder", &err, &folder);
    for folder in std::iter::once(folder.clone()).chain(others) {
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
            Err(err) => return Err(failed(err)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{FrameStarts, frame_starts, open_video, video_info, write_video};

    fn frame(index: u8) -> RgbPixels {
        RgbPixels::from_fn(32, 32, |_, _| [index * 20, 90, 60]).unwrap()
    }

    fn export(source: &Path, out: &Path, range: RangeInclusive<usize>) -> VideoExport {
        VideoExport {
            source: source.to_owned(),
            frames: None,
            range,
            out: out.to_owned(),
            crf: 4,
        }
    }

    fn written(export: &VideoExport) -> ExportedVideo {
        let all = &mut |_| ControlFlow::Continue(());
        export.write(all).unwrap().expect("nobody broke it off")
    }

    #[test]
    fn a_part_of_a_video_is_the_frames_that_are_shown_in_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let [even, uneven] = ["even.webp", "uneven.webp"].map(|name| folder.path().join(name));
        let frames: Vec<RgbPixels> = (0..4).map(frame).collect();
        let options = VideoOptions {
            fps: 8.0,
            ..VideoOptions::default()
        };
        write_video(&even, &frames, options.clone()).unwrap();
        let starts = FrameStarts::from_micros([0, 100_000, 900_000, 1_000_000, 1_100_000]);
        let options = VideoOptions {
            starts: Some(starts),
            ..options
        };
        write_video(&uneven, &frames, options).unwrap();
        for (path, from, to, expected) in [
            (&even, 0.0, 0.5, Some(0..=3)),
            (&even, 0.125, 0.375, Some(1..=2)),
            (&even, 0.2, 0.2001, Some(1..=1)),
            (&even, 0.0, 9.0, Some(0..=3)),
            (&even, 0.3, 0.1, None),
            (&even, 0.5, 9.0, None),
            (&even, -1.0, 1.0, None),
            (&even, f64::NAN, 1.0, None),
            (&uneven, 0.5, 0.95, Some(1..=2)),
        ] {
            let reader = VideoReader::open(path).unwrap();
            let found = frames_between(&reader, from, to);
            assert_eq!(found, expected, "{from} to {to} of {}", path.display());
        }
    }

    #[test]
    fn some_frames_of_a_video_become_a_file_of_any_format_with_its_settings() {
        let folder = tempfile::tempdir().unwrap();
        let frames: Vec<RgbPixels> = (0..10).map(frame).collect();
        let source = folder.path().join("source.webp");
        let options = VideoOptions {
            fps: 8.0,
            settings: Some(r#"{"request":{"seed":7,"num_frames":10}}"#.to_owned()),
            ..VideoOptions::default()
        };
        write_video(&source, &frames, options.clone()).unwrap();
        let original = fs::read(&source).unwrap();
        let outs = ["a.gif", "a.webp", "a.png"];
        let outs = outs
            .into_iter()
            .chain(crate::media::HAS_H264.then_some("a.mp4"));
        for name in outs {
            let out = folder.path().join(name);
            let memory = Video {
                frames: frames.iter().cloned().map(Arc::new).collect(),
                fps: 8.0,
            };
            for memory in [None, Some(Arc::new(memory))] {
                let exported = written(&VideoExport {
                    frames: memory,
                    ..export(&source, &out, 3..=6)
                });
                let file = if exported.path.is_dir() {
                    exported.path.join("a_0001.png")
                } else {
                    exported.path.clone()
                };
                let video = open_video(&file).unwrap();
                assert_eq!(video.frames.len(), 4, "{name}");
                for (index, found) in video.frames.iter().enumerate() {
                    let expected = (index as u8 + 3) * 20;
                    let red = found.pixel(16, 16)[0];
                    assert!(red.abs_diff(expected) < 8, "{name}: {red}, not {expected}");
                }
                let settings = read_settings(&file).unwrap();
                assert_eq!(settings, options.settings, "{name}");
                assert_eq!(exported.notices, [""; 0], "{name}");
                // The next one gets another name.
                assert!(exported.path.exists());
            }
        }
        assert!(folder.path().join("a-2").join("a_0004.png").is_file());
        assert_eq!(fs::read(&source).unwrap(), original);
    }

    #[test]
    fn an_export_that_is_broken_off_or_fails_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source.gif");
        let frames: Vec<RgbPixels> = (0..6).map(frame).collect();
        write_video(&source, &frames, VideoOptions::default()).unwrap();
        let out = folder.path().join("a.png");
        let stop = &mut |done| match done {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let broken_off = export(&source, &out, 0..=5).write(stop).unwrap();
        assert!(broken_off.is_none());
        let odd = export(&source, &folder.path().join("a.avi"), 0..=5);
        let err = odd.write(&mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(err.to_string().contains("choose a file name"), "{err}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn uneven_frames_stay_as_long_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source.webp");
        let starts = [0, 100_000, 400_000, 500_000, 900_000];
        let options = VideoOptions {
            fps: 4.0,
            starts: Some(FrameStarts::from_micros(starts)),
            ..VideoOptions::default()
        };
        let frames: Vec<RgbPixels> = (0..4).map(frame).collect();
        write_video(&source, &frames, options).unwrap();
        let exported = written(&export(&source, &folder.path().join("a.webp"), 1..=3));
        assert_eq!(video_info(&exported.path).unwrap().num_frames, 3);
        let found = frame_starts(&exported.path).unwrap();
        let expected = FrameStarts::from_micros([0, 300_000, 400_000, 800_000]);
        assert_eq!(found, Some(expected));
        let images = written(&export(&source, &folder.path().join("a.png"), 1..=3));
        assert_eq!(images.notices.len(), 1);
    }

    #[cfg(feature = "h264")]
    #[test]
    fn a_trimmed_video_has_the_sound_of_its_part() {
        let folder = tempfile::tempdir().unwrap();
        let videos = Path::new(env!("CARGO_MANIFEST_DIR")).join("media/source/tests/videos");
        let source = videos.join("sound.mp4");
        let info = video_info(&source).unwrap();
        let (first, last) = (2, info.num_frames as usize - 3);
        let exported = written(&export(&source, &folder.path().join("a.mp4"), first..=last));
        let sound = sound_for(&exported.path, &exported.path)
            .unwrap()
            .sound
            .unwrap();
        let heard = sound.heard.unwrap() as f64 / f64::from(sound.timescale);
        let secs = (last + 1 - first) as f64 / info.fps;
        assert!((heard - secs).abs() < 0.02, "{heard} s of {secs} s");
        let whole = sound_for(&source, &exported.path).unwrap().sound.unwrap();
        assert!(sound.num_units() < whole.num_units());
        let wav = export(&source, &folder.path().join("a.wav"), first..=last);
        for (name, num_bytes) in [("a.wav", 44 + 9600), ("a-2.wav", 44 + 9600)] {
            let path = written(&wav).path;
            assert_eq!(path, folder.path().join(name));
            let found = fs::metadata(path).unwrap().len();
            assert!(found.abs_diff(num_bytes) < 700, "{found} bytes");
        }
        let gif = written(&export(&source, &folder.path().join("a.gif"), first..=last));
        assert_eq!(gif.notices, ["The result has no sound: GIF holds none"]);
    }
}
