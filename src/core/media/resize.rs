//! Pictures at other sizes, to the same bytes as Pillow's `Image.resize`, and cropping.
//!
//! Models were trained on pictures that Pillow resized, so equal bytes matter more than speed.

use safelight_loops::resize;

use super::{MediaError, Picture};

pub(super) use resize::Filter;

/// `picture` at `width × height`, resampled with Lanczos: the same bytes as Pillow's `LANCZOS`.
pub fn resize_lanczos(picture: &Picture, width: u32, height: u32) -> Result<Picture, MediaError> {
    resample(picture, width, height, Filter::Lanczos)
}

pub(super) fn resample(
    picture: &Picture,
    width: u32,
    height: u32,
    filter: Filter,
) -> Result<Picture, MediaError> {
    if width == 0 || height == 0 {
        return Err(MediaError::no_pixels(width, height));
    }
    let old = (picture.width as usize, picture.height as usize);
    let new = (width as usize, height as usize);
    let rgb = resize::resample(&picture.rgb, old, new, filter);
    Picture::new(width, height, rgb)
}

/// The largest part of `picture` from its middle that has the shape of `width × height`.
pub fn crop_to_aspect(picture: &Picture, width: u32, height: u32) -> Result<Picture, MediaError> {
    if width == 0 || height == 0 {
        return Err(MediaError::no_pixels(width, height));
    }
    let (old_width, old_height) = (u64::from(picture.width), u64::from(picture.height));
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
    crop_centre(picture, new_width as u32, new_height as u32)
}

/// The middle of a picture, so many pixels wide and high, or as many as there are.
pub fn crop_centre(picture: &Picture, width: u32, height: u32) -> Result<Picture, MediaError> {
    let (width, height) = (width.min(picture.width), height.min(picture.height));
    let left = ((picture.width - width) / 2) as usize * 3;
    let top = ((picture.height - height) / 2) as usize;
    let bytes = width as usize * 3;
    let rgb = (top..top + height as usize)
        .flat_map(|y| &picture.row(y)[left..left + bytes])
        .copied()
        .collect();
    Picture::new(width, height, rgb)
}

#[cfg(test)]
mod tests {
    use safelight_loops::hash::{OFFSET, hashed};

    use super::*;

    /// The same formula stands in the script that made the fixture.
    fn pattern(width: u32, height: u32) -> Picture {
        let byte =
            |x: u32, y: u32, c: u32| ((x * x * 7 + y * y * 5 + x * y * 3 + c * 50) % 256) as u8;
        Picture::from_fn(width, height, |x, y| [0, 1, 2].map(|c| byte(x, y, c))).unwrap()
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
                Filter::Box
            } else {
                Filter::Lanczos
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
}
