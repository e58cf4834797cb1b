//! Why a file could not be fetched: one sentence each.

use safelight_core::units::size_text;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum DownloadError {
    #[error("the server did not answer ({reason}): {url}")]
    Unreachable { reason: String, url: String },
    #[error("the server leads astray ({reason}), so nothing is fetched from it: {url}")]
    Astray { reason: String, url: String },
    #[error(
        "expected a file of {expected} bytes, but the server has one of {found} bytes, so it is another file: {url}"
    )]
    OtherSize {
        expected: u64,
        found: u64,
        url: String,
    },
    #[error("expected the file from the server, found the answer {status}: {url}")]
    Status { status: u16, url: String },
    #[error(
        "this file is given only to those who have agreed to its licence: agree on the model's page, make a token there, and set HF_TOKEN to it: {url}"
    )]
    Gated { url: String },
    #[error("there is no such file on the server: {url}")]
    NotThere { url: String },
    #[error("the server does not say how large the file is: {url}")]
    NoSize { url: String },
    #[error(
        "the file on the server changed while it was fetched; start again to get the new one: {url}"
    )]
    Changed { url: String },
    #[error("expected bytes {expected} from the server, found {found}: {url}")]
    WrongPart {
        expected: String,
        found: String,
        url: String,
    },
    #[error(
        "the connection broke too often ({reason}); what has come is kept, start again to go on: {url}"
    )]
    Broken { reason: String, url: String },
    #[error(
        "the file was damaged on its way and is deleted: expected the checksum {expected}, found {found}; start again: {url}"
    )]
    Damaged {
        expected: String,
        found: String,
        url: String,
    },
    #[error("expected {} of free space, found {}: {}", size_text(*expected), size_text(*found), path.display())]
    NoSpace {
        expected: u64,
        found: u64,
        path: PathBuf,
    },
    #[error(
        "expected a file of {expected} bytes or none, found another of {found} bytes; move it away to fetch this one: {}",
        path.display()
    )]
    Occupied {
        expected: u64,
        found: u64,
        path: PathBuf,
    },
    #[error("this file is being fetched already, by another window or program: {}", path.display())]
    Held { path: PathBuf },
    #[error("cannot write the file ({source}): {}", path.display())]
    Disk { source: io::Error, path: PathBuf },
}

impl DownloadError {
    pub(super) fn disk(source: io::Error, path: &Path) -> Self {
        Self::Disk {
            source,
            path: path.to_owned(),
        }
    }

    /// Whether the same request may well work in a moment.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::WrongPart { .. } => true,
            Self::Status { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            _ => false,
        }
    }

    /// What broke, as part of a sentence.
    pub(super) fn reason(self) -> String {
        match self {
            Self::Unreachable { reason, .. } => reason,
            Self::Status { status, .. } => format!("the answer {status}"),
            Self::WrongPart {
                expected, found, ..
            } => {
                format!("expected bytes {expected}, found {found}")
            }
            err => err.to_string(),
        }
    }
}
