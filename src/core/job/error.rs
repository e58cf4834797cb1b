//! Why a job failed, in the terms of what its user can do about it.

use std::path::PathBuf;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::media::{MediaError, MediaErrorKind};
use crate::memory::ResourceFault;
use crate::model::{CatalogError, advice_for};
use crate::sanitize::one_line;

/// Characters of a sentence that names what a file says, such as a tensor.
const MAX_SUMMARY: usize = 1000;

/// Kind of a failure; decides the exit code and the colour, never the wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobErrorKind {
    /// An argument, a size, an image or an output path that cannot work.
    InvalidRequest,
    /// A model file is missing, truncated or not what it should be.
    BadModel,
    /// The device's memory (or the host's) did not suffice.
    OutOfMemory,
    Device,
    /// The engine process crashed, hung or was killed more often than a job may survive.
    EngineLost,
    /// The disk is full or a folder cannot be written.
    Disk,
    /// A server did not answer, or not as it should.
    Network,
    /// A fault of this program.
    Internal,
}

impl JobErrorKind {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::InvalidRequest => 2,
            Self::BadModel => 3,
            Self::OutOfMemory => 4,
            Self::Device | Self::EngineLost | Self::Disk | Self::Network | Self::Internal => 1,
        }
    }
}

/// A failed job's reason: one sentence, what to do, and the chain of causes for a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{summary}")]
pub struct JobError {
    pub kind: JobErrorKind,
    /// One sentence, no full stop.
    pub summary: String,
    /// May be empty.
    pub advice: String,
    /// The chain of causes, for the log and for "Copy details".
    pub details: String,
    /// Fault that another attempt with less memory may avoid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ResourceFault>,
    /// Folder with the finished parts of the job, from which it can resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

impl JobError {
    pub fn new(kind: JobErrorKind, summary: impl Into<String>) -> Self {
        Self {
            kind,
            summary: one_line(&summary.into(), MAX_SUMMARY).into_owned(),
            advice: String::new(),
            details: String::new(),
            fault: None,
            kept: None,
        }
    }

    /// A failure by an argument, a size, an image or an output path that cannot work.
    pub fn invalid(summary: impl Into<String>) -> Self {
        Self::new(JobErrorKind::InvalidRequest, summary)
    }

    /// A failure of a disk or of a file on it: what could not be done, and what helps against this cause.
    pub fn disk(what: impl fmt::Display, err: &io::Error) -> Self {
        Self::new(JobErrorKind::Disk, format!("{what}: {err}")).advise(disk_advice(err))
    }

    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    #[must_use]
    pub fn detail(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    #[must_use]
    pub fn with_fault(mut self, fault: Option<ResourceFault>) -> Self {
        self.fault = fault;
        self
    }

    #[must_use]
    pub fn keeping(mut self, folder: impl Into<PathBuf>) -> Self {
        self.kept = Some(folder.into());
        self
    }

    /// Failure of this kind with the error's sentence, and its chain of sources as details.
    pub fn from_error(kind: JobErrorKind, err: &dyn std::error::Error) -> Self {
        let mut details = err.to_string();
        let mut cause = err.source();
        while let Some(inner) = cause {
            details.push_str("\ncaused by: ");
            details.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::new(kind, err.to_string()).detail(details)
    }
}

pub fn disk_advice(err: &io::Error) -> &'static str {
    match err.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "Free some space or choose another folder"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "Choose a folder that this user may write to"
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            "Check that the file still exists"
        }
        io::ErrorKind::InvalidData => "Download or copy the file again",
        _ => "Check that the disk is connected and healthy",
    }
}

impl From<CatalogError> for JobError {
    fn from(err: CatalogError) -> Self {
        Self::from(&err)
    }
}

impl From<MediaError> for JobError {
    /// Of a file that cannot be read, or of a full disk.
    fn from(err: MediaError) -> Self {
        if err.kind == MediaErrorKind::DiskFull {
            let advice = "Free some space or choose another folder";
            return Self::from_error(JobErrorKind::Disk, &err).advise(advice);
        }
        Self::from_error(JobErrorKind::InvalidRequest, &err)
    }
}

impl From<&CatalogError> for JobError {
    fn from(err: &CatalogError) -> Self {
        Self::from_error(JobErrorKind::BadModel, err).advise(advice_for(err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_wants_space() {
        let advice = |kind: io::ErrorKind| disk_advice(&io::Error::from(kind));
        assert!(advice(io::ErrorKind::StorageFull).starts_with("Free some space"));
        for (kind, part) in [
            (io::ErrorKind::ReadOnlyFilesystem, "may write to"),
            (io::ErrorKind::PermissionDenied, "may write to"),
            (io::ErrorKind::IsADirectory, "still exists"),
            (io::ErrorKind::InvalidData, "again"),
            (io::ErrorKind::WouldBlock, "healthy"),
        ] {
            let advice = advice(kind);
            assert!(advice.contains(part), "{kind}: {advice}");
            assert!(!advice.contains("space"), "{kind}: {advice}");
        }
    }
}
