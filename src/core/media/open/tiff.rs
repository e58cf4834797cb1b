//! TIFF: what the `image` crate reads, and the two common makes that it does not: with a palette, and
//! grey with alpha.
//!
//! Exotic ones (YCbCr without JPEG, Lab, palettes of less than 8 bits) are refused with a sentence.

use std::io::{Cursor, Read, Seek};

use image::ImageFormat;
use image::metadata::Orientation;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use crate::formats::ByteSource;
use crate::formats::tiff::check_lists as tiff_lists;

use super::{
    Decoded, Failure, Input, MAX_FILE_BYTES, check_size, decoder_bytes, drop_alpha, one_line,
    other, picture_from_rgb,
};

/// The tag that says what the samples mean, and two of its values.
const PHOTOMETRIC: u16 = 262;
const BLACK_IS_ZERO: u16 = 1;
const PALETTE: u16 = 3;

pub(super) fn decode(file: Input) -> Result<Decoded, Failure> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(Failure::Io)?;
    // The decoder knows no palettes, but it reads the same samples when they are called grey.
    let has_palette = retag_palette(&mut bytes);
    check_lists(&mut Cursor::new(&bytes), bytes.len() as u64)?;
    let mut decoder = Decoder::new(Cursor::new(&bytes))?;
    let samples = match decoder.colortype() {
        Ok(ColorType::Gray(8)) if has_palette => 1,
        Ok(ColorType::Multiband {
            bit_depth: 8 | 16,
            num_samples: 2,
        }) => 2,
        _ if has_palette => {
            return Err(Failure::Unsupported(
                "its palette is not of 8 bits".to_owned(),
            ));
        }
        _ => return other::decode(Cursor::new(bytes), ImageFormat::Tiff),
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
    let bytes = match decoder.read_image()? {
        DecodingResult::U8(bytes) => bytes,
        DecodingResult::U16(wide) => wide.iter().map(|sample| (sample >> 8) as u8).collect(),
        _ => {
            return Err(Failure::Unsupported(
                "its samples are not of 8 or 16 bits".to_owned(),
            ));
        }
    };
    let rgb = if has_palette {
        // All reds, then all greens, then all blues, 16 bits each.
        let map = decoder.get_tag_u16_vec(Tag::ColorMap)?;
        coloured(bytes.iter().step_by(samples), &map)
    } else {
        drop_alpha(bytes, samples)
    };
    Ok(Decoded {
        picture: picture_from_rgb(width, height, rgb)?,
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
pub(in crate::media) fn size(mut file: impl Read + Seek, len: u64) -> Result<(u32, u32), Failure> {
    check_lists(&mut file, len)?;
    Ok(Decoder::new(file)?.dimensions()?)
}

/// Before any decoder: it takes a list's word for its length. The file stands at its beginning before and after.
pub(super) fn check_lists(file: &mut (impl Read + Seek), len: u64) -> Result<(), Failure> {
    tiff_lists(&mut ByteSource::new(&mut *file, len))?;
    file.rewind().map_err(Failure::Io)
}

impl From<TiffError> for Failure {
    fn from(err: TiffError) -> Self {
        match err {
            TiffError::IoError(err) => err.into(),
            TiffError::UnsupportedError(err) => Self::Unsupported(one_line(&err.to_string())),
            err => Self::from_words(&err.to_string()),
        }
    }
}
