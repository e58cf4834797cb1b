//! WebP, BMP and most TIFFs through the `image` crate, and what its decoders give as plain RGB.
//!
//! What those decoders refuse is refused here too.

use std::io::{BufRead, Seek};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits};

use super::super::Picture;
use super::{
    Decoded, Failure, MAX_DECODED_BYTES, check_size, drop_alpha, one_line, picture_from_rgb,
};

pub(in crate::media) fn decode(
    file: impl BufRead + Seek,
    format: ImageFormat,
) -> Result<Decoded, Failure> {
    let mut reader = ImageReader::with_format(file, format);
    reader.limits(limits());
    let mut decoder = reader.into_decoder().map_err(failure)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    if decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(Failure::Unsupported("it needs too much memory".to_owned()));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let decoded = DynamicImage::from_decoder(decoder).map_err(failure)?;
    Ok(Decoded {
        picture: rgb_picture(decoded)?,
        orientation,
    })
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    // The number of pixels is checked with a better sentence.
    limits.max_image_width = None;
    limits.max_image_height = None;
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    limits
}

pub(in crate::media) fn failure(err: ImageError) -> Failure {
    match err {
        ImageError::Unsupported(err) => Failure::Unsupported(one_line(&err.to_string())),
        ImageError::Limits(_) => Failure::Unsupported("it needs too much memory".to_owned()),
        ImageError::IoError(err) => Failure::from_io(&err),
        err => Failure::from_words(&err.to_string()),
    }
}

/// Plain RGB: alpha is dropped, of 16 bits the high byte stays, floating point is cut to 0–1.
pub(super) fn rgb_picture(decoded: DynamicImage) -> Result<Picture, Failure> {
    let (width, height) = (decoded.width(), decoded.height());
    let high_bytes = |samples: Vec<u16>| samples.iter().map(|sample| (sample >> 8) as u8).collect();
    let rgb = match decoded {
        DynamicImage::ImageRgb8(buffer) => buffer.into_raw(),
        DynamicImage::ImageRgba8(buffer) => drop_alpha(buffer.into_raw(), 4),
        DynamicImage::ImageLuma8(buffer) => drop_alpha(buffer.into_raw(), 1),
        DynamicImage::ImageLumaA8(buffer) => drop_alpha(buffer.into_raw(), 2),
        DynamicImage::ImageLuma16(buffer) => drop_alpha(high_bytes(buffer.into_raw()), 1),
        DynamicImage::ImageLumaA16(buffer) => drop_alpha(high_bytes(buffer.into_raw()), 2),
        DynamicImage::ImageRgb16(buffer) => high_bytes(buffer.into_raw()),
        DynamicImage::ImageRgba16(buffer) => drop_alpha(high_bytes(buffer.into_raw()), 4),
        float => float.into_rgb8().into_raw(),
    };
    picture_from_rgb(width, height, rgb)
}
