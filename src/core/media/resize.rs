//! Resampling: Lanczos and box, to the same bytes as Pillow's `Image.resize`, and cropping.
//!
//! Models were trained on pictures that Pillow resized, so equal bytes matter more than speed.
//! The method: each output pixel is a weighted mean of the input pixels under the filter, which is
//! widened when shrinking. Weights are rounded to fixed point with 22 fractional bits; the two
//! directions are done one after the other, and the first one's result is rounded to 8 bits.

use super::{MediaError, Picture};

/// Fractional bits of a weight: what is left of 32 after 8 bits of pixel and 2 of headroom.
const WEIGHT_BITS: u32 = 22;

#[derive(Clone, Copy)]
pub(super) enum Filter {
    Box,
    Lanczos,
}

impl Filter {
    fn radius(self) -> f64 {
        match self {
            Self::Box => 0.5,
            Self::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        match self {
            Self::Box => f64::from(u8::from(x > -0.5 && x <= 0.5)),
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let angle = x * std::f64::consts::PI;
    angle.sin() / angle
}

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
    let (old_width, old_height) = (picture.width as usize, picture.height as usize);
    let (new_width, new_height) = (width as usize, height as usize);
    let resampled_rows =
        |rgb: &[u8]| resample_rows(rgb, old_width, &spans(old_width, new_width, filter));
    let resampled_columns = |rgb: &[u8], width: usize| {
        resample_columns(rgb, width * 3, &spans(old_height, new_height, filter))
    };
    let rgb = match (new_width == old_width, new_height == old_height) {
        (true, true) => picture.rgb.clone(),
        (true, false) => resampled_columns(&picture.rgb, old_width),
        (false, true) => resampled_rows(&picture.rgb),
        (false, false) if columns_first(old_width, old_height, new_width, new_height) => {
            resampled_rows(&resampled_columns(&picture.rgb, old_width))
        }
        (false, false) => resampled_columns(&resampled_rows(&picture.rgb), new_width),
    };
    Picture::new(width, height, rgb)
}

/// Which direction Pillow 13 does first. The order shows where the 8 bits in between clip, so it has
/// to be the same; the rule was found by comparing results over all sizes up to 70 × 70.
fn columns_first(old_width: usize, old_height: usize, width: usize, height: usize) -> bool {
    old_height.saturating_sub(height) > 2 * old_width.saturating_sub(width)
}

/// The input pixels that one output pixel is made of.
struct Span {
    first: usize,
    weights: Vec<i32>,
}

fn spans(old: usize, new: usize, filter: Filter) -> Vec<Span> {
    let scale = old as f64 / new as f64;
    let widening = scale.max(1.0);
    let radius = filter.radius() * widening;
    (0..new)
        .map(|i| {
            let center = (i as f64 + 0.5) * scale;
            let first = (center - radius + 0.5).max(0.0) as usize;
            let end = ((center + radius + 0.5) as usize).min(old);
            let weights: Vec<f64> = (first..end)
                .map(|x| filter.weight((x as f64 - center + 0.5) * (1.0 / widening)))
                .collect();
            let sum: f64 = weights.iter().sum();
            let fixed = |w: &f64| {
                let w = if sum == 0.0 { *w } else { w / sum };
                // Rounds halves away from zero; the cast cuts towards it.
                (w * f64::from(1 << WEIGHT_BITS) + 0.5_f64.copysign(w)) as i32
            };
            Span {
                first,
                weights: weights.iter().map(fixed).collect(),
            }
        })
        .collect()
}

fn to_byte(sum: i32) -> u8 {
    (sum >> WEIGHT_BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (WEIGHT_BITS - 1);

fn resample_rows(rgb: &[u8], old_width: usize, spans: &[Span]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rgb.len() / old_width * spans.len());
    for row in rgb.chunks_exact(old_width * 3) {
        for span in spans {
            let mut sums = [HALF; 3];
            let pixels = row[span.first * 3..].chunks_exact(3);
            for (pixel, weight) in pixels.zip(&span.weights) {
                for (sum, byte) in sums.iter_mut().zip(pixel) {
                    *sum += i32::from(*byte) * weight;
                }
            }
            out.extend(sums.map(to_byte));
        }
    }
    out
}

fn resample_columns(rgb: &[u8], stride: usize, spans: &[Span]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stride * spans.len());
    let mut sums = vec![0; stride];
    for span in spans {
        sums.fill(HALF);
        let rows = rgb[span.first * stride..].chunks_exact(stride);
        for (row, weight) in rows.zip(&span.weights) {
            for (sum, byte) in sums.iter_mut().zip(row) {
                *sum += i32::from(*byte) * weight;
            }
        }
        out.extend(sums.iter().map(|sum| to_byte(*sum)));
    }
    out
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
    use super::*;

    /// The same formula stands in the script that made the fixture.
    fn pattern(width: u32, height: u32) -> Picture {
        let byte =
            |x: u32, y: u32, c: u32| ((x * x * 7 + y * y * 5 + x * y * 3 + c * 50) % 256) as u8;
        Picture::from_fn(width, height, |x, y| [0, 1, 2].map(|c| byte(x, y, c))).unwrap()
    }

    fn fnv(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        })
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
            assert_eq!(fnv(&resized.rgb), numbers[4], "{line}");
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
