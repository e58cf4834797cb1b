//! What can go wrong with pictures and clips, each as one sentence with the path last.
//!
//! It advises nothing and logs nothing: the job that met the error does.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use super::{MAX_SETTINGS_BYTES, Picture};
use crate::units::size_text;

/// Why a picture, a clip or the settings inside them could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    #[error("expected a file, but there is none: {path}", path = path.display())]
    NotFound { path: PathBuf },
    #[error("expected a file, found a folder: {path}", path = path.display())]
    IsFolder { path: PathBuf },
    #[error("expected a file, found a device or pipe: {path}", path = path.display())]
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
        "expected a PNG, JPEG, WebP, GIF, BMP or TIFF picture, found {found}: {path}",
        path = path.display()
    )]
    NotAPicture { found: String, path: PathBuf },
    #[error("expected a whole {kind} file, but it ends early: {path}", path = path.display())]
    Truncated { kind: &'static str, path: PathBuf },
    #[error("expected a sound {kind} file, but it is damaged ({detail}): {path}", path = path.display())]
    Damaged {
        kind: &'static str,
        detail: String,
        path: PathBuf,
    },

    #[error(
        "expected an MP4, MOV, WebM, GIF or WebP clip or numbered PNG pictures, found {found}: {path}",
        path = path.display()
    )]
    NotAClip { found: String, path: PathBuf },

    #[error("expected a folder to write into, but neither it nor the one above it exists: {path}", path = path.display())]
    FolderMissing { path: PathBuf },
    #[error("expected a folder to write into, found a file: {path}", path = path.display())]
    FolderIsFile { path: PathBuf },
    #[error("expected a file that may be replaced, found a write-protected one: {path}", path = path.display())]
    WriteProtected { path: PathBuf },
    #[error("the disk is full: {path}", path = path.display())]
    DiskFull { path: PathBuf },

    #[error("expected settings as a JSON object of at most {max}, found {found}: {path}", max = size_text(MAX_SETTINGS_BYTES), path = path.display())]
    Settings { found: String, path: PathBuf },
    #[error("expected a picture, a clip or a JSON file that can carry settings, found {found}: {path}", path = path.display())]
    NoCarrier { found: String, path: PathBuf },
    /// What nobody tells from the others.
    #[error("{0}")]
    Other(String),
}

impl MediaError {
    /// A sentence about a file.
    pub(crate) fn said(sentence: impl Display, path: &Path) -> Self {
        Self::Other(format!("{sentence}: {}", path.display()))
    }

    pub(super) fn no_frames(path: &Path) -> Self {
        Self::said("expected at least one frame, found none", path)
    }

    pub(super) fn no_pixels(width: u32, height: u32) -> Self {
        Self::Other(format!(
            "expected a width and a height of at least 1, found {width} × {height}"
        ))
    }

    pub(super) fn frame_size(expected: (u32, u32), found: &Picture, path: &Path) -> Self {
        let ((width, height), found_width, found_height) = (expected, found.width, found.height);
        let expected = format_args!("expected every frame to be {width} × {height}");
        Self::said(
            format_args!("{expected}, found {found_width} × {found_height}"),
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

    /// Whether the disk had no room left, which more room mends.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}
