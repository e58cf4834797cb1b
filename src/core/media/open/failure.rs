//! Errors of decoders, and the size limit of images.

use std::io;
use std::path::Path;

use crate::media::{MediaError, RgbPixels};

/// Larger images are refused from their header, before anything is allocated for them.
pub const MAX_PIXELS: u64 = 200_000_000;

/// Error of a decoder, before the format and the path are known.
pub(in crate::media) enum DecodeFailure {
    Truncated,
    TooManyPixels {
        width: u32,
        height: u32,
    },
    Unsupported(String),
    Damaged(String),
    NoVideo,
    Io(io::Error),
    /// ffmpeg is needed and not installed.
    NoFfmpeg,
    /// ffmpeg does not decode it.
    Undecodable,
}

impl DecodeFailure {
    pub(in crate::media) fn into_error(self, kind: &'static str, path: &Path) -> MediaError {
        match self {
            Self::Truncated => MediaError::truncated(kind, path),
            Self::TooManyPixels { width, height } => {
                let most = MAX_PIXELS / 1_000_000;
                let expected = format_args!("images may have at most {most} megapixels");
                MediaError::with_path(format_args!("{expected}, not {width} × {height}"), path)
            }
            Self::Unsupported(detail) => MediaError::with_path(
                format_args!(
                    "this kind of {kind} image cannot be read ({detail}): save it as PNG in another program"
                ),
                path,
            ),
            Self::Damaged(detail) => MediaError::damaged(kind, &detail, path),
            Self::NoVideo => {
                MediaError::with_path(format_args!("this {kind} file has no video"), path)
            }
            Self::Io(err) => MediaError::from_io("read the image", &err, path),
            Self::NoFfmpeg => MediaError::with_path(
                format_args!(
                    "this is an image in {kind}: install ffmpeg to read it, or convert it to PNG or JPEG"
                ),
                path,
            ),
            Self::Undecodable => MediaError::with_path(
                format_args!("ffmpeg cannot decode this {kind} image: convert it to PNG or JPEG"),
                path,
            ),
        }
    }

    pub(in crate::media) fn too_much_memory() -> Self {
        Self::Unsupported("it needs too much memory".to_owned())
    }

    /// Some decoders report the end of the file as wrong content, in the words of the standard library or their own.
    pub(in crate::media) fn from_words(words: &str) -> Self {
        tracing::debug!("a decoder says: {words}");
        let lower = words.to_lowercase();
        let ends = [
            "unexpected end of file",
            "failed to fill whole buffer",
            "unexpected eof",
            "not enough bytes",
        ];
        if ends.iter().any(|end| lower.contains(end)) {
            return Self::Truncated;
        }
        Self::Damaged("its data is invalid".to_owned())
    }
}

impl From<io::Error> for DecodeFailure {
    fn from(err: io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
                Self::from_words(&err.to_string())
            }
            kind => Self::Io(kind.into()),
        }
    }
}

/// Refuses a size that is zero or too large: called with the header's size, before allocating.
pub(in crate::media) fn check_size(width: u32, height: u32) -> Result<(), DecodeFailure> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(DecodeFailure::Damaged(format!(
            "its size is {width} × {height}"
        )));
    }
    if pixels > MAX_PIXELS {
        return Err(DecodeFailure::TooManyPixels { width, height });
    }
    Ok(())
}

pub(in crate::media) fn image_from_rgb(
    width: u32,
    height: u32,
    rgb: Vec<u8>,
) -> Result<RgbPixels, DecodeFailure> {
    RgbPixels::new(width, height, rgb).map_err(|err| DecodeFailure::Damaged(err.to_string()))
}
