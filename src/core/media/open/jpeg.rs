//! JPEG: baseline and progressive, grey, YCbCr, RGB, and CMYK and YCCK as Adobe's programs write them.
//!
//! The decoder fills what is missing of a cut-off file with grey; so the end is looked for first.

use std::io::{Cursor, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::jpeg::JpegDecoder;
use image::{DynamicImage, ImageDecoder as _};

use super::other::rgb_picture;
use super::{Decoded, Failure, Input, check_size};

/// A JPEG is held in memory as a whole; one of the largest permitted picture is far smaller.
const MAX_JPEG_BYTES: u64 = 600_000_000;

/// Each block of 8 × 8 pixels takes a bit at least.
const MAX_PIXELS_A_BYTE: u64 = 8 * 64;

pub(super) fn decode(file: Input) -> Result<Decoded, Failure> {
    let mut bytes = Vec::new();
    file.take(MAX_JPEG_BYTES)
        .read_to_end(&mut bytes)
        .map_err(Failure::Io)?;
    if !has_end(&bytes) {
        return Err(Failure::Truncated);
    }
    let most_pixels = bytes.len() as u64 * MAX_PIXELS_A_BYTE;
    let mut decoder = JpegDecoder::new(Cursor::new(bytes))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    // Before there is room made for all of it.
    if u64::from(width) * u64::from(height) > most_pixels {
        return Err(Failure::Truncated);
    }
    let orientation = decoder.orientation()?;
    // zune-jpeg 0.5 panics at some damaged headers.
    let decoded = catch_unwind(AssertUnwindSafe(|| DynamicImage::from_decoder(decoder)));
    let Ok(decoded) = decoded else {
        return Err(Failure::Damaged(
            "its components do not go together".to_owned(),
        ));
    };
    Ok(Decoded {
        picture: rgb_picture(decoded?)?,
        orientation,
    })
}

/// Whether the picture's own end-of-image marker is there: that of a thumbnail in the EXIF does not
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
    fn the_end_of_a_thumbnail_is_not_the_end_of_the_picture() {
        let thumbnail = b"\xff\xd8\xff\xe1\0\x06\xff\xd9\0\0\xff\xda\0\x02abc";
        assert!(!has_end(thumbnail));
        assert!(has_end(&[thumbnail.as_slice(), b"\xff\0\xff\xd9"].concat()));
    }
}
