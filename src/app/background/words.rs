//! What is said where work on files or another program fails, as whole sentences.

use std::fmt::Display;
use std::path::Path;

/// Said where a decoder did not survive a file.
pub(in crate::app) const NOT_SURVIVED: &str = "the file is damaged and cannot be opened";
pub(super) const TRY_ANOTHER_FILE: &str = "Try another file. Nothing else is lost";
pub(super) const NO_DIALOG: &str = "this desktop has no file chooser";
pub(super) const INSTEAD_OF_DIALOG: &str =
    "Drop a file onto the window or type its path, or install xdg-desktop-portal or zenity";
pub(super) const NO_FILE_MANAGER: &str = "no file manager could be opened";
pub(super) const WORK_ENDED: &str = "the last action on a file was not finished";
pub(super) const DO_AGAIN: &str = "Do it again. The log says what went wrong";

pub(super) fn folder_is(folder: &Path) -> String {
    format!("The folder is {}", folder.display())
}

pub(super) fn not_opened(why: &dyn Display) -> String {
    format!("xdg-open: {why}")
}
