//! Whether a picture has transparent parts. They are dropped when it is opened, so people are told before.

use std::io::{BufReader, Seek as _};
use std::path::Path;

use image::{DynamicImage, ImageDecoder as _, ImageReader};

use super::{Kind, MAX_PIXELS, kind, other, tiff};
use crate::formats::{ByteSource, webp};

/// Whether any pixel of the picture is transparent. What cannot be read is not: who opens it says why.
pub fn has_transparency(path: &Path) -> bool {
    let Ok(opened) = kind::open_file(path, "read the picture") else {
        return false;
    };
    let mut file = BufReader::new(opened.file);
    let is_sound = match opened.kind {
        Kind::Tiff => tiff::check_lists(&mut file, opened.len).is_ok(),
        Kind::WebP => {
            let sizes = webp::check_sizes(&mut ByteSource::new(&mut file, opened.len));
            sizes.is_ok() && file.rewind().is_ok()
        }
        _ => true,
    };
    if !is_sound {
        return false;
    }
    let mut reader = ImageReader::new(file);
    reader.limits(other::limits(0, 0));
    let Ok(reader) = reader.with_guessed_format() else {
        return false;
    };
    let Ok(mut decoder) = reader.into_decoder() else {
        return false;
    };
    let (width, height) = decoder.dimensions();
    let is_small = u64::from(width) * u64::from(height) <= MAX_PIXELS;
    // Most pictures have no alpha, and are not decoded twice.
    if !is_small || !decoder.color_type().has_alpha() {
        return false;
    }
    if decoder.set_limits(other::limits(width, height)).is_err() {
        return false;
    }
    DynamicImage::from_decoder(decoder).is_ok_and(|picture| match &picture {
        DynamicImage::ImageRgba8(rgba) => rgba.pixels().any(|pixel| pixel[3] < u8::MAX),
        DynamicImage::ImageLumaA8(grey) => grey.pixels().any(|pixel| pixel[1] < u8::MAX),
        other => other.to_rgba8().pixels().any(|pixel| pixel[3] < u8::MAX),
    })
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, Rgba, RgbaImage};

    use super::*;

    #[test]
    fn only_a_picture_with_see_through_pixels_is_transparent() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let save = |name: &str, alpha| {
            let picture = RgbaImage::from_pixel(4, 4, Rgba([9, 9, 9, alpha]));
            picture.save(path(name)).unwrap();
        };
        save("clear.png", 0);
        save("solid.png", 255);
        let plain = RgbImage::from_pixel(4, 4, Rgb([9; 3]));
        plain.save(path("plain.png")).unwrap();
        std::fs::write(path("notes.png"), "just text").unwrap();
        let found = [
            "clear.png",
            "solid.png",
            "plain.png",
            "notes.png",
            "gone.png",
        ]
        .map(|name| has_transparency(&path(name)));
        assert_eq!(found, [true, false, false, false, false]);
    }
}
