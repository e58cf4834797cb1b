//! Why a file could not be fetched: one sentence each.

use std::io;
use std::path::Path;

use thiserror::Error;

/// A sentence that ends with the address or the file that it is about.
#[derive(Debug, Error)]
#[error("{sentence}: {place}")]
pub struct DownloadError {
    pub kind: DownloadErrorKind,
    sentence: String,
    pub(crate) place: String,
}

/// Cases that callers tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadErrorKind {
    /// No answer for this reason.
    Unreachable(String),
    /// A temporary fault of the server; its text continues a sentence.
    Temporary(String),
    Gated,
    NoSpace,
    /// A fault of this machine's disk, or of a file on it.
    Disk,
    /// Any other answer of the server.
    Refused,
}

impl DownloadError {
    fn new(kind: DownloadErrorKind, sentence: impl Into<String>, place: impl Into<String>) -> Self {
        Self {
            kind,
            sentence: sentence.into(),
            place: place.into(),
        }
    }

    pub(super) fn unreachable(reason: String, url: &str) -> Self {
        let sentence = format!("the server did not answer ({reason})");
        Self::new(DownloadErrorKind::Unreachable(reason), sentence, url)
    }

    pub(super) fn temporary(fault: String, sentence: String, url: &str) -> Self {
        Self::new(DownloadErrorKind::Temporary(fault), sentence, url)
    }

    pub(super) fn gated(url: &str) -> Self {
        let sentence = "this file needs agreement to its licence: agree on the model's page, create a token there, and set HF_TOKEN to it";
        Self::new(DownloadErrorKind::Gated, sentence, url)
    }

    pub(super) fn refused(sentence: impl Into<String>, url: &str) -> Self {
        Self::new(DownloadErrorKind::Refused, sentence, url)
    }

    pub(super) fn changed(url: &str) -> Self {
        let sentence =
            "the file on the server changed during the download; start again to get the new one";
        Self::refused(sentence, url)
    }

    pub(super) fn broken(reason: &str, url: &str) -> Self {
        let sentence = format!(
            "the connection broke too often ({reason}); what was downloaded is kept, start again to continue"
        );
        Self::refused(sentence, url)
    }

    pub(super) fn damaged(found: &str, expected: &str, url: &str) -> Self {
        let sentence = format!(
            "the file was damaged during the download and is deleted (checksum {found} instead of {expected}); start again"
        );
        Self::refused(sentence, url)
    }

    pub(super) fn no_space(sentence: String, folder: &Path) -> Self {
        Self::new(
            DownloadErrorKind::NoSpace,
            sentence,
            folder.display().to_string(),
        )
    }

    pub(super) fn on_disk(sentence: impl Into<String>, path: &Path) -> Self {
        Self::new(
            DownloadErrorKind::Disk,
            sentence,
            path.display().to_string(),
        )
    }

    pub(super) fn disk(source: &io::Error, path: &Path) -> Self {
        Self::on_disk(format!("cannot write the file ({source})"), path)
    }

    /// Reason why the same request may succeed soon; `None` if it will not.
    pub(super) fn retry_reason(&self) -> Option<&str> {
        match &self.kind {
            DownloadErrorKind::Unreachable(reason) | DownloadErrorKind::Temporary(reason) => {
                Some(reason)
            }
            _ => None,
        }
    }
}
