//! Whatever else is in an MP4, MOV, WebM or Matroska file, through the ffmpeg that the user has installed.
//!
//! It is told the container, reads this one file and nothing else, and never writes a file. Without it
//! there is a sentence that names it.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::Deserialize;

use super::{ClipInfo, Sink};
use crate::media::open::{Failure, check_size, picture_from_rgb};
use crate::media::{HAS_H264, MediaError, Picture};

/// The rate of a clip that tells none.
const DEFAULT_FPS: f64 = 24.0;

pub(super) struct Ffmpeg {
    path: PathBuf,
    /// The container's name in ffmpeg.
    container: &'static str,
    pub info: ClipInfo,
}

#[derive(Deserialize)]
struct Probe {
    streams: Vec<ProbedStream>,
}

/// What a first frame may take of the processor: a list of a million edits keeps ffmpeg busy for minutes.
const FIRST_FRAME_SECS: &str = "10";

#[derive(Deserialize)]
struct ProbedStream {
    #[serde(default)]
    avg_frame_rate: String,
    #[serde(default)]
    nb_read_packets: String,
}

impl Ffmpeg {
    /// Opens a clip of which it is known that nothing else here can read it, and what it is.
    pub fn open(path: &Path, container: &'static str, found: String) -> Result<Self, MediaError> {
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
        let mut probe = Command::new("ffprobe");
        probe
            .args(["-v", "error", "-select_streams", "v:0", "-count_packets"])
            .args(["-show_entries", "stream=avg_frame_rate,nb_read_packets"])
            .args(["-of", "json"])
            .args(input(container, &path))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let probed = match probe.output() {
            Ok(output) => output,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Err(missing(found)),
            Err(err) => return Err(MediaError::from_io("start ffprobe", err, &path)),
        };
        let stream = serde_json::from_slice::<Probe>(&probed.stdout)
            .ok()
            .and_then(|probe| probe.streams.into_iter().next());
        let Some(stream) = stream else {
            return Err(unreadable(&path));
        };
        let mut ffmpeg = Self {
            path: path.clone(),
            container,
            info: ClipInfo {
                width: 0,
                height: 0,
                fps: rate(&stream.avg_frame_rate).unwrap_or(DEFAULT_FPS),
                num_frames: stream.nb_read_packets.parse().unwrap_or(0),
            },
        };
        // Only a decoded frame tells its size upright.
        let only_first = ["-frames:v", "1", "-timelimit", FIRST_FRAME_SECS];
        let first = match Frames::start(&ffmpeg, &only_first) {
            Ok(mut frames) => frames.next()?,
            Err(MediaError::NotFound { .. }) => return Err(missing(found)),
            Err(err) => return Err(err),
        };
        let first = first.ok_or_else(|| unreadable(&path))?;
        (ffmpeg.info.width, ffmpeg.info.height) = (first.width, first.height);
        Ok(ffmpeg)
    }

    pub fn read(&self, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        let mut frames = Frames::start(self, &[])?;
        while let Some(frame) = frames.next()? {
            sink(frame)?;
        }
        frames.finish()
    }
}

fn input(container: &str, path: &Path) -> [OsString; 6] {
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

fn rate(fraction: &str) -> Option<f64> {
    let (above, below) = fraction.split_once('/')?;
    let rate = above.parse::<f64>().ok()? / below.parse::<f64>().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

fn unreadable(path: &Path) -> MediaError {
    Failure::Damaged("ffmpeg cannot decode it".to_owned()).into_error("video", path)
}

/// A running ffmpeg that writes one picture after the other. It is ended when this is dropped.
struct Frames {
    child: Child,
    pictures: BufReader<ChildStdout>,
    path: PathBuf,
}

impl Frames {
    fn start(clip: &Ffmpeg, options: &[&str]) -> Result<Self, MediaError> {
        let mut child = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin"])
            .args(input(clip.container, &clip.path))
            .args(["-map", "0:v:0", "-fps_mode", "passthrough"])
            .args(options)
            .args(["-sws_flags", "accurate_rnd+full_chroma_int"])
            .args(["-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|err| MediaError::from_io("start ffmpeg", err, &clip.path))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(unreadable(&clip.path));
        };
        Ok(Self {
            child,
            pictures: BufReader::with_capacity(1 << 20, stdout),
            path: clip.path.clone(),
        })
    }

    /// The next picture, in the form of a PPM file; `None` behind the last one.
    fn next(&mut self) -> Result<Option<Picture>, MediaError> {
        let path = self.path.clone();
        let mut read = || -> Result<Option<Picture>, Failure> {
            let mut numbers = Vec::new();
            // The kind, width and height, and the largest value, each behind a white space.
            for index in 0..4 {
                let mut word = Vec::new();
                loop {
                    let [byte] = match self.pictures.fill_buf() {
                        Ok([]) if index == 0 && word.is_empty() => return Ok(None),
                        Ok([]) => return Err(Failure::Truncated),
                        Ok([byte, ..]) => [*byte],
                        Err(err) => return Err(err.into()),
                    };
                    self.pictures.consume(1);
                    if byte.is_ascii_whitespace() {
                        break;
                    }
                    word.push(byte);
                    if word.len() > 8 {
                        return Err(Failure::Damaged("ffmpeg gave no pictures".to_owned()));
                    }
                }
                numbers.push(String::from_utf8_lossy(&word).parse().unwrap_or(0));
            }
            let (width, height): (u32, u32) = (numbers[1], numbers[2]);
            check_size(width, height)?;
            let mut rgb = vec![0; width as usize * height as usize * 3];
            self.pictures.read_exact(&mut rgb)?;
            picture_from_rgb(width, height, rgb).map(Some)
        };
        read().map_err(|failure| failure.into_error("video", &path))
    }

    fn finish(mut self) -> Result<(), MediaError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(unreadable(&self.path)),
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // Fails only when it has ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
