//! Playing a clip in a loop: which frame is due and how long the next one can wait.
//!
//! It is told the time and draws nothing, so a test can play hours in a millisecond.

use std::sync::Arc;

use safelight_core::job::Clip;
use safelight_core::media::Picture;

/// A frame this close to its time counts as due: the window is woken a little early.
const SLACK_SECS: f64 = 0.02;
/// After a longer silence (the window was hidden) the clip goes on where it stood.
const MAX_LAG_SECS: f64 = 1.0;

/// A clip and the place in it.
#[derive(Clone, Debug)]
pub struct Player {
    clip: Arc<Clip>,
    index: usize,
    is_clip: bool,
    is_playing: bool,
    due_secs: Option<f64>,
}

impl Player {
    /// Plays from the first frame; a single picture stands.
    pub fn new(clip: Arc<Clip>) -> Self {
        let is_playing = clip.frames.len() > 1;
        Self {
            clip,
            index: 0,
            is_clip: true,
            is_playing,
            due_secs: None,
        }
    }

    /// Pictures of a batch: one is looked at, and none plays.
    pub fn of_pictures(pictures: Arc<Clip>) -> Self {
        Self {
            is_clip: false,
            is_playing: false,
            ..Self::new(pictures)
        }
    }

    /// Whether it can play.
    pub fn is_clip(&self) -> bool {
        self.is_clip && self.len() > 1
    }

    pub fn len(&self) -> usize {
        self.clip.frames.len()
    }

    pub fn is_empty(&self) -> bool {
        self.clip.frames.is_empty()
    }

    pub fn index(&self) -> usize {
        self.index
    }

    pub fn is_playing(&self) -> bool {
        self.is_playing
    }

    pub fn fps(&self) -> f64 {
        if self.clip.fps.is_finite() {
            self.clip.fps.clamp(1.0, 240.0)
        } else {
            1.0
        }
    }

    /// The frame to look at.
    pub fn picture(&self) -> Option<&Arc<Picture>> {
        self.clip.frames.get(self.index)
    }

    pub fn toggle(&mut self) {
        self.is_playing = !self.is_playing && self.is_clip();
        self.due_secs = None;
    }

    /// Stops at a frame, counted around the loop.
    pub fn step(&mut self, by: i64) {
        let len = self.len().max(1) as i64;
        self.show((self.index as i64 + by).rem_euclid(len) as usize);
    }

    /// Stops at this frame.
    pub fn show(&mut self, index: usize) {
        self.index = index.min(self.len().saturating_sub(1));
        self.is_playing = false;
        self.due_secs = None;
    }

    /// Goes on to the frame of this moment; says how many seconds it stays. `None` while paused.
    pub fn tick(&mut self, now_secs: f64) -> Option<f64> {
        if !self.is_playing {
            return None;
        }
        let period = 1.0 / self.fps();
        let slack = SLACK_SECS.min(period / 2.0);
        let mut due = self.due_secs.unwrap_or(now_secs + period);
        if now_secs - due > MAX_LAG_SECS {
            due = now_secs;
        }
        while due - now_secs <= slack {
            self.index = (self.index + 1) % self.len();
            due += period;
        }
        self.due_secs = Some(due);
        Some(due - now_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player(num_frames: usize, fps: f64) -> Player {
        let picture = Arc::new(Picture::new(1, 1, vec![0; 3]).unwrap());
        Player::new(Arc::new(Clip {
            frames: vec![picture; num_frames],
            fps,
        }))
    }

    #[test]
    fn a_clip_comes_round_after_its_length() {
        let mut player = player(17, 8.0);
        let mut now = 0.0;
        for frame in 0..34 {
            assert_eq!(player.index(), frame % 17);
            now += player.tick(now).unwrap();
            // The window wakes a little early.
            now -= 0.015;
            player.tick(now);
        }
        assert!((now - 34.0 / 8.0).abs() < 0.6, "{now}");
    }

    #[test]
    fn a_paused_clip_asks_for_no_time() {
        let mut player = player(5, 8.0);
        player.toggle();
        assert_eq!(player.tick(1.0), None);
        player.step(-1);
        assert_eq!(player.index(), 4);
        player.step(1);
        assert_eq!(player.index(), 0);
        player.show(99);
        assert_eq!(player.index(), 4);
    }

    #[test]
    fn a_single_picture_stands_still() {
        let mut picture = player(1, 8.0);
        assert_eq!(picture.tick(0.0), None);
        picture.toggle();
        assert!(!picture.is_playing());
    }

    #[test]
    fn pictures_of_a_batch_are_looked_at_and_never_play() {
        let mut batch = Player::of_pictures(player(4, 8.0).clip);
        batch.toggle();
        assert_eq!((batch.tick(1.0), batch.is_playing()), (None, false));
        batch.step(-1);
        assert_eq!(batch.index(), 3);
        assert!(!batch.is_clip());
    }

    #[test]
    fn a_hidden_window_does_not_race_to_catch_up() {
        let mut player = player(100, 10.0);
        player.tick(0.0);
        player.tick(3600.0);
        assert!(player.index() <= 1);
    }

    #[test]
    fn a_broken_frame_rate_cannot_hang_the_window() {
        for fps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let mut player = player(3, fps);
            let wait = player.tick(0.0).unwrap();
            assert!(wait > 0.0 && wait.is_finite());
        }
    }
}
