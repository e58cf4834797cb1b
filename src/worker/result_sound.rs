//! Sound that is written with a result: in its MP4, or as a WAV file next to it.

use std::path::Path;

use safelight_core::media::{self, SampledSound, SoundTrack, VideoFormat};

/// Ending of the file of a sound that the video does not hold. The metadata of the video names it.
const WAV: &str = "wav";

#[derive(Debug, Default)]
pub(super) struct ResultSound {
    /// In the video's file.
    pub track: Option<SoundTrack>,
    /// For a file next to it.
    pub wav: Option<SampledSound>,
    /// Sentences on what is lost or elsewhere.
    pub warnings: Vec<String>,
}

impl ResultSound {
    /// Sound of the video at `source` until `end` seconds, without decoding it.
    pub(super) fn copied(source: &Path, out: &Path, end: f64) -> Self {
        let found = media::sound_for(source, out);
        let sound = found.map(|found| found.sound).unwrap_or_default();
        Self {
            track: sound.and_then(|sound| sound.cut(0.0, end)),
            ..Self::default()
        }
    }

    /// Encoded sound for an MP4; a WAV file for other formats, and where it cannot be encoded.
    pub(super) fn encoded(sound: SampledSound, out: &Path) -> Self {
        let mut result = Self::default();
        let format = VideoFormat::from_path(out).ok();
        let why = match format.filter(|format| *format != VideoFormat::Mp4) {
            Some(format) => format!("{} holds no sound", format.name()),
            None => match media::encode_sound(&sound) {
                Ok(track) => {
                    result.track = Some(track);
                    return result;
                }
                Err(err) => err.to_string(),
            },
        };
        result.warnings.push(format!(
            "The sound is in a WAV file next to the result: {why}"
        ));
        result.wav = Some(sound);
        result
    }

    /// Kind of the sound for the settings: the ending of its file, or the codec in the video.
    pub(super) fn kind(&self) -> Option<&'static str> {
        let in_video = self.track.as_ref().map(|_| "mp4");
        in_video.or_else(|| self.wav.as_ref().map(|_| WAV))
    }

    /// Writes the WAV file next to the video at `path`, over no other one. Returns a sentence if that fails.
    pub(super) fn write_next_to(&self, path: &Path) -> Option<String> {
        let path = path.with_extension(WAV);
        let err = self.wav.as_ref()?.write_new_wav(&path).err()?;
        let path = path.display();
        Some(format!("the sound could not be written ({err}): {path}"))
    }
}
