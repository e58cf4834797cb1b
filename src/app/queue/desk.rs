//! What the queue's panel remembers, and what the background threads tell it.

use std::path::PathBuf;
use std::sync::Arc;

use egui::{ColorImage, Context};
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::media::Picture;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::app::inputs::opening::OpenedInput;
use crate::app::queue::after::{AfterQueue, Countdown, Suspend, suspend};
use crate::app::queue::editing::Editing;
use crate::app::queue::keeping::{Keeping, Restored};
use crate::app::queue::list::Removed;
use crate::app::queue::several::{Opening, Several};
use crate::app::queue::thumbs::Thumbs;

/// What is remembered of the panel across runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuePanel {
    pub is_open: bool,
}

/// Where the panel stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PanelPlace {
    #[default]
    Nowhere,
    /// At the right of what is watched, or of another page.
    Beside,
    /// Over it, where there is no room for both and somebody asked for it.
    Over,
}

/// What is known of the queue until the window closes, beside the jobs.
pub struct QueueDesk {
    pub thumbs: Thumbs,
    pub(in crate::app) keeping: Keeping,
    /// Whose file name is looked for.
    pub(in crate::app) naming: Option<JobId>,
    /// The job whose settings are in the form.
    pub editing: Option<Editing>,
    /// What was taken out last, to be put back.
    pub removed: Vec<Removed>,
    /// Files that came together: what they are for is asked.
    pub several: Option<Several>,
    /// Pictures on their way to become a job each.
    pub opening: Vec<Opening>,
    /// How many there were: the last one's number.
    pub(super) num_openings: u64,
    /// Where there is no room for it beside what is looked at, it lies over that.
    pub is_over: bool,
    /// Where it stood in the last frame.
    pub place: PanelPlace,
    /// Whoever has closed the panel does not want it to open by itself.
    pub was_closed: bool,
    /// What happens when all is done.
    pub after: AfterQueue,
    pub countdown: Option<Countdown>,
    /// A job has ended since `after` was chosen.
    pub has_worked: bool,
    /// Sends the machine to sleep; runs on a thread of its own.
    pub suspend: Suspend,
}

impl Default for QueueDesk {
    fn default() -> Self {
        Self {
            thumbs: Thumbs::default(),
            keeping: Keeping::default(),
            naming: None,
            editing: None,
            removed: Vec::new(),
            several: None,
            opening: Vec::new(),
            num_openings: 0,
            is_over: false,
            place: PanelPlace::default(),
            was_closed: false,
            after: AfterQueue::default(),
            countdown: None,
            has_worked: false,
            suspend: Arc::new(suspend),
        }
    }
}

impl QueueDesk {
    pub fn edited(&self) -> Option<JobId> {
        self.editing.as_ref().map(|editing| editing.id)
    }
}

/// What the background threads tell of the queue.
pub enum QueueAnswer {
    /// What was kept of the last run.
    Restored(Box<Restored>),
    /// The file is written, or why not.
    Written(Option<JobError>),
    /// A row's picture.
    Thumb(PathBuf, Picture),
    ThumbsEnded,
    /// One of several files that become a job each, with the number of their opening.
    Opened(u64, PathBuf, Result<Box<OpenedInput>, JobError>),
    OpeningEnded(u64),
    /// The next small picture of a result.
    ResultThumb(JobId, ColorImage),
}

impl App {
    pub(in crate::app) fn take_queue_answer(&mut self, ctx: &Context, answer: QueueAnswer) {
        match answer {
            QueueAnswer::Restored(restored) => self.restore_queue(*restored),
            QueueAnswer::Written(problem) => self.end_writing(problem),
            QueueAnswer::Thumb(path, picture) => {
                self.session.queue.thumbs.put(ctx, &path, &picture);
            }
            QueueAnswer::ThumbsEnded => self.session.queue.thumbs.end(),
            QueueAnswer::Opened(number, path, opened) => {
                self.take_opened(ctx, number, &path, opened);
            }
            QueueAnswer::OpeningEnded(number) => self.end_opening(number),
            QueueAnswer::ResultThumb(id, image) => self.take_result_thumb(ctx, id, image),
        }
    }

    /// What of the queue's own is to be done between two frames.
    pub(in crate::app) fn tend_queue(&mut self, ctx: &Context) {
        self.name_next_output();
        self.open_thumbs();
        self.keep_queue(ctx);
        self.watch_end(ctx);
    }
}

/// Nothing can be kept without a folder for results.
pub(in crate::app) fn no_folder() -> JobError {
    JobError::new(JobErrorKind::Disk, "no folder for results is known")
        .advise("Choose one in the settings")
}
