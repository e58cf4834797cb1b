//! What the stack of cards says itself, as whole sentences.

pub(super) const CLOSE_ALL: &str = "Close all";
pub(super) const CLOSE_ALL_EXPLAINED: &str = "Close all notices";
pub(super) const DISMISS: &str = "Dismiss";
pub(super) const DISMISS_EXPLAINED: &str = "Close this notice";
pub(super) const COPY_DETAILS: &str = "Copy details";
pub(super) const COPY_DETAILS_EXPLAINED: &str = "For a bug report";

pub(super) fn count(all: usize, unseen: usize) -> String {
    match unseen {
        0 => format!("{all} notices"),
        unseen => format!("{all} notices, {unseen} more below"),
    }
}
