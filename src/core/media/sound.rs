//! The sound of a clip as its file has it: packets that go into another file as they are.
//!
//! Nothing is decoded. What a file holds that cannot be copied is told in a sentence.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::kind::{self, Kind};
use super::open::Failure;
use super::{ClipFormat, MediaError, source};
use crate::formats::ByteSource;

/// The first track of sound in a clip's file, in the form of an MP4's.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    pub(super) path: PathBuf,
    /// The whole box that describes the packets: the codec and its header.
    pub(super) description: Vec<u8>,
    /// Units a second.
    pub(super) timescale: u32,
    pub(super) packets: Vec<Packet>,
    /// How long the clip is silent before.
    pub(super) delay_secs: f64,
    /// Units at the front that are decoded and not heard.
    pub(super) skipped: u64,
    /// Units that are heard behind those; all when absent.
    pub(super) heard: Option<u64>,
}

/// One encoded piece of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Where in the file.
    pub offset: u64,
    pub size: u32,
    /// In units of the track's clock.
    pub lasts: u32,
}

/// What of a clip's sound can be copied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundSound {
    pub sound: Option<Sound>,
    /// What cannot, and why: a sentence.
    pub left_out: Option<String>,
}

impl FoundSound {
    /// Of no sound, as a reason that fits behind a colon.
    pub(super) fn without(why: impl std::fmt::Display) -> Self {
        Self {
            sound: None,
            left_out: Some(format!("the result has no sound: {why}")),
        }
    }
}

impl Sound {
    /// Of all packets.
    pub(super) fn num_bytes(&self) -> u64 {
        self.packets.iter().map(|it| u64::from(it.size)).sum()
    }

    /// Of all packets, in units of the track's clock.
    pub(super) fn num_units(&self) -> u64 {
        self.packets.iter().map(|it| u64::from(it.lasts)).sum()
    }

    /// Gives the packets one after the other.
    #[cfg(feature = "h264")]
    pub(super) fn copy(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let path = &self.path;
        let failed = |err| MediaError::from_io("read the sound", err, path);
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut source = ByteSource::new(file, len);
        for packet in &self.packets {
            let bytes = source.read_at(packet.offset, packet.size.into());
            take(&bytes.map_err(failed)?)?;
        }
        Ok(())
    }
}

/// What of the sound of the clip at `path` can be copied into a file of the kind of `out`; nothing where it has none.
pub fn sound_for(path: &Path, out: &Path) -> Result<FoundSound, MediaError> {
    let opened = kind::open_file(path, "read the sound")?;
    let (read, name): (fn(&mut ByteSource<File>) -> Result<_, _>, _) = match opened.kind {
        Kind::Mp4 => (source::mp4_sound, "MP4"),
        Kind::WebM => (source::webm_sound, "WebM"),
        Kind::Foreign(video) if source::has_sound(path, video.demuxer) => {
            let why = format_args!("it is not copied from {}", video.name);
            return Ok(FoundSound::without(why));
        }
        _ => return Ok(FoundSound::default()),
    };
    let mut bytes = ByteSource::new(opened.file, opened.len);
    let mut found: FoundSound =
        read(&mut bytes).map_err(|err: Failure| err.into_error(name, path))?;
    let format = ClipFormat::from_path(out)?;
    if let Some(sound) = &mut found.sound {
        path.clone_into(&mut sound.path);
        if format != ClipFormat::Mp4 {
            return Ok(FoundSound::without(format_args!(
                "{} holds none",
                format.name()
            )));
        }
        if sound.num_bytes() > opened.len {
            return Ok(FoundSound::without("its packets are longer than its file"));
        }
    }
    Ok(found)
}

#[cfg(all(test, feature = "h264"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::media::{ClipOptions, Picture, Runs, open_clip, write_clip};

    /// Clips of half a second with sound, made by ffmpeg: `source/tests/clips/make.sh`.
    fn clip(name: &str) -> PathBuf {
        let clips = Path::new(env!("CARGO_MANIFEST_DIR")).join("media/source/tests/clips");
        clips.join(name)
    }

    fn found(name: &str) -> FoundSound {
        sound_for(&clip(name), Path::new("a.mp4")).expect("it works")
    }

    fn bytes_of(sound: &Sound) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let take = &mut |packet: &[u8]| {
            all.push(packet.to_vec());
            Ok(())
        };
        sound.copy(take).expect("it works");
        all
    }

    fn frames() -> Vec<Picture> {
        let frame = |grey| Picture::from_fn(48, 32, |_, _| [grey; 3]).expect("it works");
        [20, 90, 200].map(frame).into()
    }

    /// A clip of three frames in runs, joined with this sound.
    fn joined(folder: &Path, sound: Option<&Sound>) -> PathBuf {
        let parts = folder.join("parts");
        fs::create_dir_all(&parts).expect("it works");
        let out = folder.join(if sound.is_some() {
            "sound.mp4"
        } else {
            "silent.mp4"
        });
        let runs = Runs::new(&parts, &out, ClipOptions::default()).expect("it works");
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
        let opus = found("opus.webm").sound.unwrap();
        assert_eq!((opus.timescale, opus.skipped), (48_000, 312));
        let sizes: Vec<u32> = opus.packets.iter().map(|it| it.size).collect();
        assert_eq!(sizes[..5], [52, 40, 36, 41, 47]);
        assert!(opus.packets.iter().all(|it| it.lasts == 960));
    }

    #[test]
    fn sound_before_the_first_frame_is_skipped() {
        // Its first frame is shown after 0.08 s.
        let sound = found("sound-fragmented.mp4").sound.unwrap();
        assert_eq!((sound.delay_secs, sound.skipped), (0.0, 1280));
    }

    #[test]
    fn sound_is_copied_packet_by_packet_and_the_pictures_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let silent = joined(folder.path(), None);
        let once = folder.path().join("once.mp4");
        write_clip(&once, &frames(), ClipOptions::default()).unwrap();
        assert_eq!(sound_for(&silent, &once).unwrap(), FoundSound::default());
        for name in [
            "sound.mp4",
            "sound-late.mov",
            "sound-fragmented.mp4",
            "opus.webm",
        ] {
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
            let (with, silent) = (open_clip(&with).unwrap(), open_clip(&silent).unwrap());
            assert_eq!(with.frames, silent.frames);
            assert!((with.fps - silent.fps).abs() < 1e-9);
        }
    }

    #[test]
    fn what_cannot_be_copied_is_told_in_a_sentence() {
        let told = |name: &str, out: &str| {
            let found = sound_for(&clip(name), Path::new(out)).unwrap();
            assert_eq!(found.sound, None, "{name}");
            found.left_out.unwrap()
        };
        assert_eq!(
            told("vorbis.webm", "a.mp4"),
            "the result has no sound: Vorbis from WebM or Matroska is not copied into MP4"
        );
        assert_eq!(
            told("pcm.mov", "a.mp4"),
            "the result has no sound: PCM is not copied into MP4"
        );
        assert_eq!(
            told("sound.mp4", "a.gif"),
            "the result has no sound: GIF holds none"
        );
        let silent = sound_for(&clip("b-frames.mp4"), Path::new("a.gif")).unwrap();
        assert_eq!(silent, FoundSound::default());
    }

    #[test]
    fn opus_that_begins_further_before_the_pictures_than_there_are_numbers_is_not_heard() {
        let element = |name: &[u8], content: &[u8]| {
            let length = 0x80 | content.len() as u8;
            [name, &[length], content].concat()
        };
        let track = |number: u8, codec: &[u8], header: &[u8]| {
            let inside = [
                element(b"\xd7", &[number]),
                element(b"\x83", &[number]), // pictures are the first kind, and sound the second
                element(b"\x86", codec),
                element(b"\x63\xa2", header),
            ];
            element(b"\xae", &inside.concat())
        };
        let cluster = |time: i64, block: &[u8]| {
            let inside = [
                element(b"\xe7", &time.to_be_bytes()),
                element(b"\xa3", block),
            ];
            element(b"\x1f\x43\xb6\x75", &inside.concat())
        };
        let header = b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0";
        let tracks = [track(1, b"V_VP8", b""), track(2, b"A_OPUS", header)].concat();
        let bytes = [
            element(b"\x1a\x45\xdf\xa3", &element(b"\x42\x82", b"webm")),
            b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff".to_vec(), // a length that is not known
            element(b"\x16\x54\xae\x6b", &tracks),
            cluster(i64::MAX, b"\x81\0\0\x80picture"),
            cluster(0, b"\x82\0\0\x80\xfc\xff\xfe"),
        ]
        .concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.webm");
        fs::write(&path, bytes).unwrap();
        let found = sound_for(&path, Path::new("a.mp4")).unwrap();
        let sound = found.sound.unwrap();
        assert_eq!((sound.num_units(), sound.skipped), (960, u64::MAX));
    }

    #[test]
    fn damaged_files_are_errors_or_sentences_and_never_more_than_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let out = Path::new("a.mp4");
        for name in ["sound.mp4", "sound-fragmented.mp4", "opus.webm"] {
            let whole = fs::read(clip(name)).unwrap();
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
