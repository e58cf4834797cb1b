//! TIFF: what the `image` crate reads, and the two common makes that it does not: with a palette, and grey with alpha.
//!
//! Exotic ones (YCbCr without JPEG, Lab, palettes of less than 8 bits) are refused with a sentence.

use std::io::{Cursor, Read, Seek};

use image::metadata::Orientation;
use image::{DynamicImage, GrayAlphaImage, ImageBuffer, ImageFormat, RgbImage};
use tiff::decoder::ifd::Value as TagValue;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use crate::formats::ByteSource;
use crate::formats::tiff::check_lists as tiff_lists;

use super::declared::{MAX_PROFILE_BYTES, rgb_from_cmyk};
use super::{
    DeclaredColours, DecodeFailure, DecodedImage, Input, MAX_FILE_BYTES, check_size, decoder_bytes,
    one_line, other,
};

/// The tag that says what the samples mean, and two of its values.
const PHOTOMETRIC: u16 = 262;
const BLACK_IS_ZERO: u16 = 1;
const PALETTE: u16 = 3;

pub(super) fn decode(file: Input) -> Result<DecodedImage, DecodeFailure> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(DecodeFailure::Io)?;
    // The decoder knows no palettes, but it reads the same samples when they are called grey.
    let has_palette = retag_palette(&mut bytes);
    check_lists(&mut Cursor::new(&bytes), bytes.len() as u64)?;
    let mut profile_limits = Limits::default();
    profile_limits.ifd_value_size = MAX_PROFILE_BYTES as usize;
    let mut decoder = Decoder::new(Cursor::new(&bytes))?.with_limits(profile_limits);
    let mut colours = match decoder.find_tag(Tag::IccProfile) {
        Ok(None) => DeclaredColours::Untagged,
        found => match found.ok().flatten().map(TagValue::into_u8_vec) {
            Some(Ok(profile)) => DeclaredColours::from_metadata(Some(profile), None),
            _ => DeclaredColours::Unreadable("its ICC profile cannot be read".to_owned()),
        },
    };
    let samples = match decoder.colortype() {
        Ok(ColorType::Gray(8)) if has_palette => 1,
        Ok(ColorType::Multiband {
            bit_depth: 8 | 16,
            num_samples: 2,
        }) => 2,
        // The `image` crate knows no profiles of inks.
        Ok(ColorType::CMYK(8)) if matches!(colours, DeclaredColours::Icc(_)) => 4,
        _ if has_palette => {
            return Err(DecodeFailure::Unsupported(
                "its palette is not of 8 bits".to_owned(),
            ));
        }
        _ => {
            let decoded = other::decode(Cursor::new(bytes), ImageFormat::Tiff)?;
            return Ok(DecodedImage { colours, ..decoded });
        }
    };
    let (width, height) = decoder.dimensions()?;
    check_size(width, height)?;
    let mut decoder = decoder.with_limits(limits(width, height));
    let orientation = decoder
        .find_tag_unsigned::<u8>(Tag::Orientation)
        .ok()
        .flatten()
        .and_then(Orientation::from_exif)
        .unwrap_or(Orientation::NoTransforms);
    let raw = decoder.read_image()?;
    let image = match raw {
        DecodingResult::U8(bytes) if has_palette => {
            // All reds, then all greens, then all blues, 16 bits each.
            let map = decoder.get_tag_u16_vec(Tag::ColorMap)?;
            let rgb = coloured(bytes.iter().step_by(samples), &map);
            RgbImage::from_raw(width, height, rgb).map(DynamicImage::from)
        }
        DecodingResult::U8(inks) if samples == 4 => {
            let Some((rgb, converted)) = rgb_from_cmyk(inks, &colours) else {
                let plain = other::decode(Cursor::new(bytes), ImageFormat::Tiff)?;
                return Ok(DecodedImage { colours, ..plain });
            };
            colours = converted;
            RgbImage::from_raw(width, height, rgb).map(DynamicImage::from)
        }
        DecodingResult::U8(raw) => {
            GrayAlphaImage::from_raw(width, height, raw).map(DynamicImage::from)
        }
        DecodingResult::U16(raw) => {
            ImageBuffer::from_raw(width, height, raw).map(DynamicImage::ImageLumaA16)
        }
        _ => {
            return Err(DecodeFailure::Unsupported(
                "its samples are not of 8 or 16 bits".to_owned(),
            ));
        }
    };
    Ok(DecodedImage {
        image: image.ok_or_else(|| DecodeFailure::Damaged("it has too few samples".to_owned()))?,
        colours,
        orientation,
    })
}

fn coloured<'a>(indices: impl Iterator<Item = &'a u8>, map: &[u16]) -> Vec<u8> {
    let colours = map.len() / 3;
    let byte = |at: usize| map.get(at).map_or(0, |sample| (sample >> 8) as u8);
    indices
        .map(|index| usize::from(*index))
        .flat_map(|index| {
            [
                byte(index),
                byte(colours + index),
                byte(2 * colours + index),
            ]
        })
        .collect()
}

/// Turns "palette" into "black is zero" in the first directory and tells whether it did.
fn retag_palette(bytes: &mut [u8]) -> bool {
    let is_big = bytes.starts_with(b"MM");
    let u16_at = |bytes: &[u8], at: usize| -> Option<u16> {
        let two = *bytes.get(at..)?.first_chunk()?;
        Some(if is_big {
            u16::from_be_bytes(two)
        } else {
            u16::from_le_bytes(two)
        })
    };
    let find = |bytes: &[u8]| -> Option<usize> {
        let four = *bytes.get(4..)?.first_chunk()?;
        let offset = if is_big {
            u32::from_be_bytes(four)
        } else {
            u32::from_le_bytes(four)
        };
        let directory = offset as usize;
        let entries = usize::from(u16_at(bytes, directory)?);
        let at = (0..entries)
            .map(|entry| directory + 2 + entry * 12)
            .find(|at| u16_at(bytes, *at) == Some(PHOTOMETRIC))?;
        (u16_at(bytes, at + 8)? == PALETTE).then_some(at + 8)
    };
    let Some(at) = find(bytes) else { return false };
    let value = if is_big {
        BLACK_IS_ZERO.to_be_bytes()
    } else {
        BLACK_IS_ZERO.to_le_bytes()
    };
    bytes[at..at + 2].copy_from_slice(&value);
    true
}

fn limits(width: u32, height: u32) -> Limits {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = decoder_bytes(width, height) as usize;
    limits
}

/// Width and height in pixels, of any make: those that are not read say so when they are opened.
pub(in crate::media) fn size(
    mut file: impl Read + Seek,
    len: u64,
) -> Result<(u32, u32), DecodeFailure> {
    check_lists(&mut file, len)?;
    Ok(Decoder::new(file)?.dimensions()?)
}

/// Checks lists before any decoder does, which trusts their lengths. The file is at its beginning before and after.
pub(super) fn check_lists(file: &mut (impl Read + Seek), len: u64) -> Result<(), DecodeFailure> {
    tiff_lists(&mut ByteSource::new(&mut *file, len))?;
    file.rewind().map_err(DecodeFailure::Io)
}

impl From<TiffError> for DecodeFailure {
    fn from(err: TiffError) -> Self {
        match err {
            TiffError::IoError(err) => err.into(),
            TiffError::UnsupportedError(err) => Self::Unsupported(one_line(&err.to_string())),
            err => Self::from_words(&err.to_string()),
        }
    }
}
