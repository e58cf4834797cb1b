//! What the queue's panel, its buttons and its questions say, as whole sentences.
//!
//! What the queue tells on cards is in `app/queue/words.rs`.

use std::path::Path;

use safelight_core::units::duration_text;

use crate::app::queue::grids::GridProgress;

pub(super) const NO_MODEL: &str = "There is no model yet";

pub(super) const EDITING: &str = "You are editing a job of the queue";
pub(super) const CANCEL_EDIT: &str = "Cancel edit";
pub(super) const CANCEL_EDIT_EXPLAINED: &str =
    "Back to what was in the form before. The job stays as it was";
pub(super) const SAVE_JOB: &str = "Save as this job";
pub(super) const SAVE_JOB_EXPLAINED: &str =
    "The job keeps its place in the queue and starts over with these settings";

pub(super) const IS_PAUSED: &str = "The queue is paused";
pub(super) const RESUME_QUEUE: &str = "Resume the queue";
pub(super) const RESUME_QUEUE_EXPLAINED: &str = "Start the waiting jobs, one after the other";
/// The icon in the panel, as a screen reader tells it from the button in the form.
pub(super) const START_QUEUE: &str = "Start the queue";
pub(super) const PAUSE_QUEUE: &str = "Pause the queue";
pub(super) const PAUSE_QUEUE_EXPLAINED: &str = "Start no further job. The running one stops at its last finished stage or saved step, frees the memory, and resumes from there";
pub(super) const PAUSE_AFTER: &str = "Pause after this job";
pub(super) const PAUSE_AFTER_EXPLAINED: &str =
    "The running job finishes; the next one waits until you resume the queue";
pub(super) const PAUSE_AFTER_DISABLED: &str = "No job is running, or the queue is paused";

pub(super) const PAUSE_JOB: &str = "Pause this job";
pub(super) const PAUSING: &str = "Pausing…";
pub(super) const PAUSE_JOB_EXPLAINED: &str = "Stop it and free the memory. What is finished is kept, and it can be resumed from there. Waiting jobs continue";
pub(super) const CANCEL: &str = "Cancel";
pub(super) const CANCELLING: &str = "Cancelling…";
pub(super) const WAITING_FOR_MEMORY: &str = "Waiting for memory";
pub(super) const CANCEL_EXPLAINED: &str = "Stop the running job for good. Whole sections of a clip are kept, unfinished pictures are not. Waiting jobs continue";

pub(super) const QUEUE: &str = "Queue";
pub(super) const CLOSE: &str = "Close the queue";
pub(super) const CLOSE_EXPLAINED: &str = "The jobs continue";
pub(super) const CLEAR_ALL: &str = "Clear all";
pub(super) const CLEAR_ALL_EXPLAINED: &str =
    "Remove all waiting and stopped jobs. The running one continues. Ctrl+Z brings them back";
pub(super) const RESUME: &str = "Resume";
pub(super) const RESUME_HELD_EXPLAINED: &str = "Start them, one after the other";
pub(super) const CLEAR: &str = "Clear";
pub(super) const CLEAR_HELD_EXPLAINED: &str = "Remove them from the queue. Ctrl+Z brings them back";
pub(super) const STOP_OPENING: &str = "Stop opening files";
pub(super) const STOP_OPENING_EXPLAINED: &str =
    "Open no more of them. Those in the queue stay there";
pub(super) const FILES_OPENED: &str = "Files opened";
pub(super) const NO_OTHER_JOB: &str = "No other job is waiting";
pub(super) const NO_JOB: &str =
    "No job is waiting. Press Generate as often as you like, or drop several pictures at once";
pub(super) const STOPPED_EXPLAINED: &str = "Jobs that were interrupted come first, those that failed or were paused come after the waiting ones";
pub(super) const THEN: &str = "Then";
pub(super) const THEN_EXPLAINED: &str = "What happens after the last job. You have half a minute to stop it; it applies until Safelight is closed";

pub(super) const STARTING_ENGINE: &str = "Starting the engine…";
pub(super) const REMOVE_WAITING_EXPLAINED: &str = "Remove it from the queue (Delete)";
pub(super) const REMOVE_STOPPED_EXPLAINED: &str =
    "Remove it from the queue (Delete). What is finished of it is kept for a week in its folder";
pub(super) const MORE_WAITING: &str = "Move, edit or duplicate it";
pub(super) const MORE_STOPPED: &str = "Edit or duplicate it";
pub(super) const RESUME_EXPLAINED: &str = "Continue where it stopped";
pub(super) const TRY_AGAIN: &str = "Try again";
pub(super) const TRY_AGAIN_EXPLAINED: &str = "Start over from the beginning";
pub(super) const TO_TOP: &str = "Move to the top";
pub(super) const UP: &str = "Move up";
pub(super) const DOWN: &str = "Move down";
pub(super) const EDIT: &str = "Edit";
pub(super) const DUPLICATE: &str = "Duplicate";
pub(super) const REMOVE: &str = "Remove";
pub(super) const IS_EDITED: &str = "Its settings are in the form";
pub(super) const WILL_RESUME: &str = "Resumes where it stopped";
pub(super) const FROM_LAST_TIME: &str = "From last time";

pub(super) const CANCEL_GRID_EXPLAINED: &str = "Cancel the whole grid: its running job stops, the waiting ones leave the queue, and the contact sheet shows what is finished. Ctrl+Z brings the waiting ones back (Delete)";
pub(super) const SHOW_JOBS_EXPLAINED: &str = "Show the jobs of the grid, or fold them away";

pub(super) const FAILED: &str = "Failed";
pub(super) const PAUSED: &str = "Paused";
pub(super) const INTERRUPTED: &str = "Interrupted";

pub(super) const STAY_AWAKE: &str = "Stay awake";
pub(super) const STAY_OPEN: &str = "Stay open";
pub(super) const NOTHING_WITH_FILES: &str = "Use none of them";

/// The main button.
pub(super) fn generate(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, _) => "Generate".to_owned(),
        (count, true) => format!("Generate {count} pictures"),
        (count, false) => format!("Generate {count} clips"),
    }
}

/// What the main button does.
pub(super) fn generate_explained(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, true) => "Make the picture".to_owned(),
        (1, false) => "Make the clip".to_owned(),
        (count, true) => format!("Make {count} pictures"),
        (count, false) => format!("Make {count} clips"),
    }
}

/// The same while another job runs.
pub(super) fn add_explained(count: usize, makes_pictures: bool) -> String {
    match (count, makes_pictures) {
        (1, true) => "Add another picture to the queue, after the running job".to_owned(),
        (1, false) => "Add another clip to the queue, after the running job".to_owned(),
        (count, true) => format!("Add {count} pictures to the queue, after the running job"),
        (count, false) => format!("Add {count} clips to the queue, after the running job"),
    }
}

/// What stands behind the button that opens the panel.
pub(super) fn header(num_waiting: usize, num_stopped: usize) -> String {
    match (num_waiting, num_stopped) {
        (0, 0) => "Running and waiting jobs".to_owned(),
        (waiting, 0) => format!("Running and waiting jobs: {waiting} waiting"),
        (waiting, stopped) => {
            format!("Running and waiting jobs: {waiting} waiting, {stopped} stopped")
        }
    }
}

pub(super) fn held(count: usize) -> String {
    match count {
        1 => "1 job is left from last time".to_owned(),
        count => format!("{count} jobs are left from last time"),
    }
}

pub(super) fn opening(number: usize, all: usize) -> String {
    format!("Opening {number} of {all} files…")
}

pub(super) fn waiting(count: usize) -> String {
    format!("Waiting ({count})")
}

pub(super) fn stopped(count: usize) -> String {
    format!("Stopped ({count})")
}

pub(super) fn secs_left(secs: f64) -> String {
    format!("about {} left", duration_text(secs.max(1.0)))
}

pub(super) fn running_job(prompt: &str) -> String {
    format!("Running: {prompt}")
}

pub(super) fn waiting_job(place: usize, prompt: &str) -> String {
    format!("{place}. {prompt}")
}

pub(super) fn stopped_job(word: &str, prompt: &str) -> String {
    format!("{word}. {prompt}")
}

/// Why a job stopped, and more on that.
pub(super) fn stopped_why(word: &str, why: &str) -> String {
    format!("{word}: {why}")
}

/// Why a job stopped, and how far it is.
pub(super) fn stopped_at(word: &str, progress: &str) -> String {
    format!("{word}, {progress}")
}

pub(super) fn remove(prompt: &str) -> String {
    format!("Remove from queue: {prompt}")
}

pub(super) fn more(prompt: &str) -> String {
    format!("More for: {prompt}")
}

pub(super) fn resume(prompt: &str) -> String {
    format!("Resume: {prompt}")
}

pub(super) fn try_again(prompt: &str) -> String {
    format!("Try again: {prompt}")
}

pub(super) fn missing(first: &str, count: usize) -> String {
    match count {
        1 => format!("{first} is missing"),
        count => format!("{first} and {} more are missing", count - 1),
    }
}

pub(super) fn missing_file(path: &Path) -> String {
    format!("This file is missing: {}", path.display())
}

pub(super) fn percent(share: f32) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Length of what a job makes: of pictures their number.
pub(super) fn pictures(count: u32) -> String {
    match count {
        0 | 1 => "picture".to_owned(),
        count => format!("{count} pictures"),
    }
}

/// `Little World · 256×256 · 2.1 s`.
pub(super) fn short_facts(model: &str, (width, height): (u32, u32), length: &str) -> String {
    format!("{model} · {width}×{height} · {length}")
}

pub(super) fn facts(short: &str, seed: u64, num_steps: u32) -> String {
    match num_steps {
        1 => format!("{short} · seed {seed} · 1 step"),
        steps => format!("{short} · seed {seed} · {steps} steps"),
    }
}

pub(super) fn files_at_once(count: usize) -> String {
    format!("{count} files at once")
}

pub(super) fn files_explained(makes_pictures: bool) -> &'static str {
    if makes_pictures {
        "Each can become a picture of its own, with the settings of the form and a size that fits it."
    } else {
        "Each can become a clip of its own, with the settings of the form and a size that fits it."
    }
}

pub(super) fn job_for_each(count: usize) -> String {
    format!("Make {count} jobs, one for each")
}

/// `takes`: the form has places for so many of the files.
pub(super) fn into_form(takes: usize, count: usize) -> String {
    match (takes, count) {
        (1, _) => "Put only the first into the form".to_owned(),
        (2, 2) => "Put both into the form".to_owned(),
        (2, _) => "Put the first two into the form".to_owned(),
        _ => format!("Put the first {takes} into the form"),
    }
}

pub(super) fn suspends_in(secs: u32) -> String {
    format!("The computer goes to sleep in {secs} s")
}

pub(super) fn quits_in(secs: u32) -> String {
    format!("Safelight quits in {secs} s")
}

pub(super) fn queue_done(num_stopped: usize) -> String {
    match num_stopped {
        0 => "The queue is done, and every result is saved.".to_owned(),
        1 => "The queue is done except for 1 stopped job, which is kept for the next start."
            .to_owned(),
        count => format!(
            "The queue is done except for {count} stopped jobs, which are kept for the next start."
        ),
    }
}

/// What a grid with waiting jobs still has to do.
pub(super) fn grid_left(
    (columns, rows): (usize, usize),
    num_waiting: usize,
    progress: &GridProgress,
) -> String {
    let made = progress.num_made;
    match progress.num_failed {
        0 => format!("{columns} × {rows} grid · {num_waiting} waiting, {made} done"),
        failed => {
            format!("{columns} × {rows} grid · {num_waiting} waiting, {made} done, {failed} failed")
        }
    }
}

pub(super) fn waiting_grid(grid: &str, prompt: &str) -> String {
    format!("{grid}: {prompt}")
}

pub(super) fn cancel_grid(prompt: &str) -> String {
    format!("Cancel the grid: {prompt}")
}

pub(super) fn show_jobs_of_grid(prompt: &str) -> String {
    format!("Jobs of the grid: {prompt}")
}

/// The running job is a cell of a grid; `what` it does now.
pub(super) fn cell(number: usize, all: usize, what: &str) -> String {
    format!("Cell {number} of {all}: {what}")
}
