//! Opacity of an image, one value a pixel, which is enlarged apart from the colours.

use image::GrayImage;
use safelight_loops::alpha::{fill_transparent, limit_to_nearest};

use super::{MediaError, OpenedImage, RgbPixels, crop_to_aspect, resize_lanczos};

/// Opacity of each pixel: 0 is transparent, 255 opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlphaChannel {
    pub width: u32,
    pub height: u32,
    /// `width * height` values, row by row from the top.
    pub values: Vec<u8>,
}

impl AlphaChannel {
    /// Opacity of an image; `None` where all of it is opaque.
    pub(super) fn new(image: GrayImage) -> Option<Self> {
        let (width, height) = image.dimensions();
        let values = image.into_raw();
        let is_opaque = values.iter().all(|value| *value == u8::MAX);
        (!is_opaque).then_some(Self {
            width,
            height,
            values,
        })
    }

    /// Of an image that carries it.
    pub(super) fn of(image: &RgbPixels) -> Option<Self> {
        let values = image.alpha.clone()?;
        let image = GrayImage::from_raw(image.width, image.height, values)?;
        Self::new(image)
    }

    /// Cropped to the shape of `width × height` as [`crop_to_aspect`] does, and resampled to it with Lanczos, without
    /// its overshoot.
    pub fn resized(&self, width: u32, height: u32) -> Result<Self, MediaError> {
        let grey = self.values.iter().flat_map(|value| [*value; 3]).collect();
        let cropped = crop_to_aspect(
            &RgbPixels::new(self.width, self.height, grey)?,
            width,
            height,
        )?;
        let mut values = first_channel(&resize_lanczos(&cropped, width, height)?);
        if width >= cropped.width && height >= cropped.height {
            limit_to_nearest(
                &mut values,
                (width as usize, height as usize),
                &first_channel(&cropped),
                (cropped.width as usize, cropped.height as usize),
            );
        }
        Ok(Self {
            width,
            height,
            values,
        })
    }

    /// RGBA with the colours of an image of the same size.
    pub(super) fn joined(&self, image: &RgbPixels) -> Vec<u8> {
        let pixels = image.rgb.as_chunks::<3>().0.iter().zip(&self.values);
        pixels.flat_map(|([r, g, b], a)| [*r, *g, *b, *a]).collect()
    }
}

fn first_channel(image: &RgbPixels) -> Vec<u8> {
    image.rgb.iter().step_by(3).copied().collect()
}

impl OpenedImage {
    /// The image with its alpha.
    pub fn into_rgba(self) -> RgbPixels {
        RgbPixels {
            alpha: self.alpha.map(|alpha| alpha.values),
            ..self.image
        }
    }

    /// The colours, with those of transparent pixels replaced by the colours around them: hidden ones would bleed into
    /// the edges of what is visible when the image is enlarged.
    pub fn into_filled(self) -> RgbPixels {
        let Self {
            mut image, alpha, ..
        } = self;
        if let Some(alpha) = alpha {
            let size = (image.width as usize, image.height as usize);
            fill_transparent(&mut image.rgb, &alpha.values, size);
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_cropped_and_enlarged_without_halos() {
        let values = (0..64)
            .map(|at| if at % 16 < 8 { 0 } else { 255 })
            .collect();
        let alpha = AlphaChannel {
            width: 16,
            height: 4,
            values,
        };
        let large = alpha.resized(16, 16).unwrap();
        assert_eq!((large.width, large.height), (16, 16));
        assert_eq!(large.values[..6], [0; 6]);
        assert_eq!(large.values[10..16], [255; 6]);
    }
}
