//! Small pictures for lists and previews: quick and smooth, never larger than the original.
//!
//! Not for what a model sees: that is resized with Lanczos.

use super::resize::{Filter, resample};
use super::{MediaError, Picture};

/// `picture` shrunk to fit into `max_width × max_height` in its own proportions, each pixel the mean of
/// those that it stands for. A picture that fits stays as it is.
pub fn thumbnail(
    picture: &Picture,
    max_width: u32,
    max_height: u32,
) -> Result<Picture, MediaError> {
    if max_width == 0 || max_height == 0 {
        return Err(MediaError::no_pixels(max_width, max_height));
    }
    let (width, height) = thumbnail_size((picture.width, picture.height), max_width, max_height);
    resample(picture, width, height, Filter::Box)
}

/// Width and height of the [`thumbnail`] of a picture of this width and height. No side may be zero.
pub fn thumbnail_size((width, height): (u32, u32), max_width: u32, max_height: u32) -> (u32, u32) {
    let scale_x = f64::from(max_width) / f64::from(width);
    let scale_y = f64::from(max_height) / f64::from(height);
    let scale = scale_x.min(scale_y).min(1.0);
    let side = |side: u32, max: u32| ((f64::from(side) * scale).round() as u32).clamp(1, max);
    (side(width, max_width), side(height, max_height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbnail_fits_and_keeps_its_proportions() {
        let picture = Picture::from_fn(300, 200, |x, y| [(x % 256) as u8, y as u8, 7]).unwrap();
        let small = thumbnail(&picture, 64, 64).unwrap();
        assert_eq!((small.width, small.height), (64, 43));
        let sliver = Picture::from_fn(1000, 1, |_, _| [9; 3]).unwrap();
        let small = thumbnail(&sliver, 10, 10).unwrap();
        assert_eq!(
            (small.width, small.height, small.pixel(5, 0)),
            (10, 1, [9; 3])
        );
    }

    #[test]
    fn each_pixel_is_the_mean_of_those_it_stands_for() {
        let picture = Picture::from_fn(4, 4, |x, y| [(x / 2 * 100 + y % 2 * 10) as u8; 3]).unwrap();
        let small = thumbnail(&picture, 2, 2).unwrap();
        assert_eq!(small.pixel(0, 0), [5; 3]);
        assert_eq!(small.pixel(1, 1), [105; 3]);
    }

    #[test]
    fn a_picture_that_fits_stays_as_it_is() {
        let picture = Picture::from_fn(5, 3, |x, _| [x as u8; 3]).unwrap();
        assert_eq!(thumbnail(&picture, 64, 64).unwrap(), picture);
    }
}
