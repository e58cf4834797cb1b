//! What those parts of the app say that are one file: the form, undo, the doctor and downloads.

use std::path::Path;

use safelight_core::units::size_text;

pub(super) const DEFAULTS_USED: &str =
    "The defaults are used until you correct the file. Safelight does not change it";

// Work on files.
pub(super) const TRY_IN_A_MOMENT: &str = "Try again in a moment";

/// `undone`: what was not done, as a sentence.
pub(super) fn files_busy(undone: &str) -> String {
    format!("{undone}: files are busy")
}

// The form and the undo history.
pub(super) const RESET_FORM: &str = "reset the form";
pub(super) const CLEAR_FORM: &str = "clear the form";
pub(super) const TAKE_BACK_PRESET: &str = "take back a preset";
pub(super) const APPLY_PRESET: &str = "apply a preset";
pub(super) const NOTHING_TO_UNDO: &str = "There is nothing to undo";
pub(super) const FORM_IS_EMPTY: &str = "The form is empty";
pub(super) const FORM_OF_ANOTHER: &str =
    "the form now holds the settings of another job, so it was not changed";

pub(super) fn undone(name: &str) -> String {
    format!("Undone: {name}")
}

pub(super) fn too_many_lines(num_lines: usize, most: usize) -> String {
    format!("{num_lines} lines are too many: one prompt per line makes at most {most} jobs")
}

// The doctor.
pub(super) fn cache_cleared(bytes: u64) -> String {
    format!("MIOpen's cache is cleared: {} freed", size_text(bytes))
}

pub(super) fn cache_not_cleared(why: &str) -> String {
    format!("MIOpen's cache cannot be cleared: {why}")
}

// Reports.
pub(super) const REPORT_WAITS: &str = "A report measures this machine: wait until no job runs";
pub(super) const NO_BROWSER: &str = "The report cannot be opened here";

pub(super) fn page_is(page: &Path) -> String {
    format!("Its page is {}", page.display())
}

// Finishing.
pub(super) const NOT_FINISHED: &str = "The job was not put into the queue";
pub(super) const NO_RESULT_FOLDER: &str = "There is no folder for results";

/// `title`: what is done with what, `Upscale ×2: boat.mp4`.
pub(super) fn queued(title: &str) -> String {
    format!("Queued: {title}")
}

pub(super) fn result_folder_not_made(folder: &Path) -> String {
    format!(
        "The folder for results cannot be made ({})",
        folder.display()
    )
}

// Downloads.
pub(super) const MODEL_STAYS: &str = "The form keeps the model that you are using";
pub(super) const SWITCH: &str = "Switch to it";
pub(super) const SWITCH_EXPLAINED: &str =
    "Your prompt stays; the other values become this model's defaults";

pub(super) fn downloaded(model: &str) -> String {
    format!("{model} is downloaded")
}

pub(super) fn ready(model: &str) -> String {
    format!("{model} is ready")
}

pub(super) fn no_model(wanted: &str) -> String {
    format!("there is no model {wanted:?} on this machine")
}
