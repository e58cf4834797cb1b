//! What only FLUX.1's transformer needs before the loop: the places of its tokens, and the size of a picture that it sees.
//!
//! Sizes, noise and masks are every picture's.

use safelight_core::job::GenerateRequest;
use safelight_core::media::{self, Picture};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::stages::pictures::fitted;
use crate::stages::stills::{LatentShape, Seeing};

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

/// The places of text tokens, which have none: `(tokens, 3)`
pub fn text_ids(tokens: i64) -> Tensor {
    Tensor::zeros([tokens, 3], (Kind::Float, Device::Cpu))
}

/// The places of a picture's tokens: 0, row and column: `(tokens, 3)`
pub fn image_ids(shape: LatentShape) -> Tensor {
    let f32s = (Kind::Float, Device::Cpu);
    let [rows, columns] = shape.grid();
    let row = Tensor::arange(rows, f32s).view([rows, 1]);
    let column = Tensor::arange(columns, f32s).view([1, columns]);
    let [row, column] = [row, column].map(|ids| ids.expand([rows, columns], false));
    Tensor::stack(&[row.zeros_like(), row, column], -1).flatten(0, 1)
}

/// The same for a picture that is only seen, beside the one that is made: 1, row and column.
pub fn reference_ids(shape: LatentShape) -> Tensor {
    let ids = image_ids(shape);
    drop(ids.select(1, 0).fill_(1.0));
    ids
}

/// Kontext's pipeline sees one picture, which it calls as others do the one that they begin from.
pub const SEEING: Seeing = Seeing {
    prepared: seen_picture,
    picture: |_| "image".to_owned(),
    latents: |_| "image_latents".to_owned(),
};

fn seen_picture(picture: &Picture, request: &GenerateRequest) -> Result<Picture, EngineError> {
    let picture = fitted(picture, request)?;
    let (width, height) = reference_size(picture.width, picture.height);
    Ok(media::resize_lanczos(&picture, width, height)?)
}

/// The size at which a model that sees a picture beside its own wants it: of those it was trained with, the one of the
/// most similar aspect.
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
    fn a_token_stands_at_its_row_and_column() {
        let ids = image_ids(LatentShape::new(3, 48, 32).unwrap());
        let ids: Vec<f32> = ids.get(5).try_into().unwrap();
        assert_eq!(ids, [0.0, 1.0, 2.0]);
    }

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
