//! WebP, BMP and most TIFFs through the `image` crate, converted to RGB.
//!
//! Files that its decoders refuse are refused here too.

use std::io::{BufRead, Seek};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::super::RgbPixels;
use super::{
    DeclaredColours, DecodeFailure, DecodedImage, MAX_DECODED_BYTES, OTHER_MAKE, check_size,
    decoder_bytes, drop_alpha, image_from_rgb,
};

/// Notice on floating-point samples.
const CLIPPED: &str = "Values above 1 are clipped to white";

pub(in crate::media) fn decode(
    file: impl BufRead + Seek,
    format: ImageFormat,
) -> Result<DecodedImage, DecodeFailure> {
    let mut reader = ImageReader::with_format(file, format);
    reader.limits(limits(0, 0));
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    decoder.set_limits(limits(width, height))?;
    if decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(DecodeFailure::too_much_memory());
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let colours = colours_of(&mut decoder);
    let image = DynamicImage::from_decoder(decoder)?;
    let is_above = |sample: &f32| *sample > 1.0 + f32::EPSILON;
    let unused = match &image {
        DynamicImage::ImageRgb32F(it) if it.iter().any(is_above) => vec![CLIPPED.to_owned()],
        DynamicImage::ImageRgba32F(it) if it.iter().any(is_above) => vec![CLIPPED.to_owned()],
        _ => Vec::new(),
    };
    Ok(DecodedImage {
        image,
        colours,
        orientation,
        unused,
    })
}

/// Colours that a decoder found before the pixels.
pub(in crate::media) fn colours_of(decoder: &mut impl ImageDecoder) -> DeclaredColours {
    let profile = decoder.icc_profile().ok().flatten();
    let exif = decoder.exif_metadata().ok().flatten();
    DeclaredColours::from_metadata(profile, exif.as_deref())
}

/// Limits of a decoder for an image of this declared size; 0 before the size is known.
pub(in crate::media) fn limits(width: u32, height: u32) -> Limits {
    let mut limits = Limits::default();
    // The number of pixels is checked with a better sentence.
    limits.max_image_width = None;
    limits.max_image_height = None;
    limits.max_alloc = Some(decoder_bytes(width, height));
    limits
}

impl From<ImageError> for DecodeFailure {
    fn from(err: ImageError) -> Self {
        match err {
            ImageError::Unsupported(_) => Self::Unsupported(OTHER_MAKE.to_owned()),
            ImageError::Limits(_) => Self::too_much_memory(),
            ImageError::IoError(err) => err.into(),
            err => Self::from_words(&err.to_string()),
        }
    }
}

/// Plain RGB: alpha is dropped, of 16 bits the high byte stays, floating point is cut to 0–1.
pub(super) fn rgb_image(decoded: DynamicImage) -> Result<RgbPixels, DecodeFailure> {
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
    image_from_rgb(width, height, rgb)
}
