//! Opening pictures that people have: PNG, JPEG, WebP, GIF, BMP and TIFF, made into plain RGB as
//! Pillow's `ImageOps.exif_transpose(image).convert("RGB")` makes them, which is what diffusers'
//! `load_image` does.
//!
//! So the EXIF rotation is applied, alpha is dropped (not composited) and of an animation the first
//! frame is taken. One difference is on purpose: 16-bit grey keeps its high byte, where Pillow turns
//! everything above 255 white. Colour profiles are not applied, and clips are not opened.

mod alpha;
mod gif;
mod jpeg;
pub(super) mod other;
mod png;
pub(super) mod tiff;

use std::fs::File;
use std::io::{self, BufReader, Seek as _};
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};

use super::kind::{self, Kind};
use super::{MediaError, Picture};
use crate::formats::{ByteSource, webp};
use crate::units::size_text;

pub use alpha::has_transparency;

/// Larger pictures are refused from their header, before anything is allocated for them.
pub const MAX_PIXELS: u64 = 200_000_000;

/// More than the largest permitted picture needs without compression, at 8 bytes a pixel.
const MAX_FILE_BYTES: u64 = 2_000_000_000;

/// What a decoder may allocate: the largest permitted picture at 8 bytes a pixel.
const MAX_DECODED_BYTES: u64 = MAX_PIXELS * 8;

/// More than what stands beside the pixels needs: tables, profiles, frames a little larger than their canvas.
const ROOM_BYTES: u64 = 64 << 20;

/// What any decoder may hold at once.
const MAX_DECODER_BYTES: u64 = 2_000_000_000;

/// What a decoder may hold at once of a picture that says that it has this size: its pixels twice at 8 bytes. Frames and
/// strips that say that they are larger are refused before anything is allocated for them.
pub(super) fn decoder_bytes(width: u32, height: u32) -> u64 {
    let pixels = u64::from(width) * u64::from(height);
    MAX_DECODER_BYTES.min(ROOM_BYTES + 16 * pixels)
}

pub(super) const EMPTY: &str = "this file is empty";

/// Opens the picture at `path`, whatever its extension says, upright and as plain RGB.
pub fn open_picture(path: &Path) -> Result<Picture, MediaError> {
    let opened = kind::open_file(path, "read the picture")?;
    if opened.len == 0 {
        return Err(MediaError::said(EMPTY, path));
    }
    if opened.len > MAX_FILE_BYTES {
        let (most, found) = (size_text(MAX_FILE_BYTES), size_text(opened.len));
        let sentence = format_args!("this file is {found}, and at most {most} can be read");
        return Err(MediaError::said(sentence, path));
    }
    let file = BufReader::new(opened.file);
    let decoded = match opened.kind {
        Kind::Png => png::decode(file),
        Kind::Jpeg => jpeg::decode(file),
        Kind::Gif => gif::decode(file),
        Kind::WebP => decode_webp(file, opened.len),
        Kind::Bmp => other::decode(file, image::ImageFormat::Bmp),
        Kind::Tiff => tiff::decode(file),
        Kind::Mp4 | Kind::WebM | Kind::Json | Kind::Other(_) => {
            let found = opened.kind.described().to_owned();
            return Err(MediaError::NotAPicture {
                found,
                path: path.to_path_buf(),
            });
        }
    };
    match decoded {
        Ok(decoded) => upright(decoded.picture, decoded.orientation),
        Err(failure) => Err(failure.into_error(opened.kind.name(), path)),
    }
}

/// The decoder would call a cut-off file damaged: the length in the header tells.
fn decode_webp(mut file: Input, len: u64) -> Result<Decoded, Failure> {
    let mut source = ByteSource::new(&mut file, len);
    if webp::end(&mut source)? > len {
        return Err(Failure::Truncated);
    }
    webp::check_sizes(&mut source)?;
    file.rewind().map_err(Failure::Io)?;
    other::decode(file, image::ImageFormat::WebP)
}

/// A decoded picture before it is turned upright.
pub(super) struct Decoded {
    pub picture: Picture,
    orientation: Orientation,
}

type Input = BufReader<File>;

/// What a decoder found wrong, before the kind and the path are known.
pub(super) enum Failure {
    Truncated,
    TooManyPixels { width: u32, height: u32 },
    Unsupported(String),
    Damaged(String),
    Io(io::Error),
}

impl Failure {
    pub(super) fn into_error(self, kind: &'static str, path: &Path) -> MediaError {
        let whole_path = path.to_path_buf();
        match self {
            Self::Truncated => MediaError::Truncated {
                kind,
                path: whole_path,
            },
            Self::TooManyPixels { width, height } => {
                let most = MAX_PIXELS / 1_000_000;
                let expected = format_args!("pictures may have at most {most} megapixels");
                MediaError::said(format_args!("{expected}, not {width} × {height}"), path)
            }
            Self::Unsupported(detail) => MediaError::said(
                format_args!("this kind of {kind} picture cannot be read ({detail})"),
                path,
            ),
            Self::Damaged(detail) => MediaError::Damaged {
                kind,
                detail,
                path: whole_path,
            },
            Self::Io(err) => MediaError::from_io("read the picture", err, path),
        }
    }

    fn too_much_memory() -> Self {
        Self::Unsupported("it needs too much memory".to_owned())
    }

    /// Some decoders report the end of the file as wrong content, in the words of the standard
    /// library or their own.
    pub(super) fn from_words(words: &str) -> Self {
        let lower = words.to_lowercase();
        let ends = [
            "unexpected end of file",
            "failed to fill whole buffer",
            "unexpected eof",
        ];
        if ends.iter().any(|end| lower.contains(end)) {
            return Self::Truncated;
        }
        Self::Damaged(one_line(words))
    }
}

impl From<io::Error> for Failure {
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

/// A decoder's words on one line and of a bearable length: some quote the file.
fn one_line(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(160)
        .collect()
}

/// Refuses a size that is zero or too large: called with the header's size, before allocating.
pub(super) fn check_size(width: u32, height: u32) -> Result<(), Failure> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(Failure::Damaged(format!("its size is {width} × {height}")));
    }
    if pixels > MAX_PIXELS {
        return Err(Failure::TooManyPixels { width, height });
    }
    Ok(())
}

pub(super) fn picture_from_rgb(width: u32, height: u32, rgb: Vec<u8>) -> Result<Picture, Failure> {
    Picture::new(width, height, rgb).map_err(|err| Failure::Damaged(err.to_string()))
}

/// RGB from pixels of `channels` bytes, of which the first one (grey) or three are colour.
pub(super) fn drop_alpha(mut bytes: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        1 | 2 => bytes
            .chunks_exact(channels)
            .flat_map(|pixel| [pixel[0]; 3])
            .collect(),
        4 => {
            // In place: a copy of the largest permitted picture would be 600 MB more.
            let pixels = bytes.len() / 4;
            for i in 1..pixels {
                bytes.copy_within(i * 4..i * 4 + 3, i * 3);
            }
            bytes.truncate(pixels * 3);
            bytes
        }
        _ => bytes,
    }
}

pub(super) fn upright(picture: Picture, orientation: Orientation) -> Result<Picture, MediaError> {
    if orientation == Orientation::NoTransforms {
        return Ok(picture);
    }
    let (width, height) = (picture.width, picture.height);
    let buffer = RgbImage::from_raw(width, height, picture.rgb)
        .ok_or_else(|| MediaError::no_pixels(width, height))?;
    let mut turned = DynamicImage::ImageRgb8(buffer);
    turned.apply_orientation(orientation);
    Picture::new(
        turned.width(),
        turned.height(),
        turned.into_rgb8().into_raw(),
    )
}

#[cfg(test)]
mod tests;
