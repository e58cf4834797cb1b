//! Reference images of FLUX.3: a single one stays whole, several are cropped.

use safelight_core::families::flux3::SINGLE_REFERENCE_PIXELS;
use safelight_core::media::{self, RgbPixels};

use crate::EngineError;
use crate::families::flux2::{TOKEN_PIXELS, within_megapixel};
use crate::stages::images::ReferenceEncoding;

/// Limits of a single image's edges with what is mirrored.
const EDGES: [u32; 2] = [64, 4096];
/// Factor by which an image shrinks until whole tokens cover it within the limits.
const SMALLER: f64 = 0.995;

pub(super) const ENCODING: ReferenceEncoding =
    ReferenceEncoding::of(|image, request| match request.references.len() {
        0 | 1 => whole(image),
        _ => within_megapixel(image),
    });

/// Downscales an image to at most four megapixels and mirrors it at its edges up to whole tokens.
fn whole(image: &RgbPixels) -> Result<RgbPixels, EngineError> {
    let canvas = |edge: u32| {
        let [least, most] = EDGES;
        edge.next_multiple_of(TOKEN_PIXELS).clamp(least, most)
    };
    let size = [image.width, image.height];
    let [width, height] = size.map(f64::from);
    let fitting = f64::from(EDGES[1]) / width.max(height);
    let smaller = (SINGLE_REFERENCE_PIXELS / (width * height)).sqrt();
    let mut scale = smaller.min(fitting).min(1.0);
    let [width, height] = loop {
        let scaled = size.map(|edge| (f64::from(edge) * scale).round_ties_even().max(1.0) as u32);
        let area: f64 = scaled.map(|edge| f64::from(canvas(edge))).iter().product();
        if area <= SINGLE_REFERENCE_PIXELS {
            break scaled;
        }
        scale *= SMALLER;
    };
    let smaller = ([width, height] != size).then(|| media::resize_lanczos(image, width, height));
    let smaller = smaller.transpose()?;
    let image = smaller.as_ref().unwrap_or(image);
    // A small image repeats the pixels at its edges.
    let repeated = i64::from(width.min(height) <= TOKEN_PIXELS);
    let mirrored = |place: u32, edge: u32| {
        let before = (canvas(edge) - edge) / 2;
        let (place, edge) = (i64::from(place) - i64::from(before), i64::from(edge));
        let period = 2 * (edge - 1 + repeated);
        let place = place.rem_euclid(period);
        let inside = if place < edge {
            place
        } else {
            period - place - repeated
        };
        inside as u32
    };
    Ok(RgbPixels::from_fn(
        canvas(width),
        canvas(height),
        |x, y| image.pixel(mirrored(x, width), mirrored(y, height)),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_image_is_whole_and_mirrored_to_whole_tokens_of_at_most_four_megapixels() {
        let size_of = |width, height| {
            let image = RgbPixels::from_fn(width, height, |_, _| [7; 3]).unwrap();
            let seen = whole(&image).unwrap();
            (seen.width, seen.height)
        };
        // As diffusers' `Flux3ImageProcessor` has it.
        for (size, expected) in [
            ((82, 70), (96, 80)),
            ((1024, 1024), (1024, 1024)),
            ((20, 300), (64, 304)),
            ((2048, 2050), (2048, 2048)),
            ((3000, 2000), (2496, 1664)),
            ((5000, 40), (4096, 64)),
        ] {
            assert_eq!(size_of(size.0, size.1), expected, "{size:?}");
        }
    }

    #[test]
    fn pixels_beyond_an_edge_are_those_before_it() {
        let columns = |width: u32| {
            let image = RgbPixels::from_fn(width, 64, |x, _| [x as u8; 3]).unwrap();
            let seen = whole(&image).unwrap();
            let row = (0..seen.width).map(|x| seen.pixel(x, 0)[0]);
            row.collect::<Vec<u8>>()
        };
        // Eleven on either side.
        let found = columns(42);
        assert_eq!(found[..13], [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1]);
        assert_eq!(found[52..56], [41, 40, 39, 38]);
        // 24 on either side of 16, whose edges are repeated.
        let found = columns(16);
        assert_eq!(found[..10], [8, 9, 10, 11, 12, 13, 14, 15, 15, 14]);
        assert_eq!(found[22..26], [1, 0, 0, 1]);
    }
}
