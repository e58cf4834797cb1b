//! What the doctor's page says around the checks, whose own sentences are [`crate::doctor`]'s.
//!
//! Whole sentences, so that they can be translated one by one.

use crate::doctor::Status;

pub const TITLE: &str = "Doctor";
pub const CLOSE: &str = "Close the doctor";
pub const BACK: &str = "Back to the picture (Escape)";
pub const EXAMINE: &str = "Examine again";
pub const EXAMINE_HOVER: &str = "Takes a few seconds, while the GPU and the disk are measured";
pub const REPORT: &str = "Copy report";
pub const REPORT_HOVER: &str = "Copy all of this as text, for a bug report";
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
