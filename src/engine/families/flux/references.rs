//! The reference image of FLUX.1 Kontext: encoded at one of the sizes that the model was trained with.

use safelight_core::job::GenerateRequest;
use safelight_core::media::{self, RgbPixels};

use crate::error::EngineError;
use crate::stages::images::ReferenceEncoding;
use crate::stages::pictures::fitted;

/// Widths and heights that Kontext was trained with, narrow ones first.
const REFERENCE_SIZES: [(u32, u32); 17] = [
    (672, 1568),
    (688, 1504),
    (720, 1456),
    (752, 1392),
    (800, 1328),
    (832, 1248),
    (880, 1184),
    (944, 1104),
    (1024, 1024),
    (1104, 944),
    (1184, 880),
    (1248, 832),
    (1328, 800),
    (1392, 752),
    (1456, 720),
    (1504, 688),
    (1568, 672),
];

/// Kontext's pipeline has one reference image, under the names that others have for a start image.
pub(super) const ENCODING: ReferenceEncoding = ReferenceEncoding {
    prepared,
    picture: |_| "image".to_owned(),
    latents: |_| "image_latents".to_owned(),
};

fn prepared(picture: &RgbPixels, request: &GenerateRequest) -> Result<RgbPixels, EngineError> {
    let picture = fitted(picture, request)?;
    let (width, height) = reference_size(picture.width, picture.height);
    Ok(media::resize_lanczos(&picture, width, height)?)
}

/// The trained size with the most similar aspect ratio.
fn reference_size(width: u32, height: u32) -> (u32, u32) {
    // Sizes count in tokens here already.
    let cut = |edge: u32| f64::from((edge - edge % 16).max(16));
    let aspect = cut(width) / cut(height);
    let distance = |&(w, h): &(u32, u32)| (aspect - f64::from(w) / f64::from(h)).abs();
    let nearest = REFERENCE_SIZES
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.copied().unwrap_or((1024, 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_seen_at_the_size_of_the_nearest_aspect() {
        for ((width, height), expected) in [
            ((1000, 1000), (1024, 1024)),
            ((1920, 1080), (1392, 752)),
            ((1080, 1920), (752, 1392)),
            ((300, 200), (1248, 832)),
            ((4000, 10), (1568, 672)),
            ((10, 4000), (672, 1568)),
            ((1, 1), (1024, 1024)),
            // Cut to 96 by 80 first.
            ((111, 95), (1104, 944)),
        ] {
            assert_eq!(reference_size(width, height), expected, "{width} {height}");
        }
    }
}
