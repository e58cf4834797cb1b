//! Reference images of FLUX.2: at most a megapixel, cropped to whole tokens.

use safelight_core::media::{self, RgbPixels};

use crate::error::EngineError;
use crate::stages::images::ReferenceEncoding;

/// Larger images are downscaled.
const SEEN_PIXELS: f64 = 1024.0 * 1024.0;
/// Edge of a token in pixels.
const TOKEN_PIXELS: u32 = 16;
/// Limits of diffusers: the shorter edge, and the aspect ratio.
const SMALLEST_EDGE: u32 = 64;
const LARGEST_RATIO: u32 = 8;

pub(super) const ENCODING: ReferenceEncoding = ReferenceEncoding::of(|image, _| prepared(image));

/// Downscales to at most a megapixel and crops to the middle that whole tokens cover.
fn prepared(picture: &RgbPixels) -> Result<RgbPixels, EngineError> {
    let (width, height) = (picture.width, picture.height);
    let (least, most) = (width.min(height), width.max(height));
    if least < SMALLEST_EDGE || most > LARGEST_RATIO * least {
        return Err(EngineError::request(format!(
            "a reference picture has {width} × {height} pixels, and this model sees pictures from {SMALLEST_EDGE} × {SMALLEST_EDGE} pixels on whose one edge is at most {LARGEST_RATIO} times the other"
        )));
    }
    let pixels = f64::from(width) * f64::from(height);
    let smaller = (pixels > SEEN_PIXELS).then(|| {
        let scale = (SEEN_PIXELS / pixels).sqrt();
        let scaled = |edge: u32| (f64::from(edge) * scale) as u32;
        media::resize_lanczos(picture, scaled(width), scaled(height))
    });
    let picture = smaller.transpose()?.unwrap_or_else(|| picture.clone());
    let cut = |edge: u32| edge / TOKEN_PIXELS * TOKEN_PIXELS;
    Ok(media::crop_centre(
        &picture,
        cut(picture.width),
        cut(picture.height),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_seen_in_whole_tokens_of_at_most_a_megapixel() {
        let of = |width, height| RgbPixels::from_fn(width, height, |_, _| [0; 3]).unwrap();
        for (size, expected) in [
            ((100, 70), (96, 64)),
            ((64, 64), (64, 64)),
            ((1024, 1024), (1024, 1024)),
            ((2000, 1000), (1440, 720)),
            ((1040, 1024), (1024, 1008)),
        ] {
            let seen = prepared(&of(size.0, size.1)).unwrap();
            assert_eq!((seen.width, seen.height), expected, "{size:?}");
        }
        for (width, height) in [(63, 200), (600, 70)] {
            let err = prepared(&of(width, height)).unwrap_err().to_string();
            assert!(err.contains(&format!("{width} × {height}")), "{err}");
        }
        // The middle is kept.
        let columns = RgbPixels::from_fn(70, 64, |x, _| [x as u8; 3]).unwrap();
        assert_eq!(prepared(&columns).unwrap().rgb[0], 3);
    }
}
