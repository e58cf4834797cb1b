//! Masks as files: any picture is one, by its brightness; what is painted becomes a grey PNG.

use std::path::Path;

use png::{BitDepth, ColorType, Compression, Encoder};

use super::ImageMask;
use crate::files::write_atomically;
use crate::media::{MediaError, RgbPixels, open_picture, resize_lanczos};

/// Opens a picture as a mask of this size: white is made anew. One of another size is stretched to it.
pub fn open_mask(path: &Path, width: u32, height: u32) -> Result<ImageMask, MediaError> {
    let picture = open_picture(path)?;
    if (picture.width, picture.height) == (width, height) {
        return Ok(mask_of_picture(&picture));
    }
    Ok(mask_of_picture(&resize_lanczos(&picture, width, height)?))
}

/// The brightness of a picture, as Pillow's `convert("L")` has it.
pub fn mask_of_picture(picture: &RgbPixels) -> ImageMask {
    let (pixels, _) = picture.rgb.as_chunks::<3>();
    let grey = pixels.iter().map(|[red, green, blue]| {
        let sum = 19595 * u32::from(*red) + 38470 * u32::from(*green) + 7471 * u32::from(*blue);
        ((sum + 0x8000) >> 16) as u8
    });
    ImageMask::from_values(picture.width, picture.height, grey.collect())
}

/// Writes values of this size as a grey PNG, whole or not at all.
pub fn write_mask(path: &Path, width: u32, height: u32, values: &[u8]) -> Result<(), MediaError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let encoded = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(values)?;
        writer.finish()
    });
    encoded
        .map_err(|err| MediaError::from_io("write the mask", std::io::Error::other(err), path))?;
    write_atomically(path, &bytes).map_err(|err| MediaError::from_io("write the mask", err, path))
}
