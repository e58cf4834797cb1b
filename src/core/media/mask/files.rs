//! Masks as files: any image is one, by its brightness; what is painted becomes a grey PNG.

use std::path::Path;

use png::{BitDepth, ColorType, Compression, Encoder};

use super::ImageMask;
use crate::files::write_atomically;
use crate::media::{MediaError, RgbPixels, open_rgb, resize_lanczos};

/// Opens an image as a mask of this size: white is made anew. One of another size is stretched to it.
pub fn open_mask(path: &Path, width: u32, height: u32) -> Result<ImageMask, MediaError> {
    let image = open_rgb(path)?;
    if (image.width, image.height) == (width, height) {
        return Ok(mask_of_image(&image));
    }
    Ok(mask_of_image(&resize_lanczos(&image, width, height)?))
}

/// The brightness of an image, as Pillow's `convert("L")` has it.
pub fn mask_of_image(image: &RgbPixels) -> ImageMask {
    let (pixels, _) = image.rgb.as_chunks::<3>();
    let grey = pixels.iter().map(|[red, green, blue]| {
        let sum = 19595 * u32::from(*red) + 38470 * u32::from(*green) + 7471 * u32::from(*blue);
        ((sum + 0x8000) >> 16) as u8
    });
    ImageMask::from_values(image.width, image.height, grey.collect())
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
        .map_err(|err| MediaError::from_io("write the mask", &std::io::Error::other(err), path))?;
    write_atomically(path, &bytes).map_err(|err| MediaError::from_io("write the mask", &err, path))
}
