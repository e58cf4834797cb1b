//! Images at other sizes, to the same bytes as Pillow's `Image.resize`, thumbnails, and cropping.
//!
//! Models were trained on images that Pillow resized, so equal bytes matter more than speed.

use safelight_loops::resize::{self, ResizeFilter};

use super::{MediaError, RgbPixels};

/// `image` at `width × height`, resampled with Lanczos: the same bytes as Pillow's `LANCZOS`.
pub fn resize_lanczos(image: &RgbPixels, width: u32, height: u32) -> Result<RgbPixels, MediaError> {
    resample(image, width, height, ResizeFilter::Lanczos)
}

fn resample(
    image: &RgbPixels,
    width: u32,
    height: u32,
    filter: ResizeFilter,
) -> Result<RgbPixels, MediaError> {
    if width == 0 || height == 0 {
        return Err(MediaError::no_pixels(width, height));
    }
    let old = (image.width as usize, image.height as usize);
    let new = (width as usize, height as usize);
    let resampled =
        |rgb: &[u8]| RgbPixels::new(width, height, resize::resample(rgb, old, new, filter));
    let Some(alpha) = &image.alpha else {
        return resampled(&image.rgb);
    };
    // Colours weighted by opacity, so that those of transparent pixels do not bleed.
    let weighted = image.rgb.as_chunks::<3>().0.iter().zip(alpha);
    let weighted = weighted.flat_map(|(rgb, alpha)| rgb.map(|colour| scaled(colour, *alpha, 255)));
    let opacity: Vec<u8> = alpha.iter().flat_map(|alpha| [*alpha; 3]).collect();
    let mut made = resampled(&weighted.collect::<Vec<u8>>())?;
    let opacity = resampled(&opacity)?.rgb.into_iter().step_by(3);
    let opacity: Vec<u8> = opacity.collect();
    for (pixel, alpha) in made.rgb.chunks_exact_mut(3).zip(&opacity) {
        for colour in pixel {
            *colour = scaled(*colour, 255, *alpha);
        }
    }
    made.alpha = Some(opacity);
    Ok(made)
}

/// `value * factor / divisor`, at most 255; 0 where the divisor is 0.
fn scaled(value: u8, factor: u8, divisor: u8) -> u8 {
    let (value, factor, divisor) = (u32::from(value), u32::from(factor), u32::from(divisor));
    let quotient = (value * factor + divisor / 2).checked_div(divisor);
    quotient.map_or(0, |found| found.min(255) as u8)
}

/// The largest part of `image` from its middle that has the shape of `width × height`.
pub fn crop_to_aspect(image: &RgbPixels, width: u32, height: u32) -> Result<RgbPixels, MediaError> {
    if width == 0 || height == 0 {
        return Err(MediaError::no_pixels(width, height));
    }
    let (old_width, old_height) = (u64::from(image.width), u64::from(image.height));
    let (width, height) = (u64::from(width), u64::from(height));
    let rounded = |a: u64, b: u64, c: u64| ((a * b + c / 2) / c).max(1);
    let (new_width, new_height) = if old_width * height > width * old_height {
        (
            rounded(old_height, width, height).min(old_width),
            old_height,
        )
    } else {
        (old_width, rounded(old_width, height, width).min(old_height))
    };
    crop_centre(image, new_width as u32, new_height as u32)
}

/// Centre of an image, of this width and height, or as much as there is.
pub fn crop_centre(image: &RgbPixels, width: u32, height: u32) -> Result<RgbPixels, MediaError> {
    let (width, height) = (width.min(image.width), height.min(image.height));
    let left = ((image.width - width) / 2) as usize * 3;
    let top = ((image.height - height) / 2) as usize;
    let bytes = width as usize * 3;
    let rgb = (top..top + height as usize)
        .flat_map(|y| &image.row(y)[left..left + bytes])
        .copied()
        .collect();
    RgbPixels::new(width, height, rgb)
}

/// `image` shrunk to fit into `max_width × max_height` in its own proportions, each pixel the mean of
/// those that it covers. An image that fits stays as it is.
pub fn thumbnail(
    image: &RgbPixels,
    max_width: u32,
    max_height: u32,
) -> Result<RgbPixels, MediaError> {
    if max_width == 0 || max_height == 0 {
        return Err(MediaError::no_pixels(max_width, max_height));
    }
    let (width, height) = thumbnail_size((image.width, image.height), max_width, max_height);
    resample(image, width, height, ResizeFilter::Box)
}

/// Width and height of the [`thumbnail`] of an image of this width and height. No side may be zero.
pub fn thumbnail_size((width, height): (u32, u32), max_width: u32, max_height: u32) -> (u32, u32) {
    let scale_x = f64::from(max_width) / f64::from(width);
    let scale_y = f64::from(max_height) / f64::from(height);
    let scale = scale_x.min(scale_y).min(1.0);
    let side = |side: u32, max: u32| ((f64::from(side) * scale).round() as u32).clamp(1, max);
    (side(width, max_width), side(height, max_height))
}

#[cfg(test)]
mod tests {
    use safelight_loops::hash::{OFFSET, hashed};

    use super::*;

    /// As in the script that made the fixture.
    fn pattern(width: u32, height: u32) -> RgbPixels {
        let byte =
            |x: u32, y: u32, c: u32| ((x * x * 7 + y * y * 5 + x * y * 3 + c * 50) % 256) as u8;
        RgbPixels::from_fn(width, height, |x, y| [0, 1, 2].map(|c| byte(x, y, c))).unwrap()
    }

    #[test]
    fn colours_of_transparent_pixels_do_not_bleed_when_an_image_with_alpha_is_resized() {
        let mut image =
            RgbPixels::from_fn(8, 8, |x, _| if x < 4 { [255, 0, 0] } else { [0, 0, 255] }).unwrap();
        image.alpha = Some((0..64).map(|at| if at % 8 < 4 { 0 } else { 255 }).collect());
        let small = resize_lanczos(&image, 4, 4).unwrap();
        let alpha = small.alpha.unwrap();
        assert!(alpha[0] == 0 && alpha[3] == 255, "{alpha:?}");
        for (rgb, alpha) in small.rgb.as_chunks::<3>().0.iter().zip(alpha) {
            assert!(
                rgb[0] == 0 && (alpha < 32 || rgb[2] > 220),
                "{rgb:?} {alpha}"
            );
        }
    }

    #[test]
    fn every_size_comes_out_as_pillow_makes_it() {
        let table = include_str!("../../../tests/fixtures/media/resize.txt");
        assert_eq!(table.lines().count(), 300);
        for line in table.lines() {
            let (name, numbers) = line.split_once(' ').unwrap();
            let numbers: Vec<u64> = numbers
                .split(' ')
                .map(|word| word.parse().unwrap())
                .collect();
            let [width, height, new_width, new_height] =
                [0, 1, 2, 3].map(|i| u32::try_from(numbers[i]).unwrap());
            let filter = if name == "box" {
                ResizeFilter::Box
            } else {
                ResizeFilter::Lanczos
            };
            let resized = resample(&pattern(width, height), new_width, new_height, filter).unwrap();
            assert_eq!((resized.width, resized.height), (new_width, new_height));
            assert_eq!(hashed(OFFSET, &resized.rgb), numbers[4], "{line}");
        }
    }

    #[test]
    fn a_size_without_pixels_is_refused() {
        assert!(resize_lanczos(&pattern(3, 3), 0, 3).is_err());
        assert!(crop_to_aspect(&pattern(3, 3), 3, 0).is_err());
    }

    #[test]
    fn a_crop_takes_the_middle_in_the_wanted_shape() {
        let wide = crop_to_aspect(&pattern(100, 40), 16, 9).unwrap();
        assert_eq!((wide.width, wide.height), (71, 40));
        assert_eq!(wide.pixel(0, 0), pattern(100, 40).pixel(14, 0));
        let tall = crop_to_aspect(&pattern(100, 40), 1, 4).unwrap();
        assert_eq!((tall.width, tall.height), (10, 40));
        assert_eq!(tall.pixel(9, 39), pattern(100, 40).pixel(54, 39));
        let low = crop_to_aspect(&pattern(30, 100), 3, 1).unwrap();
        assert_eq!((low.width, low.height), (30, 10));
        assert_eq!(low.pixel(0, 0), pattern(30, 100).pixel(0, 45));
        let sliver = crop_to_aspect(&pattern(5, 5), 1000, 1).unwrap();
        assert_eq!((sliver.width, sliver.height), (5, 1));
    }

    #[test]
    fn a_thumbnail_fits_and_keeps_its_proportions() {
        let image = RgbPixels::from_fn(300, 200, |x, y| [(x % 256) as u8, y as u8, 7]).unwrap();
        let small = thumbnail(&image, 64, 64).unwrap();
        assert_eq!((small.width, small.height), (64, 43));
        let sliver = RgbPixels::from_fn(1000, 1, |_, _| [9; 3]).unwrap();
        let small = thumbnail(&sliver, 10, 10).unwrap();
        assert_eq!(
            (small.width, small.height, small.pixel(5, 0)),
            (10, 1, [9; 3])
        );
    }

    #[test]
    fn thumbnail_pixels_are_the_mean_of_their_source_pixels() {
        let image = RgbPixels::from_fn(4, 4, |x, y| [(x / 2 * 100 + y % 2 * 10) as u8; 3]).unwrap();
        let small = thumbnail(&image, 2, 2).unwrap();
        assert_eq!(small.pixel(0, 0), [5; 3]);
        assert_eq!(small.pixel(1, 1), [105; 3]);
    }

    #[test]
    fn an_image_that_fits_stays_as_it_is() {
        let image = RgbPixels::from_fn(5, 3, |x, _| [x as u8; 3]).unwrap();
        assert_eq!(thumbnail(&image, 64, 64).unwrap(), image);
    }
}
