//! JPEG: baseline and progressive, grey, YCbCr, RGB, and CMYK and YCCK as Adobe's programs write them.
//!
//! The decoder fills what is missing of a cut-off file with grey; so the end is looked for first.

use std::io::{Cursor, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use exif::{Context, In, Tag};
use image::codecs::jpeg::JpegDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, RgbImage};

use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::declared::rgb_from_cmyk;
use super::other::colours_of;
use super::{
    DeclaredColours, DecodeFailure, DecodedImage, Input, check_size, only_first, upright_size,
};
use crate::formats::ByteSource;
use crate::formats::jpeg::segments;

/// A JPEG is held in memory as a whole; one of the largest permitted image is far smaller.
const MAX_JPEG_BYTES: u64 = 600_000_000;

/// Each block of 8 × 8 pixels takes a bit at least.
const MAX_PIXELS_A_BYTE: u64 = 8 * 64;

pub(super) fn decode(file: Input) -> Result<DecodedImage, DecodeFailure> {
    let mut bytes = Vec::new();
    file.take(MAX_JPEG_BYTES)
        .read_to_end(&mut bytes)
        .map_err(DecodeFailure::Io)?;
    if !has_end(&bytes) {
        return Err(DecodeFailure::Truncated);
    }
    let most_pixels = bytes.len() as u64 * MAX_PIXELS_A_BYTE;
    let mut decoder = JpegDecoder::new(Cursor::new(&bytes))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    // Before there is room made for all of it.
    if u64::from(width) * u64::from(height) > most_pixels {
        return Err(DecodeFailure::Truncated);
    }
    let orientation = decoder.orientation()?;
    let colours = colours_of(&mut decoder);
    let unused = only_first(num_images(&bytes), "images")
        .into_iter()
        .collect();
    // zune-jpeg 0.5 panics at some damaged headers.
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        if let Some(converted) = convert_cmyk(&bytes, &colours) {
            return Ok(converted);
        }
        DynamicImage::from_decoder(decoder).map(|image| (image, colours))
    }));
    let Ok(decoded) = decoded else {
        return Err(DecodeFailure::Damaged(
            "its components do not go together".to_owned(),
        ));
    };
    let (image, colours) = decoded?;
    Ok(DecodedImage {
        image,
        colours,
        orientation,
        unused,
    })
}

/// Width and height, upright.
pub(in crate::media) fn size(file: Input) -> Result<(u32, u32), DecodeFailure> {
    let mut decoder = JpegDecoder::new(file)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok(upright_size(decoder.dimensions(), orientation))
}

/// Number of images by the index of a multi-image file (MPO); 1 without one.
fn num_images(bytes: &[u8]) -> usize {
    const APP2: u8 = 0xe2;
    const NUM_IMAGES: Tag = Tag(Context::Tiff, 0xb001);
    let mut source = ByteSource::new(Cursor::new(bytes), bytes.len() as u64);
    let mut segments = segments(&mut source);
    while let Ok(Some(segment)) = segments.next_part() {
        if segment.name != APP2 {
            continue;
        }
        let Ok(content) = segments.content(&segment) else {
            break;
        };
        if let Some(index) = content.strip_prefix(b"MPF\0") {
            let read = exif::Reader::new()
                .continue_on_error(true)
                .read_raw(index.to_vec());
            let read = read.or_else(|err| err.distill_partial_result(|_| ()));
            let count = read
                .ok()
                .and_then(|index| index.get_field(NUM_IMAGES, In::PRIMARY)?.value.get_uint(0));
            return count.unwrap_or(1) as usize;
        }
    }
    1
}

/// Decodes CMYK or YCCK and converts it with its ICC profile; `None` where the image or the profile is none of CMYK.
fn convert_cmyk(
    bytes: &[u8],
    colours: &DeclaredColours,
) -> Option<(DynamicImage, DeclaredColours)> {
    if !matches!(colours, DeclaredColours::Icc(_)) {
        return None;
    }
    let options = DecoderOptions::default()
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().ok()?;
    let kind = decoder.input_colorspace()?;
    if !matches!(kind, ColorSpace::CMYK | ColorSpace::YCCK) {
        return None;
    }
    let (width, height) = decoder.dimensions()?;
    decoder.set_options(options.jpeg_set_out_colorspace(kind));
    let mut samples = decoder.decode().ok()?;
    // Stored as Adobe's programs do, 255 for no ink; of YCCK, the first three are the RGB of ink.
    for pixel in samples.as_chunks_mut::<4>().0 {
        let [c, m, y, k] = *pixel;
        let [c, m, y] = if kind == ColorSpace::YCCK {
            rgb_from_ycc(c, m, y)
        } else {
            [255 - c, 255 - m, 255 - y]
        };
        *pixel = [c, m, y, 255 - k];
    }
    let (rgb, converted) = rgb_from_cmyk(samples, colours)?;
    let image = RgbImage::from_raw(width as u32, height as u32, rgb)?;
    Some((image.into(), converted))
}

/// JFIF's conversion.
pub(super) fn rgb_from_ycc(luma: u8, blue: u8, red: u8) -> [u8; 3] {
    let (y, cb, cr) = (
        f32::from(luma),
        f32::from(blue) - 128.0,
        f32::from(red) - 128.0,
    );
    let rgb = [
        y + 1.402 * cr,
        y - 0.344_136 * cb - 0.714_136 * cr,
        y + 1.772 * cb,
    ];
    rgb.map(|it| it.round().clamp(0.0, 255.0) as u8)
}

/// Returns true if the image's own end-of-image marker is there: that of a thumbnail in the EXIF does not
/// count, because whole segments are stepped over.
fn has_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    let mut in_scan = false;
    while let Some(&[first, marker]) = bytes.get(at..at + 2).and_then(|two| two.first_chunk()) {
        at += match (first, marker) {
            (0xff, 0xd9) => return true,
            // Fill bytes, and outside of scans also whatever a careless writer left between segments.
            (0xff, 0xff) => 1,
            (0xff, 0x00 | 0x01 | 0xd0..=0xd8) => 2,
            (0xff, _) => {
                let Some(&length) = bytes.get(at + 2..).and_then(|rest| rest.first_chunk()) else {
                    return false;
                };
                in_scan = marker == 0xda;
                2 + usize::from(u16::from_be_bytes(length)).max(2)
            }
            _ if in_scan => {
                // Nearly all bytes are entropy-coded data: skip to the next possible marker at once.
                let rest = &bytes[at + 1..];
                1 + rest
                    .iter()
                    .position(|byte| *byte == 0xff)
                    .unwrap_or(rest.len())
            }
            _ => 1,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::has_end;

    #[test]
    fn the_end_of_a_thumbnail_is_not_the_end_of_the_image() {
        let thumbnail = b"\xff\xd8\xff\xe1\0\x06\xff\xd9\0\0\xff\xda\0\x02abc";
        assert!(!has_end(thumbnail));
        assert!(has_end(&[thumbnail.as_slice(), b"\xff\0\xff\xd9"].concat()));
    }
}
