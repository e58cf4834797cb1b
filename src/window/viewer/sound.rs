//! Sound of the video that is shown: decoded in the background and played by the desktop's sound server.
//!
//! PulseAudio and PipeWire speak one protocol over a socket, and its client is plain Rust: no library of the system is
//! needed. While sound plays, the frames follow its clock.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use egui::mutex::Mutex;
use futures_lite::future::block_on;
use pulseaudio::protocol::{
    ChannelMap, PlaybackStreamParams, SampleFormat, SampleSpec, stream::BufferAttr,
};
use pulseaudio::{AsPlaybackSource as _, Client, ClientError};
use safelight_core::media::{MediaErrorKind, SampledSound, open_sound};

use crate::window::background::guarded;
use crate::window::prelude::*;
use crate::window::viewer::FramePlayer;
use crate::window::viewer::playhead::{PlaybackOptions, RepeatMode, SoundVolume};

/// Parts of the waveform.
const NUM_PEAKS: usize = 400;
/// Sound in the server's buffer, in seconds: the delay of a change of the volume.
const BUFFER_SECS: f64 = 0.2;
/// Length of the cookie by which a server knows its user. PipeWire takes any.
const COOKIE_BYTES: usize = 256;
/// Interval between two readings of the server's clock.
const CLOCK_INTERVAL: Duration = Duration::from_millis(50);
/// The frames wait this long for sound that begins to play.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// A decoded sound and its waveform.
struct OpenedSound {
    sound: Arc<SampledSound>,
    peaks: Vec<f32>,
}

#[derive(Default)]
pub struct ViewerSound {
    pub volume: SoundVolume,
    /// The file whose sound is here, or is being decoded.
    path: PathBuf,
    opening: BackgroundTask<Result<Option<OpenedSound>, MediaError>>,
    opened: Option<OpenedSound>,
    playing: Option<PlayingSound>,
    /// The notice that no device plays the sound was shown.
    is_told: bool,
}

impl ViewerSound {
    pub fn new(volume: SoundVolume) -> Self {
        Self {
            volume,
            ..Self::default()
        }
    }

    /// Largest magnitudes in equal parts of the video, from 0 to 1; `None` without sound.
    pub fn peaks(&self) -> Option<&[f32]> {
        self.opened.as_ref().map(|opened| opened.peaks.as_slice())
    }

    pub(super) fn stop(&mut self) {
        self.playing = None;
    }

    /// Plays the sound of a video as far as that plays. Returns the time in the video that is heard, in seconds; `None`
    /// while nothing is.
    pub(super) fn follow(
        &mut self,
        player: &FramePlayer,
        playback: PlaybackOptions,
        cx: &mut AppContext,
    ) -> Option<f64> {
        self.open(player, cx);
        let playhead = &player.playhead;
        let plays = playhead.is_playing() && player.image().is_some();
        // Backwards it would be noise. Muted, no device is used.
        let is_silent = playback.repeat == RepeatMode::PingPong || self.volume.is_muted;
        let plays = plays && !is_silent;
        let Some(opened) = self.opened.as_ref().filter(|_| plays) else {
            self.playing = None;
            return None;
        };
        let section = PlayedSection {
            range: playhead.range_secs(),
            repeats: playback.repeat == RepeatMode::Loop,
            speed: playback.speed,
        };
        let playing = match self.playing.take() {
            Some(playing) if playing.section == section => playing,
            _ => {
                let stream = SoundStream::new(&opened.sound, section, playhead.secs());
                PlayingSound::start(stream, section, cx)
            }
        };
        let playing = self.playing.insert(playing);
        if let Some(Err(why)) = playing.ended.take()
            && !std::mem::replace(&mut self.is_told, true)
        {
            cx.say(format!("Videos play without sound: {why}"));
        }
        if !playing.ended.is_busy() {
            return None;
        }
        let mut stream = playing.stream.lock();
        stream.gain = self.volume.gain();
        stream.heard_secs(Instant::now())
    }

    /// Decodes the sound of a video that was not shown before, and takes it when it is there.
    fn open(&mut self, player: &FramePlayer, cx: &mut AppContext) {
        let path = player.media.path_of(0);
        if path != self.path {
            self.path = path.to_owned();
            (self.playing, self.opened) = (None, None);
            let (path, secs) = (self.path.clone(), player.playhead.len_secs());
            self.opening = if player.can_play() {
                cx.background.run("sound", move || open(&path, secs))
            } else {
                BackgroundTask::default()
            };
        }
        match self.opening.take() {
            Some(Ok(opened)) => self.opened = opened,
            // A result in memory may have lost its file.
            Some(Err(err)) if err.kind == MediaErrorKind::NotFound => {}
            Some(Err(err)) => cx.say(format!("The video plays without sound: {err}")),
            None => {}
        }
    }
}

fn open(path: &Path, secs: f64) -> Result<Option<OpenedSound>, MediaError> {
    let sound = guarded(|| open_sound(path));
    let sound =
        sound.unwrap_or_else(|| Err(MediaError::damaged("sound", "its reader failed", path)));
    Ok(sound?.map(|sound| OpenedSound {
        peaks: sound.peaks(NUM_PEAKS, secs),
        sound: Arc::new(sound),
    }))
}

/// Part of a video whose sound plays.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlayedSection {
    /// Begin and end in the video, in seconds.
    range: (f64, f64),
    repeats: bool,
    speed: f64,
}

/// Sound that plays until this is dropped.
struct PlayingSound {
    stream: Arc<Mutex<SoundStream>>,
    section: PlayedSection,
    /// Result of the thread that plays it.
    ended: BackgroundTask<Result<(), String>>,
}

impl PlayingSound {
    fn start(stream: SoundStream, section: PlayedSection, cx: &AppContext) -> Self {
        let stream = Arc::new(Mutex::new(stream));
        let played = Arc::clone(&stream);
        let ended = cx.background.run("play-sound", move || {
            play(&played).map_err(|err| match err {
                ClientError::ServerUnavailable => {
                    "neither PipeWire nor PulseAudio is running".to_owned()
                }
                err => format!("the sound server does not play it ({err})"),
            })
        });
        Self {
            stream,
            section,
            ended,
        }
    }
}

impl Drop for PlayingSound {
    fn drop(&mut self) {
        self.stream.lock().is_closed = true;
    }
}

/// Plays a stream until it is closed.
fn play(stream: &Arc<Mutex<SoundStream>>) -> Result<(), ClientError> {
    let socket = pulseaudio::socket_path_from_env().ok_or(ClientError::ServerUnavailable)?;
    let cookie = pulseaudio::cookie_path_from_env().and_then(|path| fs::read(path).ok());
    let cookie = cookie.unwrap_or_else(|| vec![0; COOKIE_BYTES]);
    let client = Client::new_unix(c"Safelight", UnixStream::connect(socket)?, Some(cookie))?;
    let (channels, rate) = {
        let stream = stream.lock();
        (stream.sound.channels as u8, stream.rate)
    };
    let frame_bytes = 2 * u32::from(channels);
    let params = PlaybackStreamParams {
        sample_spec: SampleSpec {
            format: SampleFormat::S16Le,
            channels,
            sample_rate: rate as u32,
        },
        channel_map: match channels {
            1 => ChannelMap::mono(),
            _ => ChannelMap::stereo(),
        },
        buffer_attr: BufferAttr {
            target_length: (rate * BUFFER_SECS) as u32 * frame_bytes,
            ..BufferAttr::default()
        },
        ..PlaybackStreamParams::default()
    };
    let source = Arc::clone(stream);
    let fill = move |bytes: &mut [u8]| source.lock().fill(bytes);
    let playback = block_on(client.create_playback_stream(params, fill.as_playback_source()))?;
    while !stream.lock().is_closed {
        let timing = block_on(playback.timing_info())?;
        let waiting = timing.sink_usec as f64 / 1e6 * rate;
        let heard = timing.read_offset as f64 / f64::from(frame_bytes) - waiting;
        if timing.playing {
            stream.lock().clock = Some((heard.max(0.0), Instant::now()));
        }
        thread::sleep(CLOCK_INTERVAL);
    }
    Ok(())
}

/// Samples in the order in which they are played, and the clock of the device. All positions count samples of a channel.
struct SoundStream {
    sound: Arc<SampledSound>,
    /// Samples of a channel in a second, at the speed of the video.
    rate: f64,
    /// Of the sound; it may be shorter.
    begin: usize,
    end: usize,
    repeats: bool,
    gain: f32,
    /// Position in the sound of the first sample.
    first: usize,
    /// Number of samples that the device got.
    given: usize,
    /// Number of samples that have been heard at a moment.
    clock: Option<(f64, Instant)>,
    started: Instant,
    is_closed: bool,
}

impl SoundStream {
    /// `from`: time in the video, in seconds.
    fn new(sound: &Arc<SampledSound>, section: PlayedSection, from: f64) -> Self {
        let own = f64::from(sound.rate);
        let [begin, end, first] = [section.range.0, section.range.1, from]
            .map(|secs| (secs.max(0.0) * own).round() as usize);
        Self {
            sound: Arc::clone(sound),
            rate: own * section.speed.max(0.01),
            begin,
            // A loop without a sample would never fill anything.
            end: end.max(begin + 1),
            repeats: section.repeats,
            gain: 0.0,
            first: first.clamp(begin, end),
            given: 0,
            clock: None,
            started: Instant::now(),
            is_closed: false,
        }
    }

    /// Position in the sound after this number of samples; past the end of one that plays once.
    fn position(&self, num_played: usize) -> usize {
        let at = self.first + num_played;
        if self.repeats && at >= self.end {
            return self.begin + (at - self.end) % (self.end - self.begin);
        }
        at
    }

    /// Fills the device's buffer: silence after the end of the sound, and once it is closed. Returns the bytes filled.
    fn fill(&mut self, bytes: &mut [u8]) -> usize {
        let channels = usize::from(self.sound.channels.max(1));
        let frames = bytes.chunks_exact_mut(2 * channels);
        let filled = frames.len() * 2 * channels;
        for frame in frames {
            let position = self.position(self.given);
            let is_heard = position < self.end && !self.is_closed;
            let at = position * channels;
            let samples = self.sound.samples.get(at..at + channels);
            for (index, bytes) in frame.as_chunks_mut().0.iter_mut().enumerate() {
                let sample = samples.filter(|_| is_heard).map_or(0, |it| it[index]);
                *bytes = ((f32::from(sample) * self.gain) as i16).to_le_bytes();
            }
            self.given += 1;
        }
        filled
    }

    /// Time in the video that is heard, in seconds. Until the device plays, that is the first one; `None` where it does
    /// not begin in time.
    fn heard_secs(&self, now: Instant) -> Option<f64> {
        let heard = match self.clock {
            Some((heard, at)) => {
                let since = now.saturating_duration_since(at).as_secs_f64() * self.rate;
                (heard + since).min(self.given as f64)
            }
            None if now.saturating_duration_since(self.started) < BEGINS_WITHIN => 0.0,
            None => return None,
        };
        let position = self.position(heard as usize) as f64 + heard.fract();
        Some(position.min(self.end as f64) / f64::from(self.sound.rate.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stereo sound of 10 samples in a second, whose samples are 1000 times their time on the left.
    fn stream(section: PlayedSection, from: f64) -> SoundStream {
        let samples = (0..8_i16).flat_map(|time| [time * 1000, -5]);
        let sound = SampledSound {
            samples: samples.collect(),
            channels: 2,
            rate: 10,
        };
        let mut stream = SoundStream::new(&Arc::new(sound), section, from);
        stream.gain = 1.0;
        stream
    }

    /// Samples of the left channel that a device gets.
    fn given(stream: &mut SoundStream, count: usize) -> Vec<i16> {
        let mut bytes = vec![1; count * 4 + 3];
        assert_eq!(stream.fill(&mut bytes), count * 4);
        let left = bytes.chunks_exact(4);
        left.map(|it| i16::from_le_bytes([it[0], it[1]]) / 1000)
            .collect()
    }

    const ALL: PlayedSection = PlayedSection {
        range: (0.0, 1.0),
        repeats: false,
        speed: 1.0,
    };

    #[test]
    fn silence_follows_a_sound_that_is_shorter_than_its_video_and_repeats_with_it() {
        let mut once = stream(ALL, 0.6);
        assert_eq!(given(&mut once, 5), [6, 7, 0, 0, 0]);
        let repeated = PlayedSection {
            repeats: true,
            ..ALL
        };
        let mut repeated = stream(repeated, 0.7);
        assert_eq!(given(&mut repeated, 6), [7, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn sound_longer_than_what_plays_is_cut_at_the_last_frame() {
        let part = PlayedSection {
            range: (0.2, 0.4),
            repeats: true,
            ..ALL
        };
        assert_eq!(given(&mut stream(part, 0.0), 5), [2, 3, 2, 3, 2]);
        let empty = PlayedSection {
            range: (0.4, 0.4),
            ..part
        };
        assert_eq!(given(&mut stream(empty, 0.4), 3), [4, 4, 4]);
    }

    #[test]
    fn time_that_is_heard_follows_the_clock_of_the_device_through_loops() {
        let repeated = PlayedSection {
            range: (0.2, 0.6),
            repeats: true,
            speed: 2.0,
        };
        let mut stream = stream(repeated, 0.4);
        let now = stream.started;
        let at = |secs: f64| now + Duration::from_millis((secs * 1000.0) as u64);
        // Nothing is heard yet, and after a second it is not waited for.
        assert_eq!(stream.heard_secs(at(0.5)), Some(0.4));
        assert_eq!(stream.heard_secs(at(1.5)), None);
        given(&mut stream, 20);
        for (heard, secs, expected) in [
            (1.0, 0.0, 0.5),
            (1.0, 0.1, 0.3),
            (4.0, 0.05, 0.5),
            (5.0, 0.05, 0.2),
            // The device has played all that it got.
            (19.0, 9.0, 0.2 + 0.2),
        ] {
            stream.clock = Some((heard, now));
            let found = stream.heard_secs(at(secs)).unwrap();
            assert!((found - expected).abs() < 1e-6, "{heard} + {secs}: {found}");
        }
    }

    #[test]
    fn samples_are_scaled_and_a_closed_stream_is_silent() {
        let mut quiet = stream(ALL, 0.4);
        quiet.gain = 0.25;
        assert_eq!(given(&mut quiet, 2), [1, 1]);
        quiet.is_closed = true;
        assert_eq!(given(&mut quiet, 2), [0, 0]);
    }
}
