//! Decoding of a video's sound: AAC here, other codecs by the ffmpeg that the user has installed.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::aac::decode_sound;
use super::opened::open_file;
use super::sampled_sound::{MAX_SAMPLES, SampledSound};
use super::source::ffmpeg_input;
use super::{MediaError, sound_for};

/// Samples of a channel in a second, of sound that ffmpeg decodes.
const RATE: u32 = 48_000;

/// The first track of sound of the video at `path`, from its first frame on, in mono or stereo; `None` without one.
/// Errors are sentences that say why it cannot be decoded.
pub fn open_sound(path: &Path) -> Result<Option<SampledSound>, MediaError> {
    let found = sound_for(path, Path::new("a.mp4"))?;
    let decoded = found
        .sound
        .as_ref()
        .map(decode_sound)
        .transpose()?
        .flatten();
    if decoded.is_some() || (found.sound.is_none() && found.left_out.is_none()) {
        return Ok(decoded);
    }
    let kind = open_file(path, "read the sound")?.kind;
    match kind.demuxer() {
        Some(demuxer) => by_ffmpeg(path, demuxer).map(Some),
        None => Ok(None),
    }
}

fn by_ffmpeg(path: &Path, container: &str) -> Result<SampledSound, MediaError> {
    let path = &std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let failed = |why: &str| {
        let sentence = format!("its sound cannot be decoded: {why}");
        MediaError::with_path(sentence, path)
    };
    let mut child = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin"])
        .args(ffmpeg_input(container, path))
        // Silence fills what is missing at the front.
        .args(["-map", "0:a:0", "-ac", "2", "-af", "aresample=first_pts=0"])
        .args(["-ar", &RATE.to_string(), "-f", "s16le", "pipe:1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_err| failed("install ffmpeg to hear it"))?;
    let mut bytes = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        let most = 2 * MAX_SAMPLES as u64 + 1;
        let read = pipe.take(most).read_to_end(&mut bytes);
        read.map_err(|err| failed(&err.to_string()))?;
    }
    // It ends when nothing reads its output.
    let status = child.wait().map_err(|err| failed(&err.to_string()))?;
    if bytes.len() > 2 * MAX_SAMPLES {
        return Err(failed("it is too long"));
    }
    if !status.success() {
        return Err(failed("ffmpeg cannot read it"));
    }
    let samples = bytes.as_chunks().0.iter();
    Ok(SampledSound {
        samples: samples.map(|it| i16::from_le_bytes(*it)).collect(),
        channels: 2,
        rate: RATE,
    })
}
