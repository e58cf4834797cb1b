//! What only FLUX.2 needs before the loop: the places of its tokens, pictures that it sees, and the shift of its schedule.

use safelight_core::media::{self, Picture};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::stages::stills::LatentShape;

/// How far apart in time the places of pictures are that are seen beside the one that is made.
const TIME_STEP: i64 = 10;
/// A larger picture is made smaller before it is seen.
const SEEN_PIXELS: f64 = 1024.0 * 1024.0;
/// Pixels along the edge of a token.
const TOKEN_PIXELS: u32 = 16;
/// What diffusers refuses: a smaller edge, and one that is so many times the other.
const SMALLEST_EDGE: u32 = 64;
const LARGEST_RATIO: u32 = 8;

/// The places of text tokens: time, row, column, and their order, which counts: `(tokens, 4)`
pub fn text_ids(tokens: i64) -> Tensor {
    let order = Tensor::arange(tokens, (Kind::Int64, Device::Cpu));
    let zeros = order.zeros_like();
    Tensor::stack(&[&zeros, &zeros, &zeros, &order], -1)
}

/// The places of a picture's tokens: 0, row, column and 0: `(tokens, 4)`
pub fn image_ids(shape: LatentShape) -> Tensor {
    let int64s = (Kind::Int64, Device::Cpu);
    let [rows, columns] = shape.grid();
    let row = Tensor::arange(rows, int64s).view([rows, 1]);
    let column = Tensor::arange(columns, int64s).view([1, columns]);
    let [row, column] = [row, column].map(|ids| ids.expand([rows, columns], false));
    let zeros = row.zeros_like();
    Tensor::stack(&[&zeros, &row, &column, &zeros], -1).flatten(0, 1)
}

/// The same for the pictures that are seen beside it, one behind the other: each ten further in time.
pub fn seen_ids(shapes: &[LatentShape]) -> Tensor {
    let ids = shapes.iter().zip(1..).map(|(shape, number)| {
        let ids = image_ids(*shape);
        drop(ids.select(1, 0).fill_(TIME_STEP * number));
        ids
    });
    Tensor::cat(&ids.collect::<Vec<_>>(), 0)
}

/// A picture as it is seen: of at most a megapixel, and the middle of it that whole tokens cover.
pub fn seen_picture(picture: &Picture) -> Result<Picture, EngineError> {
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

/// How much later noise goes in a picture of so many tokens and with so many steps, as the authors measured it:
/// `compute_empirical_mu` of diffusers.
pub fn mu(tokens: i64, num_steps: usize) -> f64 {
    const SEVERAL_STEPS: f64 = 10.0;
    const MANY_STEPS: f64 = 200.0;
    const LARGE_FROM: i64 = 4300;
    let large = 0.000_169_27 * tokens as f64 + 0.456_666_66;
    if tokens > LARGE_FROM {
        return large;
    }
    let few = 8.738_095_24e-5 * tokens as f64 + 1.898_333_33;
    let slope = (large - few) / (MANY_STEPS - SEVERAL_STEPS);
    slope * num_steps as f64 + (large - MANY_STEPS * slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_in_time_at_rows_and_columns_and_in_order() {
        let row = |ids: &Tensor, index: i64| -> Vec<i64> { ids.get(index).try_into().unwrap() };
        let shape = LatentShape::new(3, 48, 32).unwrap();
        assert_eq!(row(&text_ids(7), 5), [0, 0, 0, 5]);
        assert_eq!(row(&image_ids(shape), 5), [0, 1, 2, 0]);
        let small = LatentShape::new(3, 32, 16).unwrap();
        let seen = seen_ids(&[shape, small]);
        assert_eq!(seen.size(), [8, 4]);
        assert_eq!(row(&seen, 5), [10, 1, 2, 0]);
        assert_eq!(row(&seen, 7), [20, 0, 1, 0]);
    }

    #[test]
    fn a_picture_is_seen_in_whole_tokens_of_at_most_a_megapixel() {
        let of = |width, height| Picture::from_fn(width, height, |_, _| [0; 3]).unwrap();
        for (size, expected) in [
            ((100, 70), (96, 64)),
            ((64, 64), (64, 64)),
            ((1024, 1024), (1024, 1024)),
            ((2000, 1000), (1440, 720)),
            ((1040, 1024), (1024, 1008)),
        ] {
            let seen = seen_picture(&of(size.0, size.1)).unwrap();
            assert_eq!((seen.width, seen.height), expected, "{size:?}");
        }
        for (width, height) in [(63, 200), (600, 70)] {
            let err = seen_picture(&of(width, height)).unwrap_err().to_string();
            assert!(err.contains(&format!("{width} × {height}")), "{err}");
        }
        // The middle is kept.
        let columns = Picture::from_fn(70, 64, |x, _| [x as u8; 3]).unwrap();
        assert_eq!(seen_picture(&columns).unwrap().rgb[0], 3);
    }

    #[test]
    fn the_shift_is_that_of_diffusers() {
        for (tokens, steps, expected) in [
            (15, 4, 1.945_131_570_631_874),
            (4096, 4, 2.291_179_894_115_571),
            (4096, 50, 2.023_351_157_129_263),
            (4300, 28, 2.170_851_489_658_105),
            (4301, 28, 1.184_696_93),
        ] {
            let found = mu(tokens, steps);
            assert!(
                (found - expected).abs() < 1e-12,
                "{tokens} {steps}: {found}"
            );
        }
    }
}
