//! Errors of images and videos, each as one sentence with the path last.
//!
//! Advice and logging are up to the job that met the error.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use super::RgbPixels;
use crate::formats::kind;
use crate::units::size_text;

/// Frame rates that every format can keep.
pub(super) const MIN_FPS: f64 = 0.01;
pub(super) const MAX_FPS: f64 = 240.0;
/// Larger settings are neither written nor read.
pub const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// Why an image, a video or the settings inside them could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("this file does not exist: {path}", path = path.display())]
    NotFound { path: PathBuf },
    #[error("this is a folder, not a file: {path}", path = path.display())]
    IsFolder { path: PathBuf },
    #[error("this is a device or pipe, not a file: {path}", path = path.display())]
    NotAFile { path: PathBuf },
    #[error("no permission to {action}: {path}", path = path.display())]
    Denied { action: &'static str, path: PathBuf },
    #[error("could not {action} ({source}): {path}", path = path.display())]
    Io {
        action: &'static str,
        source: io::Error,
        path: PathBuf,
    },

    #[error(
        "this is {found}, not a {} image: {path}",
        kind::image_formats(),
        path = path.display()
    )]
    NotAImage { found: String, path: PathBuf },
    #[error("this {kind} file is incomplete and cannot be opened: {path}", path = path.display())]
    Truncated { kind: &'static str, path: PathBuf },
    #[error("this {kind} file is damaged and cannot be opened ({detail}): {path}", path = path.display())]
    Damaged {
        kind: &'static str,
        detail: String,
        path: PathBuf,
    },

    #[error(
        "this is {found}, not an {} video, an animated GIF, WebP or PNG, or numbered PNG images: {path}",
        kind::video_formats(),
        path = path.display()
    )]
    NotAVideo { found: String, path: PathBuf },

    #[error("this folder does not exist, nor does the one above it: {path}", path = path.display())]
    FolderMissing { path: PathBuf },
    #[error("this is a file, not a folder to write to: {path}", path = path.display())]
    FolderIsFile { path: PathBuf },
    #[error("this file is write-protected and cannot be replaced: {path}", path = path.display())]
    WriteProtected { path: PathBuf },
    #[error("the disk is full: {path}", path = path.display())]
    DiskFull { path: PathBuf },

    #[error("the settings in this file should be a JSON object of at most {max}, but are {found}: {path}", max = size_text(MAX_SETTINGS_BYTES), path = path.display())]
    Settings { found: String, path: PathBuf },
    #[error("this is {found}, which carries no settings; use an image, a video or a JSON file: {path}", path = path.display())]
    NoCarrier { found: String, path: PathBuf },
    #[error("the frame rate must be between {MIN_FPS} and {MAX_FPS}, not {0}")]
    FrameRate(f64),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl MediaError {
    /// A sentence about a file.
    pub(crate) fn with_path(sentence: impl Display, path: &Path) -> Self {
        Self::Other(format!("{sentence}: {}", path.display()))
    }

    pub(super) fn no_frames(path: &Path) -> Self {
        Self::with_path("there is no frame to write", path)
    }

    pub(super) fn no_pixels(width: u32, height: u32) -> Self {
        Self::Other(format!(
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
    pub(crate) fn from_io(action: &'static str, source: io::Error, path: &Path) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { action, path }
            }
            io::ErrorKind::IsADirectory => Self::IsFolder { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io {
                action,
                source,
                path,
            },
        }
    }

    /// Returns true if the disk was full, which more space fixes.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}
