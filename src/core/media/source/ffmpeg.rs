//! Videos that are not decoded here, through the ffmpeg that the user has installed.
//!
//! It is told the container, reads this one file and nothing else, and never writes a file. Without it
//! there is a sentence that names it. It turns frames upright, makes their pixels square and deinterlaces them;
//! primaries and transfer are converted here.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::display::unconverted;
use super::ffprobe::{self, MICROS, Probe, VIDEO_STREAM};
use super::{ClipInfo, Sink};
use crate::media::colour::ColourConversion;
use crate::media::open::{Failure, check_size, picture_from_rgb};
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
        let probed = match ffprobe::probe(
            &path,
            container,
            VIDEO_STREAM,
            &["-count_packets"],
            ffprobe::VIDEO_ENTRIES,
        ) {
            Ok(probed) => probed,
            Err(MediaError::NotFound { .. }) => return Err(missing(found)),
            Err(err) => return Err(err),
        };
        let Some(Probe { streams, format }) = probed else {
            return Err(unreadable(&path));
        };
        let Some(stream) = streams.into_iter().next() else {
            return Err(if format.nb_streams > 0 {
                Failure::NoVideo.into_error(kind, &path)
            } else {
                unreadable(&path)
            });
        };
        let (conversion, colour_notice) = stream.conversion();
        let mut notices = stream.notices();
        notices.extend(colour_notice);
        let rate = stream.rate();
        let mut ffmpeg = Self {
            path: path.clone(),
            container,
            filters: stream.filters(),
            conversion,
            info: ClipInfo {
                width: 0,
                height: 0,
                fps: rate.unwrap_or(DEFAULT_FPS),
                num_frames: stream.nb_read_packets.parse().unwrap_or(0),
            },
            notices,
            starts: None,
        };
        ffmpeg.find_times();
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

    /// Sets the rate, the length and the starts by the times of the packets, where all have one.
    fn find_times(&mut self) {
        let Some(ticks) = ffprobe::packet_times(self.container, &self.path) else {
            return;
        };
        let num_frames = ticks.len() - 1;
        let length = (ticks[num_frames - 1] - ticks[0]) as f64;
        let average = (num_frames - 1) as f64 * MICROS / length;
        let rates = [self.info.fps, average];
        (self.info.fps, self.starts) = FrameStarts::find(&ticks, MICROS, &rates);
        self.info.num_frames = num_frames as u32;
    }

    pub fn read(&self, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        let mut frames = Frames::start(self, &[])?;
        while let Some(frame) = frames.next()? {
            sink(frame)?;
        }
        frames.finish()
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

/// A running ffmpeg that writes one picture after the other. It is ended when this is dropped.
struct Frames<'a> {
    child: Child,
    pictures: BufReader<ChildStdout>,
    clip: &'a Ffmpeg,
}

impl<'a> Frames<'a> {
    fn start(clip: &'a Ffmpeg, options: &[&str]) -> Result<Self, MediaError> {
        let pixel_format = match clip.conversion {
            Some(_) => "rgb48be",
            None => "rgb24",
        };
        let mut child = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin"])
            .args(input(clip.container, &clip.path))
            .args([
                "-map",
                &format!("0:{VIDEO_STREAM}"),
                "-fps_mode",
                "passthrough",
            ])
            .args(options)
            .args(["-vf", &clip.filters])
            .args(["-sws_flags", "accurate_rnd+full_chroma_int"])
            .args(["-f", "image2pipe", "-c:v", "ppm"])
            .args(["-pix_fmt", pixel_format, "-"])
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
            clip,
        })
    }

    /// The next picture; `None` behind the last one.
    fn next(&mut self) -> Result<Option<Picture>, MediaError> {
        read_ppm(&mut self.pictures, self.clip.conversion.as_ref())
            .map_err(|failure| failure.into_error("video", &self.clip.path))
    }

    fn finish(mut self) -> Result<(), MediaError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(unreadable(&self.clip.path)),
        }
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        // Fails only when it has ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Reads a PPM file, of 16 bits a sample where colours are converted; `None` at the end of the stream.
fn read_ppm(
    stream: &mut impl BufRead,
    conversion: Option<&ColourConversion>,
) -> Result<Option<Picture>, Failure> {
    let mut numbers = Vec::new();
    // The kind, width and height, and the largest value, each behind a white space.
    for index in 0..4 {
        let mut word = Vec::new();
        loop {
            let [byte] = match stream.fill_buf() {
                Ok([]) if index == 0 && word.is_empty() => return Ok(None),
                Ok([]) => return Err(Failure::Truncated),
                Ok([byte, ..]) => [*byte],
                Err(err) => return Err(err.into()),
            };
            stream.consume(1);
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
    let num_samples = width as usize * height as usize * 3;
    let rgb = if let Some(conversion) = conversion {
        let mut bytes = vec![0; num_samples * 2];
        stream.read_exact(&mut bytes)?;
        let words = bytes.as_chunks().0.iter().copied();
        let words: Vec<u16> = words.map(u16::from_be_bytes).collect();
        conversion.convert_words(&words).map_err(unconverted)?
    } else {
        let mut rgb = vec![0; num_samples];
        stream.read_exact(&mut rgb)?;
        rgb
    };
    picture_from_rgb(width, height, rgb).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::display::colour_conversion;
    use super::*;

    #[test]
    fn images_of_16_bits_are_read_for_a_conversion() {
        let conversion = colour_conversion(9, 16).0;
        let mut file = b"P6 1 1 65535\n".to_vec();
        file.extend([0; 6]);
        let read = |file: &[u8]| read_ppm(&mut &*file, conversion.as_ref()).ok().flatten();
        assert_eq!(read(&file).unwrap().rgb, [0; 3]);
        assert!(read(&file[..file.len() - 1]).is_none());
        assert!(read(b"").is_none());
    }
}
