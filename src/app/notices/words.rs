//! What cards say that no other part has words for, as whole sentences.

pub(super) const RESUME: &str = "Resume";
pub(super) const RESUME_EXPLAINED: &str =
    "Continue where it stopped: what was finished is kept for a week";
pub(super) const TRY_AGAIN: &str = "Try again";
pub(super) const TRY_AGAIN_EXPLAINED: &str = "Start over from the beginning";
pub(super) const OPEN_QUEUE: &str = "Open the queue";
pub(super) const OPEN_QUEUE_EXPLAINED: &str = "The job is there among the stopped ones";
pub(super) const UNDO: &str = "Undo";
pub(super) const UNDO_EXPLAINED: &str =
    "Bring it back as it was (Ctrl+Z takes back what was done last)";

pub(super) fn values_changed(count: usize, model: &str) -> String {
    format!("{count} values were changed to what {model} can make")
}
