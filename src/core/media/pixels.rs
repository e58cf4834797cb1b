//! A plain image in memory: 8-bit RGB, rows from the top, no padding.
//!
//! It has no alpha, no colour profile and no format; reading and writing files is elsewhere.

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
}

impl RgbPixels {
    /// Takes over `rgb`, which must hold exactly three bytes a pixel, row by row from the top.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, MediaError> {
        if width == 0 || height == 0 {
            return Err(MediaError::no_pixels(width, height));
        }
        let image = Self { width, height, rgb };
        if image.is_consistent() {
            return Ok(image);
        }
        let expected = (u64::from(width) * u64::from(height)).saturating_mul(3);
        let found = image.rgb.len();
        Err(MediaError::other(format!(
            "expected {expected} bytes of pixels for {width} × {height}, found {found}"
        )))
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
        pixels > 0 && pixels.checked_mul(3) == Some(self.rgb.len() as u64)
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
