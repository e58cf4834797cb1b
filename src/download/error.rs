//! Why a file could not be fetched: one sentence each.

use safelight_core::units::size_text;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
pub enum DownloadError {
    #[error("the server did not answer ({reason}): {url}")]
    Unreachable { reason: String, url: String },
    #[error(
        "the server redirects to another place ({reason}), so nothing is downloaded from it: {url}"
    )]
    Astray { reason: String, url: String },
    #[error(
        "nobody whom this system trusts has signed the server's certificate; in a network that puts its own in front, install that network's root certificate, or name its file in SSL_CERT_FILE: {url}"
    )]
    Stranger { url: String },
    #[error("the server has another file: {found} bytes instead of {expected}: {url}")]
    OtherSize {
        expected: u64,
        found: u64,
        url: String,
    },
    #[error("the server answered with error {status} instead of the file: {url}")]
    Status { status: u16, url: String },
    #[error(
        "this file needs agreement to its licence: agree on the model's page, create a token there, and set HF_TOKEN to it: {url}"
    )]
    Gated { url: String },
    #[error("the file is not on the server: {url}")]
    NotThere { url: String },
    #[error("the server does not say how large the file is: {url}")]
    NoSize { url: String },
    #[error(
        "the file on the server changed during the download; start again to get the new one: {url}"
    )]
    Changed { url: String },
    #[error("the server sent bytes {found} instead of {expected}: {url}")]
    WrongPart {
        expected: String,
        found: String,
        url: String,
    },
    #[error(
        "the connection broke too often ({reason}); what was downloaded is kept, start again to continue: {url}"
    )]
    Broken { reason: String, url: String },
    #[error(
        "the file was damaged during the download and is deleted (checksum {found} instead of {expected}); start again: {url}"
    )]
    Damaged {
        expected: String,
        found: String,
        url: String,
    },
    #[error("the download needs {} of free space, and there is {}: {}", size_text(*expected), size_text(*found), path.display())]
    NoSpace {
        expected: u64,
        found: u64,
        path: PathBuf,
    },
    #[error(
        "another file of this name is here, with {found} bytes instead of {expected}; move it away to download this one: {}",
        path.display()
    )]
    Occupied {
        expected: u64,
        found: u64,
        path: PathBuf,
    },
    #[error("another window or program is downloading this file: {}", path.display())]
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

    /// Returns whether the same request may succeed soon.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::WrongPart { .. } => true,
            Self::Status { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            _ => false,
        }
    }

    /// Reason, as part of a sentence.
    pub(super) fn reason(self) -> String {
        match self {
            Self::Unreachable { reason, .. } => reason,
            Self::Status { status, .. } => format!("error {status}"),
            Self::WrongPart {
                expected, found, ..
            } => {
                format!("bytes {found} instead of {expected}")
            }
            err => err.to_string(),
        }
    }
}
