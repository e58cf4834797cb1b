//! Watching: what is played, where it stands, and what is done with it.
//!
//! Time is `playhead`'s, frames of files are `reading`'s; panels are in `ui::watch`.

mod commands;
pub mod compare;
pub mod differences;
pub mod facts;
mod frames;
mod full;
mod opening;
pub mod playhead;
mod reading;
mod saving;
pub mod screen;
mod showing;
mod sight;
mod window;
pub mod zoom;

use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::job::{Clip, JobError, JobId};
use safelight_core::media::{MediaError, Picture};

use crate::app::pending::Pending;
use compare::Compare;
pub use facts::PlayedFile;
use frames::Frames;
use full::FullScreen;
pub use opening::OpenedFile;
pub use playhead::{Playback, Playhead, Repeat, SPEEDS};
use screen::Screen;
use zoom::Zoom;

/// What the middle of the window shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Viewing {
    #[default]
    Live,
    Result(JobId),
    File,
    /// Two results or files.
    Compare,
}

#[derive(Default)]
pub struct Watch {
    pub viewing: Viewing,
    /// Of a result or a file.
    pub player: Option<Player>,
    /// The file whose frames the player has.
    pub file: Option<PlayedFile>,
    pub compare: Option<Compare>,
    pub screen: Screen,
    /// The latents in the making, while the clip so far plays.
    pub inset: Screen,
    pub zoom: Zoom,
    /// The picture has the whole screen.
    pub is_full: bool,
    full: FullScreen,
    pub playback: Playback,
    /// A picture of the form that is looked at because it came there.
    input: Option<PathBuf>,
    /// A file that is looked at because a job has made it.
    made: Option<PathBuf>,
    /// The user chose what is looked at; the next job does not take its place.
    is_chosen: bool,
    /// The job that ran when the queue was last looked at.
    running: Option<JobId>,
    /// A new clip plays until this time, also while the next job runs; then that job is looked at.
    live_at: Option<f64>,
    /// The file that was looked at when it went to the trash.
    thrown: Option<PathBuf>,
    /// What is on its way from disk.
    opening: Option<Opening>,
    /// Where a comparison goes back to.
    before_compare: Viewing,
    /// The number of a frame, counted from 1, and its file.
    saving: Pending<Result<(usize, PathBuf), MediaError>>,
}

/// One file, or two to be compared.
struct Opening {
    name: String,
    files: Pending<Result<Vec<OpenedFile>, JobError>>,
    /// A picture of the form, which nobody asked to see.
    is_input: bool,
}

impl Watch {
    pub fn new(playback: Playback) -> Self {
        Self {
            playback,
            ..Self::default()
        }
    }

    /// The name of the file that is on its way from disk.
    pub fn opening(&self) -> Option<&str> {
        self.opening.as_ref().map(|opening| opening.name.as_str())
    }

    /// Which picture of a batch is looked at; 0 for everything else.
    pub fn shown_of_batch(&self) -> usize {
        let player = self.player.as_ref().filter(|player| !player.is_clip());
        player.map_or(0, Player::index)
    }
}

/// A clip and the place in it.
#[derive(Clone, Debug)]
pub struct Player {
    frames: Frames,
    playhead: Playhead,
    is_clip: bool,
}

impl Player {
    /// Plays from the first frame; a single picture stands.
    pub fn new(clip: Arc<Clip>) -> Self {
        Self {
            playhead: Playhead::new(clip.frames.len(), clip.fps),
            frames: Frames::Memory(clip),
            is_clip: true,
        }
    }

    /// Pictures of a batch: one is looked at, and none plays.
    pub fn of_pictures(pictures: Arc<Clip>) -> Self {
        let player = Self::new(pictures);
        Self {
            playhead: player.playhead.paused(),
            is_clip: false,
            ..player
        }
    }

    /// What was opened from disk.
    fn of_frames(frames: Frames, fps: f64, is_clip: bool) -> Self {
        let playhead = Playhead::new(frames.len(), fps).with_starts(frames.starts().cloned());
        Self {
            playhead: if is_clip { playhead } else { playhead.paused() },
            frames,
            is_clip,
        }
    }

    /// Whether it can play.
    pub fn is_clip(&self) -> bool {
        self.is_clip && self.len() > 1
    }

    pub fn len(&self) -> usize {
        self.playhead.len()
    }

    pub fn is_empty(&self) -> bool {
        self.playhead.is_empty()
    }

    pub fn index(&self) -> usize {
        self.playhead.index()
    }

    pub fn is_playing(&self) -> bool {
        self.playhead.is_playing()
    }

    pub fn fps(&self) -> f64 {
        self.playhead.fps()
    }

    pub fn playhead(&self) -> &Playhead {
        &self.playhead
    }

    /// The frame to look at; of a file the nearest one, while it is on its way.
    pub fn picture(&self) -> Option<Arc<Picture>> {
        self.frames.picture(self.index())
    }

    /// The frame itself.
    pub fn exact(&self) -> Option<Arc<Picture>> {
        self.frames.exact(self.index())
    }

    pub fn toggle(&mut self) {
        if self.is_clip() {
            self.playhead.toggle();
        }
    }

    /// Stops at a frame, counted around the loop.
    pub fn step(&mut self, by: i64) {
        self.playhead.step(by);
    }

    /// Stops at this frame.
    pub fn show(&mut self, index: usize) {
        self.playhead.show(index);
    }

    pub fn set_playback(&mut self, playback: Playback) {
        self.playhead.set_playback(playback);
    }

    /// A longer clip takes the place of this one, its new frames before or behind.
    pub fn grow(&mut self, clip: Arc<Clip>, is_at_front: bool) {
        let more = clip.frames.len().saturating_sub(self.len());
        let at_front = if is_at_front { more } else { 0 };
        self.playhead.grow(clip.frames.len(), at_front);
        self.frames = Frames::Memory(clip);
    }

    /// Goes on to the frame of this moment; says how many seconds it stays. `None` while paused, and while nothing is
    /// there to show.
    pub fn tick(&mut self, now_secs: f64) -> Option<f64> {
        let len = self.frames.len();
        if len < self.playhead.len() {
            self.playhead.grow(len, 0);
        }
        if self.picture().is_none() {
            // What reads them wakes the window.
            self.playhead.hold();
            self.frames.look_at(self.index(), false);
            return None;
        }
        let wait = self.playhead.tick(now_secs);
        self.frames
            .look_at(self.index(), self.playhead.is_backward());
        wait
    }

    /// What went wrong with its file, once.
    fn take_failure(&self) -> Option<MediaError> {
        self.frames.take_failure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(num_frames: usize, fps: f64) -> Arc<Clip> {
        let picture = Arc::new(Picture::new(1, 1, vec![0; 3]).unwrap());
        Arc::new(Clip {
            frames: vec![picture; num_frames],
            fps,
        })
    }

    #[test]
    fn a_clip_comes_round_after_its_length() {
        let mut player = Player::new(clip(17, 8.0));
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
        let mut player = Player::new(clip(5, 8.0));
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
        let mut picture = Player::new(clip(1, 8.0));
        assert_eq!(picture.tick(0.0), None);
        picture.toggle();
        assert!(!picture.is_playing());
    }

    #[test]
    fn pictures_of_a_batch_are_looked_at_and_never_play() {
        let mut batch = Player::of_pictures(clip(4, 8.0));
        batch.toggle();
        assert_eq!((batch.tick(1.0), batch.is_playing()), (None, false));
        batch.step(-1);
        assert_eq!(batch.index(), 3);
        assert!(!batch.is_clip());
    }

    #[test]
    fn a_section_in_front_leaves_the_frame_that_is_looked_at() {
        let mut player = Player::new(clip(10, 8.0));
        player.show(3);
        player.grow(clip(25, 8.0), true);
        assert_eq!((player.len(), player.index()), (25, 18));
        player.grow(clip(40, 8.0), false);
        assert_eq!((player.len(), player.index()), (40, 18));
    }
}
