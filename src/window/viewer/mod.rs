//! The viewer: the running job, a result, a file or a comparison, and its playback.
//!
//! Timing: [`playhead`]; frames of files: `reading`. The panels are in `ui::watch`.

pub(super) mod commands;
pub mod compare;
mod export;
mod media;
pub mod panel;
pub mod playhead;
mod reading;
mod showing;
mod sound;
pub mod texture;
mod window;
pub mod zoom;

use egui::ViewportCommand;
use safelight_core::media::{ExportedVideo, VideoExport};

use compare::ResultComparison;
pub use media::{FramePlayer, ViewedMedia};
pub use playhead::{PlaybackOptions, PlaybackPosition, RepeatMode, SPEEDS, SoundVolume};
pub use sound::ViewerSound;
use texture::ViewerTexture;
use zoom::ZoomLevel;

use crate::window::prelude::*;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewerMode {
    #[default]
    Live,
    Result(JobId),
    File,
    Compare,
}

#[derive(Default)]
pub struct ResultViewer {
    pub mode: ViewerMode,
    /// Of a result or a file; kept during a comparison.
    pub player: Option<FramePlayer>,
    pub compare: Option<ResultComparison>,
    pub texture: ViewerTexture,
    /// Latents of the running job, while its video so far plays.
    pub inset: ViewerTexture,
    pub zoom: ZoomLevel,
    pub is_full: bool,
    full: FullScreen,
    pub playback: PlaybackOptions,
    /// Of the player.
    pub sound: ViewerSound,
    /// An input image that is shown because it was put into the form.
    input: Option<PathBuf>,
    /// A file that is shown because a job has made it.
    made: Option<PathBuf>,
    /// The user chose what is shown; the next job does not replace it.
    is_chosen: bool,
    /// The job that ran in the last frame.
    running: Option<JobId>,
    /// A new video plays until this time, also while the next job runs; then that job is shown.
    live_at: Option<f64>,
    /// The file that was shown when it went to the trash.
    thrown: Option<PathBuf>,
    opening: Option<OpeningMedia>,
    /// The mode that a comparison returns to.
    before_compare: ViewerMode,
    /// Number of a saved frame, from 1, and its file.
    saving: BackgroundTask<Result<(usize, PathBuf), MediaError>>,
    /// Progress as numbers of frames: so far, and of all.
    pub exporting: LongTask<(usize, usize), Result<Option<ExportedVideo>, MediaError>>,
    asking: BackgroundTask<Option<VideoExport>>,
    /// A first or last frame that is being read, and the slot that gets it.
    reading_end: BackgroundTask<Result<(InputSlot, RgbPixels, PathBuf), MediaError>>,
}

struct OpeningMedia {
    /// The first one.
    path: PathBuf,
    files: BackgroundTask<Result<Vec<FramePlayer>, JobError>>,
}

impl ResultViewer {
    pub fn new(playback: PlaybackOptions, volume: SoundVolume) -> Self {
        Self {
            playback,
            sound: ViewerSound::new(volume),
            ..Self::default()
        }
    }

    /// Name of the file that is being opened.
    pub fn opening(&self) -> Option<String> {
        self.opening
            .as_ref()
            .map(|opening| file_name(&opening.path))
    }

    /// `None` for a running job and a comparison.
    pub fn media(&self) -> Option<&ViewedMedia> {
        let is_one = matches!(self.mode, ViewerMode::Result(_) | ViewerMode::File);
        let player = self.player.as_ref().filter(|_| is_one)?;
        Some(&player.media)
    }

    /// Index in the batch of the image that is shown; 0 for everything else.
    pub fn batch_index(&self) -> usize {
        let player = self.player.as_ref().filter(|player| !player.can_play());
        player.map_or(0, FramePlayer::index)
    }
}

#[derive(Default)]
struct FullScreen {
    is_on: bool,
    /// The window had the whole screen before, and keeps it.
    was_before: bool,
    /// The desktop has made the window that large.
    is_seen: bool,
}

impl FullScreen {
    /// Changes the window as needed. Returns whether the image still has the whole screen: the desktop's keys can end
    /// that, and so does another page.
    fn follow(&mut self, is_wanted: bool, cx: &AppContext) -> bool {
        let is_wanted = is_wanted && cx.page == MainPage::Watch;
        let has_screen = cx.ctx.input(|input| input.viewport().fullscreen);
        if is_wanted == self.is_on {
            let is_ended = self.is_seen && has_screen == Some(false);
            self.is_seen |= self.is_on && has_screen == Some(true);
            if is_ended {
                *self = Self::default();
            }
            return self.is_on;
        }
        self.is_on = is_wanted;
        self.is_seen = false;
        if is_wanted {
            self.was_before = has_screen == Some(true);
        }
        if !self.was_before {
            let command = ViewportCommand::Fullscreen(is_wanted);
            cx.ctx.send_viewport_cmd(command);
        }
        is_wanted
    }
}
