//! What the queue says on cards and in the status line, as whole sentences.
//!
//! What its panel says is in `ui/queue/words.rs`.

use std::path::Path;

use safelight_core::shown::one_line;
use safelight_core::units::duration_text;

/// Letters of a prompt by which a job is told from others.
const MAX_PROMPT: usize = 80;

pub(super) const NOT_SUSPENDED: &str = "the computer could not be suspended";
pub(super) const ALL_SAVED: &str = "All results are saved";

pub(super) const MODEL_GONE_ADVICE: &str = "Search for models again, or remove the job";
pub(super) const JOB_CHANGED: &str = "The job was changed";
pub(super) const STILL_OPENING: &str = "The picture is still being opened";
pub(super) const NO_FOLDER: &str = "no folder for results is known";
pub(super) const NO_FOLDER_ADVICE: &str = "Choose one in the settings";
pub(super) const OTHER_FOLDER_ADVICE: &str = "Choose another folder in the settings";

pub(super) const CANCELLED: &str = "Cancelled; Ctrl+Z puts it back";
pub(super) const CANCELLED_KEPT: &str = "Cancelled; what was made is kept";
pub(super) const PAUSED: &str = "Paused; it can be resumed";
pub(super) const FAILED: &str = "The last job failed";
pub(super) const CANCEL_A_JOB: &str = "cancel a job";
pub(super) const WORKER_ENDED: &str = "the worker of this window has ended";
pub(super) const NO_FRAMES: &str = "the finished job came without frames";

// What comes behind the last job.
pub(super) const DO_NOTHING: &str = "Do nothing";
pub(super) const QUIT: &str = "Quit Safelight";
pub(super) const SUSPEND: &str = "Suspend the computer";

// The queue on the disk.
pub(super) const NOT_KEPT: &str = "The jobs of this window are lost when it closes";
pub(super) const OTHER_WINDOW: &str = "another Safelight window already keeps the queue";
pub(super) const MAKE_ROOM_FOR_QUEUE: &str =
    "Waiting jobs are lost when Safelight closes. Free some space, or make the folder writable";

pub(super) fn job_unread(why: &str) -> String {
    format!("one job of the queue could not be read: {why}")
}

pub(super) fn jobs_unread(count: usize, first: &str) -> String {
    format!("{count} jobs of the queue could not be read, the first: {first}")
}

pub(super) fn kept_as(copy: &Path) -> String {
    format!("The file is kept as {}", copy.display())
}

pub(super) fn old_queue_not_copied(why: &dyn std::fmt::Display) -> String {
    format!(
        "The jobs of this window are lost when it closes, because the old file could not be copied ({why})"
    )
}

pub(super) fn queue_not_written(why: &dyn std::fmt::Display, path: &Path) -> String {
    format!("the queue could not be saved ({why}): {}", path.display())
}

pub(super) fn suspend_failed(program: &str, why: &str) -> String {
    format!("{program} suspend: {why}")
}

pub(super) fn program_failed(program: &str, why: &dyn std::fmt::Display) -> String {
    format!("{program}: {why}")
}

pub(super) fn model_gone(model: &str) -> String {
    format!("the model of this job is not here: {model}")
}

pub(super) fn folder_not_made(folder: &Path, why: &dyn std::fmt::Display) -> String {
    let folder = folder.display();
    format!("the folder for results cannot be made ({why}): {folder}")
}

pub(super) fn done_in(secs: f64) -> String {
    format!("Done in {}", duration_text(secs))
}

pub(super) fn cancelled(prompt: &str) -> String {
    if prompt.is_empty() {
        return "Cancelled".to_owned();
    }
    format!("Cancelled: {prompt}")
}

/// Of which job a card tells.
pub(super) fn of_job(prompt: &str) -> String {
    match &*one_line(prompt, MAX_PROMPT) {
        "" => "The job without a prompt".to_owned(),
        line => format!("The job: {line}"),
    }
}

pub(super) fn file_is(path: &Path) -> String {
    format!("The file is {}", path.display())
}

pub(super) fn reopen(log: Option<&Path>) -> String {
    match log.map(Path::display) {
        None => "Close Safelight and open it again: the queue is kept".to_owned(),
        Some(log) => {
            format!("Close Safelight and open it again: the queue is kept; the log says why: {log}")
        }
    }
}

/// The undo history's name for it.
pub(super) fn remove(count: usize) -> String {
    match count {
        1 => "remove a job".to_owned(),
        count => format!("remove {count} jobs"),
    }
}

pub(super) fn removed(prompt: &str) -> String {
    format!("Removed from the queue: {prompt}")
}

pub(super) fn several_removed(count: usize) -> String {
    format!("{count} jobs were removed from the queue")
}

pub(super) fn jobs_added(count: usize) -> String {
    match count {
        1 => "1 job was added to the queue".to_owned(),
        count => format!("{count} jobs were added to the queue"),
    }
}

/// So many of all files could not be used.
pub(super) fn files_unused(count: usize, all: usize) -> String {
    match (count, all) {
        (count, all) if count == all => format!("none of the {all} files could be used"),
        (1, all) => format!("one of {all} files could not be used"),
        (count, all) => format!("{count} of {all} files could not be used"),
    }
}

pub(super) fn and_more(count: usize) -> String {
    format!("and {count} more")
}

// Grids.
pub(super) const SHEET_ADVICE: &str = "Click a cell to open that result";
pub(super) const SHOW_SHEET: &str = "Show";
pub(super) const SHOW_SHEET_EXPLAINED: &str = "Look at the contact sheet";

pub(super) fn sheet_made(grid: &str) -> String {
    format!("the contact sheet of the {grid} is saved beside the results")
}

pub(super) fn sheet_not_made(grid: &str) -> String {
    format!("The {grid} has no contact sheet. Its results are saved")
}

pub(super) fn correct(is_prompt: bool) -> &'static str {
    if is_prompt {
        "Nothing was added to the queue. Correct the prompt, then press Generate again"
    } else {
        "Nothing was added to the queue. Correct this in the form, then press Generate again"
    }
}
