//! What a screen can show: a picture, or how far two of them differ; and the image that egui takes for it.
//!
//! Plain work on pixels. Which thread does it is `screen`'s to say.

use std::sync::Arc;

use egui::ColorImage;
use safelight_core::media::{Picture, resize_lanczos};

use crate::app::state::color_image;

/// So many pixels are an image in less than a millisecond.
const SMALL_PIXELS: u64 = 1 << 19;
/// More pixels are not looked at for a difference.
const MAX_DIFFERENCE_PIXELS: f64 = 1_000_000.0;

/// What a screen can show.
#[derive(Clone, Debug)]
pub enum Sight {
    Picture(Arc<Picture>),
    /// How far each pixel of B is from A's, so many times stronger.
    Difference {
        a: Arc<Picture>,
        b: Arc<Picture>,
        gain: u8,
    },
}

impl Sight {
    /// Whether it is sooner an image than a thread begins.
    pub(super) fn is_small(&self) -> bool {
        let pixels = |of: &Picture| u64::from(of.width) * u64::from(of.height);
        let all = match self {
            Self::Picture(picture) => pixels(picture),
            Self::Difference { a, b, .. } => pixels(a) + pixels(b),
        };
        all <= SMALL_PIXELS
    }

    /// In pixels, as it is told; its image may be larger.
    pub(super) fn size(&self) -> [u32; 2] {
        match self {
            Self::Picture(picture) => [picture.width, picture.height],
            Self::Difference { a, .. } => difference_size(a),
        }
    }

    /// As egui takes it.
    pub(super) fn image(&self) -> ColorImage {
        match self {
            Self::Picture(picture) => enlarged(picture),
            Self::Difference { a, b, gain } => {
                difference(a, b, *gain).map_or_else(|| color_image(a), |far| enlarged(&far))
            }
        }
    }
}

impl PartialEq for Sight {
    /// Of the very same pictures: their pixels are not looked at.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Picture(mine), Self::Picture(theirs)) => Arc::ptr_eq(mine, theirs),
            (
                Self::Difference { a, b, gain },
                Self::Difference {
                    a: their_a,
                    b: their_b,
                    gain: their_gain,
                },
            ) => Arc::ptr_eq(a, their_a) && Arc::ptr_eq(b, their_b) && gain == their_gain,
            _ => false,
        }
    }
}

/// Small pictures are enlarged smoothly here, because a texture's own filter shows its pixels as
/// diamonds.
fn enlarged(picture: &Picture) -> ColorImage {
    const SMALL_SIDE: u32 = 128;
    const TARGET_SIDE: u32 = 384;
    let side = picture.width.max(picture.height);
    if side == 0 || side > SMALL_SIDE {
        return color_image(picture);
    }
    let factor = (TARGET_SIDE / side).max(1);
    resize_lanczos(picture, picture.width * factor, picture.height * factor)
        .map_or_else(|_| color_image(picture), |large| color_image(&large))
}

/// The first one's size or less.
fn difference_size(a: &Picture) -> [u32; 2] {
    let pixels = f64::from(a.width) * f64::from(a.height);
    let scale = (MAX_DIFFERENCE_PIXELS / pixels).sqrt().min(1.0);
    [a.width, a.height].map(|side| ((f64::from(side) * scale) as u32).max(1))
}

/// How far each pixel is from the other's, so many times stronger.
fn difference(a: &Picture, b: &Picture, gain: u8) -> Option<Picture> {
    let [width, height] = difference_size(a);
    let far = |a: u8, b: u8| a.abs_diff(b).saturating_mul(gain);
    let sizes = [(a.width, a.height), (b.width, b.height)];
    if sizes == [(width, height); 2] {
        let rgb = a.rgb.iter().zip(&b.rgb).map(|(a, b)| far(*a, *b));
        return Picture::new(width, height, rgb.collect()).ok();
    }
    let column =
        |x: u32, of: &Picture| (u64::from(x) * u64::from(of.width) / u64::from(width)) as u32;
    let line =
        |y: u32, of: &Picture| (u64::from(y) * u64::from(of.height) / u64::from(height)) as u32;
    Picture::from_fn(width, height, |x, y| {
        let [r0, g0, b0] = a.pixel(column(x, a), line(y, a));
        let [r1, g1, b1] = b.pixel(column(x, b), line(y, b));
        [far(r0, r1), far(g0, g1), far(b0, b1)]
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_black_where_nothing_differs_and_stronger_where_asked() {
        let a = Picture::from_fn(8, 4, |x, _| [100, x as u8, 0]).unwrap();
        let b = Picture::from_fn(8, 4, |x, _| [103, x as u8, 200]).unwrap();
        let far = difference(&a, &b, 4).unwrap();
        assert_eq!(far.pixel(3, 2), [12, 0, 255]);
        assert_eq!(difference(&a, &a, 16).unwrap().pixel(7, 3), [0; 3]);
        // Another size, and far more pixels than a screen has.
        let large = Picture::from_fn(3000, 2000, |_, _| [100, 0, 0]).unwrap();
        let far = difference(&large, &a, 1).unwrap();
        assert!(far.width * far.height <= 1_000_000);
        assert_eq!([far.width, far.height], difference_size(&large));
        assert_eq!(far.pixel(0, 0), [0; 3]);
    }
}
