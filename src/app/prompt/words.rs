//! What is said of remembered prompts and of wildcard files, as whole sentences.

use std::path::Path;

pub(super) const HISTORY_UNCHANGED: &str = "the list of earlier prompts was not changed";
pub(super) const NOT_REMEMBERED: &str = "the prompt could not be added to the earlier prompts";
pub(super) const NO_WILDCARDS: &str = "there is no folder for wildcard files";
pub(super) const CHOOSE_WILDCARDS: &str = "Choose one in the settings";
pub(super) const OTHER_WILDCARDS: &str = "Choose another folder in the settings";

pub(super) fn make_writable(path: &Path) -> String {
    format!("Make this file writable: {}", path.display())
}

pub(super) fn wildcards_not_made(folder: &Path) -> String {
    format!(
        "the folder for wildcard files could not be made: {}",
        folder.display()
    )
}
