//! A plain image in memory: 8-bit RGB, for some results with alpha, rows from the top, no padding.
//!
//! It has no colour profile and no format; reading and writing files is elsewhere.

use super::MediaError;

/// An 8-bit RGB image. [`RgbPixels::new`] checks what the fields promise.
#[derive(Clone, PartialEq, Eq)]
pub struct RgbPixels {
    /// Pixels a row, at least one.
    pub width: u32,
    /// Rows, at least one.
    pub height: u32,
    /// `width * height * 3` bytes, row by row from the top.
    pub rgb: Vec<u8>,
    /// Opacity of each pixel, `width * height` bytes, of results with alpha; other images are opaque.
    pub alpha: Option<Vec<u8>>,
}

impl RgbPixels {
    /// Takes over `rgb`, which must hold exactly three bytes a pixel, row by row from the top.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, MediaError> {
        if width == 0 || height == 0 {
            return Err(MediaError::no_pixels(width, height));
        }
        let image = Self {
            width,
            height,
            rgb,
            alpha: None,
        };
        if image.is_consistent() {
            return Ok(image);
        }
        let expected = (u64::from(width) * u64::from(height)).saturating_mul(3);
        let found = image.rgb.len();
        Err(MediaError::other(format!(
            "expected {expected} bytes of pixels for {width} × {height}, found {found}"
        )))
    }

    /// Takes over all colours, and after them the opacity of each pixel if there are more bytes.
    pub fn from_planes(width: u32, height: u32, mut bytes: Vec<u8>) -> Result<Self, MediaError> {
        let pixels = u64::from(width) * u64::from(height);
        let has_alpha = bytes.len() as u64 == pixels.saturating_mul(4);
        let alpha = has_alpha.then(|| bytes.split_off(bytes.len() / 4 * 3));
        let image = Self::new(width, height, bytes)?;
        Ok(Self { alpha, ..image })
    }

    /// Bytes that [`Self::from_planes`] takes.
    pub fn planes(&self) -> Vec<u8> {
        [&*self.rgb, self.alpha.as_deref().unwrap_or_default()].concat()
    }

    /// Opaque, before a white background.
    pub fn over_white(&self) -> Self {
        let Some(alpha) = &self.alpha else {
            return self.clone();
        };
        let pixels = self.rgb.as_chunks::<3>().0.iter().zip(alpha);
        let over = |colour: u8, alpha: u8| {
            let (colour, alpha) = (u32::from(colour), u32::from(alpha));
            ((colour * alpha + 255 * (255 - alpha) + 127) / 255) as u8
        };
        let rgb = pixels.flat_map(|(rgb, alpha)| rgb.map(|colour| over(colour, *alpha)));
        Self {
            rgb: rgb.collect(),
            alpha: None,
            ..*self
        }
    }

    /// An image whose pixel at column `x` and row `y` is `colour(x, y)`.
    pub fn from_fn(
        width: u32,
        height: u32,
        mut colour: impl FnMut(u32, u32) -> [u8; 3],
    ) -> Result<Self, MediaError> {
        let rgb = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .flat_map(|(x, y)| colour(x, y))
            .collect();
        Self::new(width, height, rgb)
    }

    pub(super) fn is_consistent(&self) -> bool {
        let pixels = u64::from(self.width) * u64::from(self.height);
        let alpha = self.alpha.as_ref();
        pixels > 0
            && pixels.checked_mul(3) == Some(self.rgb.len() as u64)
            && alpha.is_none_or(|alpha| alpha.len() as u64 == pixels)
    }

    /// The pixel at column `x` and row `y`, both inside the image.
    pub fn pixel(&self, x: u32, y: u32) -> [u8; 3] {
        let at = (y as usize * self.width as usize + x as usize) * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }

    /// The bytes of row `y`.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let stride = self.width as usize * 3;
        &self.rgb[y * stride..(y + 1) * stride]
    }
}

impl std::fmt::Debug for RgbPixels {
    // The pixels would flood every failed assertion.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} × {})", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_the_wrong_length_is_refused() {
        let err = RgbPixels::new(2, 2, vec![0; 11]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "expected 12 bytes of pixels for 2 × 2, found 11"
        );
    }

    #[test]
    fn planes_keep_alpha_and_transparent_pixels_are_white_before_white() {
        let bytes = vec![10, 20, 30, 40, 50, 60, 0, 255];
        let image = RgbPixels::from_planes(2, 1, bytes.clone()).unwrap();
        assert_eq!(image.alpha, Some(vec![0, 255]));
        assert_eq!(image.planes(), bytes);
        assert_eq!(image.over_white().rgb, [255, 255, 255, 40, 50, 60]);
        let opaque = RgbPixels::from_planes(2, 1, bytes[..6].to_vec()).unwrap();
        assert_eq!(opaque.alpha, None);
        assert!(RgbPixels::from_planes(2, 1, bytes[..7].to_vec()).is_err());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(RgbPixels::new(u32::MAX, u32::MAX, Vec::new()).is_err());
        assert!(RgbPixels::new(0, 7, Vec::new()).is_err());
    }

    #[test]
    fn pixels_are_where_they_were_put() {
        let image = RgbPixels::from_fn(3, 2, |x, y| [x as u8, y as u8, 9]).unwrap();
        assert_eq!(image.pixel(2, 1), [2, 1, 9]);
        assert_eq!(image.row(1), [0, 1, 9, 1, 1, 9, 2, 1, 9]);
    }
}
