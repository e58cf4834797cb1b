//! Errors of images and videos, each as one sentence with the path last.
//!
//! Advice and logging are up to the job that met the error.

use std::fmt::Display;
use std::io;
use std::path::Path;

use super::RgbPixels;
use crate::units::size_text;

/// Frame rates that every format can keep.
pub(super) const MIN_FPS: f64 = 0.01;
pub(super) const MAX_FPS: f64 = 240.0;
/// Larger settings are neither written nor read.
pub const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// Error of reading or writing an image, a video or the settings inside them.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct MediaError {
    pub kind: MediaErrorKind,
    pub(super) sentence: String,
}

/// Errors that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaErrorKind {
    NotFound,
    /// A file of a format that is no image.
    NotAnImage,
    /// A file of a format that carries no settings.
    NoCarrier,
    /// Settings that are no JSON object, or too long.
    Settings,
    Truncated,
    DiskFull,
    FrameRate,
    Other,
}

impl MediaError {
    /// An error about a file; its sentence ends with the path.
    pub(crate) fn of_kind(kind: MediaErrorKind, sentence: impl Display, path: &Path) -> Self {
        Self {
            kind,
            sentence: format!("{sentence}: {}", path.display()),
        }
    }

    /// A sentence about a file.
    pub fn with_path(sentence: impl Display, path: &Path) -> Self {
        Self::of_kind(MediaErrorKind::Other, sentence, path)
    }

    /// A sentence about no file.
    pub fn other(sentence: impl Into<String>) -> Self {
        Self {
            kind: MediaErrorKind::Other,
            sentence: sentence.into(),
        }
    }

    pub(super) fn is_folder(path: &Path) -> Self {
        Self::with_path("this is a folder, not a file", path)
    }

    pub(super) fn not_a_file(path: &Path) -> Self {
        Self::with_path("this is a device or pipe, not a file", path)
    }

    pub(super) fn settings(found: &str, path: &Path) -> Self {
        let most = size_text(MAX_SETTINGS_BYTES);
        let sentence = format_args!(
            "the settings in this file should be a JSON object of at most {most}, but are {found}"
        );
        Self::of_kind(MediaErrorKind::Settings, sentence, path)
    }

    pub(super) fn truncated(kind: &str, path: &Path) -> Self {
        let sentence = format_args!("this {kind} file is incomplete and cannot be opened");
        Self::of_kind(MediaErrorKind::Truncated, sentence, path)
    }

    pub fn damaged(kind: &str, detail: &str, path: &Path) -> Self {
        let sentence = format_args!("this {kind} file is damaged and cannot be opened ({detail})");
        Self::with_path(sentence, path)
    }

    pub(super) fn no_frames(path: &Path) -> Self {
        Self::with_path("there is no frame to write", path)
    }

    pub(super) fn no_pixels(width: u32, height: u32) -> Self {
        Self::other(format!(
            "width and height must be at least 1, not {width} × {height}"
        ))
    }

    pub(super) fn frame_size(expected: (u32, u32), found: &RgbPixels, path: &Path) -> Self {
        let ((width, height), found_width, found_height) = (expected, found.width, found.height);
        let expected = format_args!("every frame must be {width} × {height}");
        Self::with_path(
            format_args!("{expected}, but one is {found_width} × {found_height}"),
            path,
        )
    }

    /// The sentence for a failed file operation; `action` continues "could not …".
    pub fn from_io(action: &str, source: &io::Error, path: &Path) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => {
                Self::of_kind(MediaErrorKind::NotFound, "this file does not exist", path)
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::denied(action, path)
            }
            io::ErrorKind::IsADirectory => Self::is_folder(path),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::of_kind(MediaErrorKind::DiskFull, "the disk is full", path)
            }
            _ => Self::with_path(format_args!("could not {action} ({source})"), path),
        }
    }

    pub(super) fn denied(action: &str, path: &Path) -> Self {
        Self::with_path(format_args!("no permission to {action}"), path)
    }
}
