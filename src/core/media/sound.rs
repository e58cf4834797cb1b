//! The sound of a video as its file has it: packets that are copied into another file.
//!
//! A sentence names sound that cannot be copied. Decoding: [`open_sound`](super::open_sound).

use std::fs::File;
#[cfg(feature = "h264")]
use std::io::Seek as _;
use std::path::Path;

use super::{MediaError, VideoFormat, source};
use crate::enum_macros::named;
#[cfg(feature = "h264")]
use crate::formats::ByteSource;
use crate::formats::kind::FileFormat;
use crate::media::opened::open_file;

/// The first track of sound in a video's file, in the form of an MP4's.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "h264"),
    expect(dead_code, reason = "only MP4 holds sound")
)]
pub struct SoundTrack {
    pub(super) file: File,
    /// The whole box that describes the packets: the codec and its header.
    pub(super) description: Vec<u8>,
    /// Units a second.
    pub(super) timescale: u32,
    pub(super) packets: Vec<SoundPacket>,
    /// Silence before, in seconds.
    pub(super) delay_secs: f64,
    /// Units at the front that are decoded and not heard.
    pub(super) skipped: u64,
    /// Units that are heard after those; all when absent.
    pub(super) heard: Option<u64>,
}

/// One encoded piece of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SoundPacket {
    /// Offset in the file.
    pub offset: u64,
    pub size: u32,
    /// In units of the track's clock.
    pub lasts: u32,
}

/// Sound before a place that a decoder needs to begin there, in seconds.
#[cfg(feature = "h264")]
const DECODER_START_SECS: f64 = 0.1;
/// Notice where a file has several tracks.
pub(super) const SEVERAL: &str = "Only the first of the sound tracks is kept";

/// Sound of a video that can be copied.
#[derive(Debug, Default)]
pub struct FoundSound {
    pub sound: Option<SoundTrack>,
    /// Sound that cannot be copied, and why: a sentence.
    pub left_out: Option<String>,
}

impl FoundSound {
    /// No sound, for a reason that follows a colon.
    pub(super) fn without(why: impl std::fmt::Display) -> Self {
        Self {
            sound: None,
            left_out: Some(format!("The result has no sound: {why}")),
        }
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SoundCodec {
        Aac = "AAC",
        Opus = "Opus",
        Flac = "FLAC",
        Alac = "ALAC",
        Ac3 = "AC-3",
        Eac3 = "E-AC-3",
    }
}

impl SoundTrack {
    pub fn codec(&self) -> SoundCodec {
        match self.description.get(4..8) {
            Some(b"Opus") => SoundCodec::Opus,
            Some(b"fLaC") => SoundCodec::Flac,
            Some(b"alac") => SoundCodec::Alac,
            Some(b"ac-3") => SoundCodec::Ac3,
            Some(b"ec-3") => SoundCodec::Eac3,
            _ => SoundCodec::Aac,
        }
    }

    /// Of all packets.
    pub(super) fn num_bytes(&self) -> u64 {
        self.packets.iter().map(|it| u64::from(it.size)).sum()
    }

    /// Of all packets, in units of the track's clock.
    #[cfg(feature = "h264")]
    pub(super) fn num_units(&self) -> u64 {
        self.packets.iter().map(|it| u64::from(it.lasts)).sum()
    }

    /// Keeps what is heard between two times of the video, in seconds; `None` if that is nothing. Packets just before,
    /// which decoders begin with, stay unheard.
    #[cfg(feature = "h264")]
    pub fn cut(mut self, from: f64, to: f64) -> Option<Self> {
        let scale = f64::from(self.timescale);
        let units = |secs: f64| ((secs - self.delay_secs).max(0.0) * scale).round() as u64;
        let rest = self.num_units().saturating_sub(self.skipped);
        let heard = self.heard.map_or(rest, |heard| heard.min(rest));
        let (begin, end) = (units(from).min(heard), units(to).min(heard));
        let (begin, end) = (self.skipped + begin, self.skipped + end);
        let needed = begin.saturating_sub((scale * DECODER_START_SECS) as u64);
        let (mut at, mut dropped) = (0, 0);
        self.packets.retain(|packet| {
            let start = at;
            at += u64::from(packet.lasts);
            if at <= needed {
                dropped = at;
            }
            at > needed && start < end
        });
        self.skipped = begin - dropped;
        self.heard = Some(end - begin);
        // Players that know no edits end with the last packet.
        let rest = self.num_units().saturating_sub(end - dropped);
        if let Some(last) = self.packets.last_mut() {
            last.lasts -= u32::try_from(rest).unwrap_or(0).min(last.lasts);
        }
        self.delay_secs = (self.delay_secs - from).max(0.0);
        (begin < end).then_some(self)
    }

    #[cfg(not(feature = "h264"))]
    pub fn cut(self, _from: f64, _to: f64) -> Option<Self> {
        Some(self)
    }

    /// Gives the packets one after the other.
    #[cfg(feature = "h264")]
    pub(super) fn copy(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let failed = |err: std::io::Error| {
            MediaError::other(format!("the sound of the source cannot be read ({err})"))
        };
        let mut file = &self.file;
        file.rewind().map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut source = ByteSource::new(file, len);
        for packet in &self.packets {
            let bytes = source.read_at(packet.offset, packet.size.into());
            take(&bytes.map_err(failed)?)?;
        }
        Ok(())
    }
}

/// Returns the sound of the video at `path` that can be copied into a file of the format of `out`; none if it has none.
pub fn sound_for(path: &Path, out: &Path) -> Result<FoundSound, MediaError> {
    let opened = open_file(path, "read the sound")?;
    let kind = opened.kind;
    let found = match (kind, kind.demuxer()) {
        (FileFormat::Mp4, _) => {
            let found = source::mp4_sound(opened.file);
            found.map_err(|failure| failure.into_error(kind.name(), path))?
        }
        (_, Some(demuxer)) => source::foreign_sound(path, kind.name(), demuxer)?,
        (_, None) => FoundSound::default(),
    };
    let format = VideoFormat::from_path(out)?;
    if found.sound.is_some() && format != VideoFormat::Mp4 {
        return Ok(FoundSound::without(format_args!(
            "{} holds none",
            format.name()
        )));
    }
    Ok(found)
}

#[cfg(all(test, feature = "h264"))]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::media::{FrameSegments, RgbPixels, VideoOptions, open_video, write_video};

    /// Videos of half a second with sound, made by ffmpeg: `source/tests/videos/make.sh`.
    fn video(name: &str) -> PathBuf {
        let videos = Path::new(env!("CARGO_MANIFEST_DIR")).join("media/source/tests/videos");
        videos.join(name)
    }

    fn found(name: &str) -> FoundSound {
        sound_for(&video(name), Path::new("a.mp4")).expect("it works")
    }

    fn bytes_of(sound: &SoundTrack) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let take = &mut |packet: &[u8]| {
            all.push(packet.to_vec());
            Ok(())
        };
        sound.copy(take).expect("it works");
        all
    }

    fn frames() -> Vec<RgbPixels> {
        let frame = |grey| RgbPixels::from_fn(48, 32, |_, _| [grey; 3]).expect("it works");
        [20, 90, 200].map(frame).into()
    }

    /// A video of three frames in runs, joined with this sound.
    fn joined(folder: &Path, sound: Option<&SoundTrack>) -> PathBuf {
        let parts = folder.join("parts");
        fs::create_dir_all(&parts).expect("it works");
        let out = folder.join(if sound.is_some() {
            "sound.mp4"
        } else {
            "silent.mp4"
        });
        let runs = FrameSegments::new(&parts, &out, VideoOptions::default()).expect("it works");
        for frame in frames() {
            let mut run = runs.begin(runs.num_frames());
            run.push(&frame).expect("it works");
            run.finish().expect("it works");
        }
        runs.join(None, sound, None).expect("it works");
        fs::remove_dir_all(&parts).expect("it works");
        out
    }

    #[test]
    fn packets_and_their_times_are_those_that_ffmpeg_wrote() {
        let aac = found("sound.mp4").sound.unwrap();
        assert_eq!(
            (aac.timescale, aac.skipped, aac.delay_secs),
            (16_000, 1024, 0.0)
        );
        let sizes: Vec<u32> = aac.packets.iter().map(|it| it.size).collect();
        assert_eq!(sizes[..5], [250, 284, 194, 203, 199]);
        // The last one ends with the sound.
        let lasts: Vec<u64> = aac.packets.iter().map(|it| it.lasts.into()).collect();
        assert_eq!(lasts, [[1024; 8].as_slice(), &[832]].concat());
        let late = found("sound-late.mov").sound.unwrap();
        // 0.1 s, less the 1024 units that come before what was recorded, which this file does not skip.
        assert_eq!((late.delay_secs, late.skipped), (0.036, 0));
        assert_eq!(bytes_of(&late), bytes_of(&aac));
        let parts = found("sound-fragmented.mp4").sound.unwrap();
        assert_eq!(bytes_of(&parts), bytes_of(&aac));
    }

    #[test]
    fn sound_before_the_first_frame_is_skipped() {
        // Its first frame is shown after 0.08 s.
        let sound = found("sound-fragmented.mp4").sound.unwrap();
        assert_eq!((sound.delay_secs, sound.skipped), (0.0, 1280));
    }

    #[test]
    fn sound_is_copied_packet_by_packet_and_the_images_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let silent = joined(folder.path(), None);
        let once = folder.path().join("once.mp4");
        write_video(&once, &frames(), VideoOptions::default()).unwrap();
        let none = sound_for(&silent, &once).unwrap();
        assert!(none.sound.is_none() && none.left_out.is_none());
        for name in ["sound.mp4", "sound-late.mov", "sound-fragmented.mp4"] {
            let sound = found(name).sound.unwrap();
            let with = joined(folder.path(), Some(&sound));
            let again = sound_for(&with, &once).unwrap();
            assert_eq!(again.left_out, None);
            let again = again.sound.unwrap();
            assert_eq!(bytes_of(&again), bytes_of(&sound), "{name}");
            assert_eq!(again.description, sound.description, "{name}");
            assert_eq!(
                (again.timescale, again.skipped, again.num_units()),
                (sound.timescale, sound.skipped, sound.num_units())
            );
            assert!((again.delay_secs - sound.delay_secs).abs() < 1e-3, "{name}");
            let (with, silent) = (open_video(&with).unwrap(), open_video(&silent).unwrap());
            assert_eq!(with.frames, silent.frames);
            assert!((with.fps - silent.fps).abs() < 1e-9);
        }
    }

    #[test]
    fn audio_that_cannot_be_copied_is_left_out_with_a_reason() {
        let message = |name: &str, out: &str| {
            let found = sound_for(&video(name), Path::new(out)).unwrap();
            assert!(found.sound.is_none(), "{name}");
            found.left_out.unwrap()
        };
        assert_eq!(
            message("pcm.mov", "a.mp4"),
            "The result has no sound: PCM is not copied into MP4"
        );
        assert_eq!(
            message("sound.mp4", "a.gif"),
            "The result has no sound: GIF holds none"
        );
        let silent = sound_for(&video("b-frames.mp4"), Path::new("a.gif")).unwrap();
        assert!(silent.sound.is_none() && silent.left_out.is_none());
    }

    #[test]
    fn sound_of_other_containers_is_copied_by_ffmpeg() {
        let ffmpeg = std::process::Command::new("ffmpeg")
            .arg("-version")
            .output();
        if ffmpeg.is_err() {
            return;
        }
        let opus = found("opus.webm").sound.unwrap();
        // Matroska counts milliseconds, and 312 units are to be skipped.
        assert!((312..=336).contains(&opus.skipped), "{}", opus.skipped);
        assert_eq!((opus.timescale, opus.delay_secs), (48_000, 0.0));
        let sizes: Vec<u32> = opus.packets.iter().map(|it| it.size).collect();
        assert_eq!(sizes[..5], [52, 40, 36, 41, 47]);
        assert_eq!(bytes_of(&opus)[4].len(), 47);
        let vorbis = found("vorbis.webm");
        assert!(vorbis.sound.is_none());
        let message = "The result has no sound: vorbis is not copied into MP4";
        assert_eq!(vorbis.left_out.as_deref(), Some(message));
    }

    #[test]
    fn damaged_files_are_errors_or_sentences_and_never_more_than_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let out = Path::new("a.mp4");
        for name in ["sound.mp4", "sound-fragmented.mp4"] {
            let whole = fs::read(video(name)).unwrap();
            let path = folder.path().join(name);
            let look = |bytes: &[u8]| {
                fs::write(&path, bytes).unwrap();
                if let Ok(FoundSound {
                    sound: Some(sound), ..
                }) = sound_for(&path, out)
                {
                    assert!(sound.num_bytes() <= bytes.len() as u64);
                    sound.copy(&mut |_| Ok(())).ok();
                }
            };
            for length in (0..whole.len()).step_by(61) {
                look(&whole[..length]);
            }
            for at in (0..whole.len()).step_by(7) {
                let mut changed = whole.clone();
                changed[at] ^= 0xff;
                look(&changed);
            }
        }
    }
}
