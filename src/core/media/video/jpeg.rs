//! JPEG image at quality 95 without chroma subsampling, with the settings as comments.
//!
//! A comment holds less than 64 KiB, so longer settings are split. `metadata` reads them.

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageFormat};

use super::MADE_BY;
use crate::formats::jpeg::COMMENT;
use crate::media::RgbPixels;
use crate::media::metadata::JPEG_PREFIX;

const QUALITY: u8 = 95;
/// Bytes of the start of image, which comes first.
const START_BYTES: usize = 2;
/// A segment's length counts its own two bytes.
const MAX_COMMENT_BYTES: usize = u16::MAX as usize - 2;

/// An image without settings.
pub fn jpeg_bytes(image: &RgbPixels) -> Result<Vec<u8>, String> {
    encode(image, None)
}

/// The image of [`jpeg_bytes`].
pub fn open_jpeg(bytes: &[u8]) -> Result<RgbPixels, String> {
    let image = image::load_from_memory_with_format(bytes, ImageFormat::Jpeg);
    let image = image.map_err(|err| err.to_string())?.into_rgb8();
    RgbPixels::new(image.width(), image.height(), image.into_raw()).map_err(|err| err.to_string())
}

pub(super) fn encode(image: &RgbPixels, settings: Option<&str>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY)
        .encode(
            &image.rgb,
            image.width,
            image.height,
            ExtendedColorType::Rgb8,
        )
        .map_err(|err| err.to_string())?;
    let mut comments = comment(MADE_BY.as_bytes());
    for piece in settings
        .unwrap_or_default()
        .as_bytes()
        .chunks(MAX_COMMENT_BYTES - JPEG_PREFIX.len())
    {
        comments.extend(comment(&[JPEG_PREFIX, piece].concat()));
    }
    let at = end_of_header(&bytes);
    bytes.splice(at..at, comments);
    Ok(bytes)
}

/// Behind the JFIF header, which readers expect first.
fn end_of_header(bytes: &[u8]) -> usize {
    match bytes.get(START_BYTES..) {
        Some(&[0xff, 0xe0, high, low, ..]) => {
            START_BYTES + 2 + usize::from(u16::from_be_bytes([high, low]))
        }
        _ => START_BYTES,
    }
}

fn comment(text: &[u8]) -> Vec<u8> {
    let len = (text.len() + 2) as u16;
    [&[0xff, COMMENT], len.to_be_bytes().as_slice(), text].concat()
}
