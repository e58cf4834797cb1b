//! What can go wrong with pictures and clips, each as one sentence with the path last.
//!
//! It advises nothing and logs nothing: the job that met the error does.

use crate::units::size_text;
use std::io;
use std::path::{Path, PathBuf};

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

    #[error("expected a picture, found an empty file: {path}", path = path.display())]
    Empty { path: PathBuf },
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
        "expected a {kind} picture of a usual make, found one that cannot be read ({detail}): {path}",
        path = path.display()
    )]
    Unsupported {
        kind: &'static str,
        detail: String,
        path: PathBuf,
    },
    #[error(
        "expected a picture of at most {max_megapixels} megapixels, found {width} × {height}: {path}",
        path = path.display()
    )]
    TooManyPixels {
        max_megapixels: u64,
        width: u32,
        height: u32,
        path: PathBuf,
    },
    #[error("expected a file of at most {max}, found {found}: {path}", max = size_text(*max_bytes), found = size_text(*found_bytes), path = path.display())]
    FileTooLarge {
        max_bytes: u64,
        found_bytes: u64,
        path: PathBuf,
    },

    #[error(
        "expected an MP4, MOV, WebM, GIF or WebP clip or numbered PNG pictures, found {found}: {path}",
        path = path.display()
    )]
    NotAClip { found: String, path: PathBuf },
    #[error(
        "expected a clip of at most {max_megapixels} megapixels in all its frames, found {num_frames} frames of {width} × {height}: {path}",
        path = path.display()
    )]
    ClipTooLarge {
        max_megapixels: u64,
        num_frames: u32,
        width: u32,
        height: u32,
        path: PathBuf,
    },
    #[error(
        "expected an MP4 or MOV clip with H.264 of 8 bits and 4:2:0, or one that Safelight made, found {found}, which takes an installed ffmpeg to read: {path}",
        path = path.display()
    )]
    NeedsFfmpeg { found: String, path: PathBuf },

    #[error("expected {expected} bytes of pixels for {width} × {height}, found {found}")]
    PixelCount {
        expected: u64,
        found: u64,
        width: u32,
        height: u32,
    },
    #[error("expected a width and a height of at least 1, found {width} × {height}")]
    NoPixels { width: u32, height: u32 },

    #[error(
        "expected a file name that ends in .mp4, .gif, .webp, .png or .jpg, found {found}: {path}",
        path = path.display()
    )]
    UnknownExtension { found: String, path: PathBuf },
    #[error(
        "expected a file name that ends in .mp4, or in .webp or .gif for a web page, found .webm, which is no longer written: {path}",
        path = path.display()
    )]
    WebMOut { path: PathBuf },
    #[error("expected a folder to write into, but neither it nor the one above it exists: {path}", path = path.display())]
    FolderMissing { path: PathBuf },
    #[error("expected a folder to write into, found a file: {path}", path = path.display())]
    FolderIsFile { path: PathBuf },
    #[error("expected a file that may be replaced, found a write-protected one: {path}", path = path.display())]
    WriteProtected { path: PathBuf },
    #[error("the disk is full: {path}", path = path.display())]
    DiskFull { path: PathBuf },

    #[error("expected a frame rate between {min} and {max}, found {found}")]
    FrameRate { min: f64, max: f64, found: f64 },
    #[error("expected at least one frame, found none: {path}", path = path.display())]
    NoFrames { path: PathBuf },
    #[error(
        "expected every frame to be {expected_width} × {expected_height}, found {width} × {height}: {path}",
        path = path.display()
    )]
    FrameSize {
        expected_width: u32,
        expected_height: u32,
        width: u32,
        height: u32,
        path: PathBuf,
    },
    #[error(
        "expected a frame that fits {kind} ({limit}), found {width} × {height}: {path}",
        path = path.display()
    )]
    FrameTooLarge {
        kind: &'static str,
        limit: &'static str,
        width: u32,
        height: u32,
        path: PathBuf,
    },
    #[error("expected settings as a JSON object of at most {max}, found {found}: {path}", max = size_text(*max_bytes), path = path.display())]
    Settings {
        max_bytes: u64,
        found: String,
        path: PathBuf,
    },
    #[error("the {kind} encoder failed ({detail}): {path}", path = path.display())]
    Encoder {
        kind: &'static str,
        detail: String,
        path: PathBuf,
    },

    #[error("expected a picture, a clip or a JSON file that can carry settings, found {found}: {path}", path = path.display())]
    NoCarrier { found: String, path: PathBuf },
    #[error("the settings in the file cannot be understood ({detail}): {path}", path = path.display())]
    UnknownSettings { detail: String, path: PathBuf },
}

impl MediaError {
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
