//! What the doctor's page says around the checks, whose own sentences are [`crate::doctor`]'s.
//!
//! Whole sentences, so that they can be translated one by one.

use crate::doctor::Status;

pub const TITLE: &str = "Doctor";
pub const CLOSE: &str = "Close the doctor";
pub const BACK: &str = "Back to the picture (Escape)";
pub const EXAMINE: &str = "Examine again";
pub const EXAMINE_HOVER: &str = "Takes a few seconds, while the GPU and the disk are measured";
pub const COPY: &str = "Copy as text";
pub const COPY_ALL_HOVER: &str = "Copy all of this, for a bug report";
pub const MAKE: &str = "Make a report";
pub const MAKE_HOVER: &str = "Measure this machine for up to ten minutes and write a page about it, without names and folders. Nothing is sent";
pub const MAKE_NOT_NOW: &str = "A report measures this machine: it waits until no job runs";
pub const BEGINS: &str = "Looking at this machine";
pub const STOP: &str = "Cancel";
pub const STOP_HOVER: &str = "Measure no more. What was measured until now is kept";
pub const STOPPING: &str = "Writing down what was measured…";
pub const MADE: &str =
    "The report is there. Nothing was sent: read it before you give it to anybody";
pub const MADE_IN_PART: &str = "The report was stopped: what was measured until then is there";
pub const OPEN: &str = "Open";
pub const OPEN_HOVER: &str = "Open the page in your browser";
pub const SHOW_FOLDER: &str = "Show folder";
pub const SHOW_FOLDER_HOVER: &str = "Open the folder with the page and its figures as JSON";
pub const EXAMINING: &str = "Examining…";
pub const ATTENTION: &str = "Show only what needs attention";
pub const CLEAR: &str = "Clear";
pub const CLEAR_NAME: &str = "Clear MIOpen's cache";
pub const CLEAR_HOVER: &str = "Delete it. MIOpen makes it again when it is needed";
pub const COPY_HOVER: &str = "Copy this command for a terminal";

pub fn copy_command(command: &str) -> String {
    format!("Copy command {command}")
}

/// What the sign of a check says.
pub fn verdict(status: Status) -> &'static str {
    match status {
        Status::Ok => "Fine",
        Status::Warn => "Note",
        Status::Fail => "Problem",
    }
}

/// How many checks came out so.
pub fn count(status: Status, count: usize) -> String {
    match (status, count) {
        (Status::Ok, count) => format!("{count} fine"),
        (Status::Warn, 1) => "1 note".to_owned(),
        (Status::Warn, count) => format!("{count} notes"),
        (Status::Fail, 1) => "1 problem".to_owned(),
        (Status::Fail, count) => format!("{count} problems"),
    }
}
pub(super) const MIOPEN_CACHE: &str = "MIOpen cache";

/// What is measured now.
pub fn measuring(what: &str) -> String {
    format!("Making a report: {what}")
}
