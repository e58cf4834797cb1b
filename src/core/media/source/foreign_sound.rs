//! The first sound track of a video that only ffmpeg reads: ffmpeg copies it into a temporary MP4.

use std::path::Path;
use std::process::{Command, Stdio};

use super::ffmpeg::input;
use super::ffprobe::probe;
use super::mp4_sound;
use crate::media::MediaError;
use crate::media::sound::{FoundSound, SEVERAL};

/// Codecs that MP4 holds as they are, in ffmpeg's words.
const COPIED: [&str; 7] = ["aac", "ac3", "alac", "eac3", "flac", "mp3", "opus"];

/// Sound that can be copied. `kind` and `container`: name of the container, here and in ffmpeg.
pub(in crate::media) fn sound(
    path: &Path,
    kind: &'static str,
    container: &str,
) -> Result<FoundSound, MediaError> {
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let tracks = probe(path, container, Some("a"), "stream=codec_name", &[])?.streams;
    let Some(first) = tracks.first() else {
        return Ok(FoundSound::default());
    };
    let codec = first.get("codec_name");
    if !COPIED.contains(&codec) {
        return Ok(FoundSound::without(format_args!(
            "{codec} is not copied into MP4"
        )));
    }
    let failed = |err| MediaError::from_io("copy the sound", &err, path);
    let copied = tempfile::NamedTempFile::new().map_err(failed)?;
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y"])
        .args(input(container, path))
        .args(["-copyts", "-map", "0:a:0", "-c:a", "copy"])
        // The first frame says when the video begins.
        .args([
            "-map",
            "0:V:0?",
            "-fps_mode",
            "passthrough",
            "-frames:v",
            "1",
        ])
        .args(["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-f", "mp4"])
        .arg(copied.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(failed)?;
    if !status.success() {
        return Ok(FoundSound::without("ffmpeg cannot copy it"));
    }
    let mut found =
        mp4_sound(copied.into_file()).map_err(|failure| failure.into_error(kind, path))?;
    if tracks.len() > 1 && found.left_out.is_none() {
        found.left_out = Some(SEVERAL.to_owned());
    }
    Ok(found)
}
