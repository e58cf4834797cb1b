//! Playback position: the frame that is due, the time until the next one, pausing, speed, repeat, and volume.
//!
//! The caller passes the time, so that a test can play hours in a millisecond; draws nothing.

use safelight_core::media::FrameStarts;
use serde::{Deserialize, Serialize};

/// A frame this close to its time counts as due: the window is woken a little early.
const SLACK_SECS: f64 = 0.02;
/// After a longer gap (the window was hidden) the video continues from where it was.
const MAX_LAG_SECS: f64 = 1.0;
/// Times that are closer are the same, in seconds.
const TIME_ROUNDING: f64 = 1e-6;
/// Time until a frame that is due is looked for again.
const MIN_WAIT_SECS: f64 = 0.005;
pub const SPEEDS: [f64; 5] = [0.25, 0.5, 1.0, 1.5, 2.0];

/// A rate at which a video can be played: what files say is not trusted.
pub fn playable_fps(fps: f64) -> f64 {
    if fps.is_finite() {
        fps.clamp(1.0, 240.0)
    } else {
        1.0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepeatMode {
    Off,
    #[default]
    Loop,
    PingPong,
}

impl RepeatMode {
    pub fn next(self) -> Self {
        match self {
            Self::Off => Self::Loop,
            Self::Loop => Self::PingPong,
            Self::PingPong => Self::Off,
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Off => "Play once",
            Self::Loop => "Loop",
            Self::PingPong => "Back and forth",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaybackOptions {
    pub repeat: RepeatMode,
    /// Relative to the frame rate of the video.
    pub speed: f64,
}

impl Default for PlaybackOptions {
    fn default() -> Self {
        Self {
            repeat: RepeatMode::Loop,
            speed: 1.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SoundVolume {
    /// From 0 to 1.
    pub volume: f32,
    pub is_muted: bool,
}

impl Default for SoundVolume {
    fn default() -> Self {
        Self {
            volume: 1.0,
            is_muted: false,
        }
    }
}

impl SoundVolume {
    /// Factor of the samples. Squared, as loudness is heard.
    pub fn gain(self) -> f32 {
        let volume = Some(self.volume).filter(|volume| volume.is_finite());
        let volume = volume.unwrap_or(1.0);
        volume.clamp(0.0, 1.0).powi(2)
    }
}

#[derive(Clone, Debug, Default)]
pub struct PlaybackPosition {
    len: usize,
    fps: f64,
    /// Of the frames where they are uneven.
    starts: Option<FrameStarts>,
    index: usize,
    /// First and last frame that play; all when absent.
    trim: Option<(usize, usize)>,
    is_playing: bool,
    is_backward: bool,
    playback: PlaybackOptions,
    due_secs: Option<f64>,
}

impl PlaybackPosition {
    /// At the first frame; more than one play.
    pub fn new(len: usize, fps: f64) -> Self {
        Self {
            len,
            fps: playable_fps(fps),
            is_playing: len > 1,
            ..Self::default()
        }
    }

    pub fn with_starts(self, starts: Option<FrameStarts>) -> Self {
        Self { starts, ..self }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn index(&self) -> usize {
        self.index
    }

    pub fn fps(&self) -> f64 {
        self.fps
    }

    pub fn secs(&self) -> f64 {
        self.start_secs(self.index)
    }

    pub fn last_secs(&self) -> f64 {
        self.start_secs(self.len.saturating_sub(1))
    }

    /// Time after the last frame.
    pub fn len_secs(&self) -> f64 {
        self.start_secs(self.len)
    }

    /// Begin of the first and end of the last frame that play, in seconds.
    pub fn range_secs(&self) -> (f64, f64) {
        let (first, last) = self.range();
        (self.start_secs(first), self.start_secs(last + 1))
    }

    fn start_secs(&self, index: usize) -> f64 {
        let even = index as f64 / self.fps;
        self.starts
            .as_ref()
            .map_or(even, |starts| starts.secs(index))
    }

    /// Duration of the frame at the chosen speed.
    fn period_secs(&self) -> f64 {
        let own = self.start_secs(self.index + 1) - self.start_secs(self.index);
        own / self.playback.speed
    }

    pub fn is_playing(&self) -> bool {
        self.is_playing
    }

    /// True if it plays and the next frame is the one before.
    pub fn is_backward(&self) -> bool {
        self.is_playing && self.is_backward
    }

    pub fn set_playback(&mut self, playback: PlaybackOptions) {
        let speed = if playback.speed.is_finite() {
            playback.speed.clamp(SPEEDS[0], SPEEDS[SPEEDS.len() - 1])
        } else {
            1.0
        };
        let playback = PlaybackOptions { speed, ..playback };
        if playback != self.playback {
            self.is_backward &= playback.repeat == RepeatMode::PingPong;
            self.playback = playback;
            self.due_secs = None;
        }
    }

    /// First and last frame that play.
    pub fn range(&self) -> (usize, usize) {
        self.trim.unwrap_or_else(|| (0, self.len.saturating_sub(1)))
    }

    pub fn is_trimmed(&self) -> bool {
        self.trim.is_some()
    }

    /// Frames that play from now on. An end that passes the other takes it along.
    pub fn trim(&mut self, first: Option<usize>, last: Option<usize>) {
        let end = self.len.saturating_sub(1);
        let (before, after) = self.range();
        let first = first.unwrap_or_else(|| before.min(last.unwrap_or(before)));
        let last = last.unwrap_or_else(|| after.max(first)).min(end);
        let trim = (first.min(last), last);
        self.trim = (trim != (0, end)).then_some(trim);
    }

    /// Plays or pauses; outside of the frames that play, and at the end of a video that is played once, it begins anew.
    pub fn toggle(&mut self) {
        self.is_playing = !self.is_playing && self.len > 1;
        self.due_secs = None;
        let (first, last) = self.range();
        let is_over = self.playback.repeat == RepeatMode::Off && self.index >= last;
        if self.is_playing && (is_over || !(first..=last).contains(&self.index)) {
            self.index = first;
        }
    }

    /// Moves by frames, wrapping at the ends, and stops there.
    pub fn step(&mut self, by: i64) {
        let len = self.len.max(1) as i64;
        self.show((self.index as i64).saturating_add(by).rem_euclid(len) as usize);
    }

    pub fn show(&mut self, index: usize) {
        self.index = index.min(self.len.saturating_sub(1));
        self.is_playing = false;
        self.due_secs = None;
    }

    /// The number of frames has changed, and this number of new ones precedes the existing ones. The current frame
    /// stays.
    pub fn grow(&mut self, len: usize, at_front: usize) {
        let was_still = self.len <= 1;
        self.len = len;
        self.index = (self.index + at_front).min(len.saturating_sub(1));
        self.is_playing = len > 1 && (self.is_playing || was_still);
    }

    /// Waits for what is not there yet, and does not catch up with it.
    pub fn hold(&mut self) {
        self.due_secs = None;
    }

    /// Goes on to the frame of this moment, over those whose time has passed; says how many seconds it stays. `None`
    /// while paused.
    pub fn tick(&mut self, now_secs: f64) -> Option<f64> {
        if !self.is_playing {
            return None;
        }
        let due = self.due_secs.take();
        let mut due = due.unwrap_or_else(|| now_secs + self.period_secs());
        if now_secs - due > MAX_LAG_SECS {
            due = now_secs;
        }
        while due - now_secs <= SLACK_SECS.min(self.period_secs() / 2.0) {
            self.advance();
            if !self.is_playing {
                return None;
            }
            due += self.period_secs();
        }
        self.due_secs = Some(due);
        Some(due - now_secs)
    }

    /// Goes to the frame at a time of its sound, in seconds. Returns the seconds until the next one; `None` after the last
    /// one of a video that is played once, and while paused.
    pub fn follow(&mut self, secs: f64) -> Option<f64> {
        if !self.is_playing {
            return None;
        }
        let (first, last) = self.range();
        let is_begun = |index: usize| self.start_secs(index) <= secs + TIME_ROUNDING;
        let before = self.index.clamp(first, last);
        let mut index = if is_begun(before) { before } else { first };
        while index < last && is_begun(index + 1) {
            index += 1;
        }
        let is_over = self.playback.repeat == RepeatMode::Off && is_begun(last + 1);
        self.index = index;
        self.due_secs = None;
        self.is_playing = !is_over;
        let left = (self.start_secs(index + 1) - secs) / self.playback.speed;
        self.is_playing.then_some(left.max(MIN_WAIT_SECS))
    }

    fn advance(&mut self) {
        let (first, last) = self.range();
        match self.playback.repeat {
            RepeatMode::Loop => {
                self.index = if self.index >= last || self.index < first {
                    first
                } else {
                    self.index + 1
                }
            }
            RepeatMode::Off if self.index >= last => self.is_playing = false,
            RepeatMode::Off => self.index += 1,
            RepeatMode::PingPong => {
                if self.index >= last {
                    self.is_backward = true;
                } else if self.index <= first {
                    self.is_backward = false;
                }
                self.index = if self.is_backward {
                    self.index.saturating_sub(1).max(first)
                } else {
                    (self.index + 1).clamp(first, last)
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(len: usize, repeat: RepeatMode, speed: f64) -> PlaybackPosition {
        let mut playhead = PlaybackPosition::new(len, 10.0);
        playhead.set_playback(PlaybackOptions { repeat, speed });
        playhead
    }

    /// The frames that are seen when the window is woken exactly when it asked to be.
    fn frames(playhead: &mut PlaybackPosition, count: usize) -> Vec<usize> {
        let mut now = 0.0;
        let frame = |_| {
            now += playhead.tick(now).unwrap_or(0.0);
            playhead.tick(now);
            playhead.index()
        };
        (0..count).map(frame).collect()
    }

    #[test]
    fn repeat_mode_determines_the_frame_after_the_last() {
        let expected = [1, 2, 0, 1, 2, 0];
        assert_eq!(frames(&mut with(3, RepeatMode::Loop, 1.0), 6), expected);
        let mut back = with(3, RepeatMode::PingPong, 1.0);
        assert_eq!(frames(&mut back, 6), [1, 2, 1, 0, 1, 2]);
        let mut once = with(3, RepeatMode::Off, 1.0);
        assert_eq!(frames(&mut once, 5), [1, 2, 2, 2, 2]);
        assert_eq!((once.is_playing(), once.tick(9.0)), (false, None));
        once.toggle();
        assert_eq!((once.index(), once.is_playing()), (0, true));
    }

    #[test]
    fn any_volume_of_a_file_is_a_factor_from_0_to_1() {
        for (volume, gain) in [(0.5, 0.25), (0.0, 0.0), (7.0, 1.0), (f32::NAN, 1.0)] {
            let volume = SoundVolume {
                volume,
                is_muted: false,
            };
            assert_eq!(volume.gain(), gain);
        }
    }

    #[test]
    fn frames_follow_the_time_that_is_heard() {
        let mut playhead = with(5, RepeatMode::Loop, 2.0);
        playhead.trim(Some(1), Some(3));
        for (secs, index, wait) in [
            (0.1, 1, 0.05),
            (0.25, 2, 0.025),
            (0.399_999_9, 3, MIN_WAIT_SECS),
            // It has begun again.
            (0.15, 1, 0.025),
            (0.0, 1, 0.1),
        ] {
            let found = playhead.follow(secs).unwrap();
            assert_eq!(playhead.index(), index, "{secs}");
            assert!((found - wait).abs() < 1e-6, "{secs}: {found}");
        }
        let mut once = with(3, RepeatMode::Off, 1.0);
        assert!(once.follow(0.29).is_some());
        assert_eq!(once.follow(0.3), None);
        assert_eq!((once.index(), once.is_playing()), (2, false));
        assert_eq!((once.follow(0.0), once.index()), (None, 2));
    }

    #[test]
    fn speed_changes_how_long_a_frame_stays() {
        for (speed, secs) in [(0.25, 0.4), (1.0, 0.1), (2.0, 0.05), (f64::NAN, 0.1)] {
            let mut playhead = with(100, RepeatMode::Loop, speed);
            let wait = playhead.tick(0.0).unwrap();
            assert!((wait - secs).abs() < 1e-9, "{speed}: {wait}");
        }
    }

    #[test]
    fn frames_of_uneven_times_stay_as_long_as_each_lasts() {
        let starts = FrameStarts::from_micros([0, 50_000, 350_000, 5_350_000]);
        let mut playhead = with(3, RepeatMode::PingPong, 0.5).with_starts(Some(starts));
        let mut now = 0.0;
        for (index, waits) in [(0, 0.1), (1, 0.6), (2, 10.0), (1, 0.6)] {
            assert_eq!(playhead.index(), index);
            let wait = playhead.tick(now).unwrap();
            assert!((wait - waits).abs() < 1e-9, "{index}: {wait}");
            now += wait;
            playhead.tick(now);
        }
        playhead.show(2);
        assert_eq!((playhead.secs(), playhead.last_secs()), (0.35, 0.35));
    }

    #[test]
    fn a_late_window_leaves_frames_out_and_a_hidden_one_does_not_race_to_catch_up() {
        for (at_secs, expected) in [(0.55, 5..=5), (3600.0, 0..=1)] {
            let mut playhead = with(100, RepeatMode::Loop, 1.0);
            playhead.tick(0.0);
            playhead.tick(at_secs);
            assert!(expected.contains(&playhead.index()), "{at_secs}");
        }
    }

    #[test]
    fn a_broken_frame_rate_cannot_hang_the_window() {
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let wait = PlaybackPosition::new(3, fps).tick(0.0).unwrap();
            assert!(wait > 0.0 && wait.is_finite());
        }
    }

    #[test]
    fn a_video_that_grows_keeps_the_frame_that_is_looked_at() {
        let mut playhead = with(33, RepeatMode::Loop, 1.0);
        playhead.show(7);
        playhead.grow(69, 36);
        assert_eq!((playhead.index(), playhead.is_playing()), (43, false));
        playhead.grow(100, 0);
        assert_eq!((playhead.index(), playhead.len()), (43, 100));
        // A file that ends earlier than its header says.
        playhead.grow(10, 0);
        assert_eq!(playhead.index(), 9);
    }

    #[test]
    fn a_trimmed_video_repeats_its_range_in_every_mode() {
        for (repeat, expected) in [
            (RepeatMode::Loop, [3, 4, 5, 3, 4]),
            (RepeatMode::PingPong, [3, 4, 5, 4, 3]),
            (RepeatMode::Off, [3, 4, 5, 5, 5]),
        ] {
            let mut playhead = with(10, repeat, 1.0);
            playhead.trim(Some(3), Some(5));
            playhead.show(9);
            playhead.toggle();
            assert_eq!(playhead.index(), 3, "{repeat:?}");
            let seen = frames(&mut playhead, 4);
            assert_eq!(seen, expected[1..], "{repeat:?}");
        }
    }

    #[test]
    fn ends_of_a_trim_that_pass_each_other_move_together_and_all_frames_are_no_trim() {
        let mut playhead = with(10, RepeatMode::Loop, 1.0);
        for (first, last, expected) in [
            (Some(4), None, (4, 9)),
            (None, Some(2), (2, 2)),
            (Some(7), None, (7, 7)),
            (None, Some(99), (7, 9)),
            (Some(0), None, (0, 9)),
        ] {
            playhead.trim(first, last);
            assert_eq!(playhead.range(), expected);
        }
        assert!(!playhead.is_trimmed());
    }
}
