//! A plain RGB picture in memory.
//!
//! Knows no file format.

/// A picture: rows from the top, red, green and blue of each pixel, 8 bits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// `width * height * 3` bytes.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// A picture of these bytes; `None` when their number does not fit the size.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Option<Self> {
        let expected = (width as usize)
            .checked_mul(height as usize)?
            .checked_mul(3)?;
        (width > 0 && height > 0 && rgb.len() == expected).then_some(Self { width, height, rgb })
    }
}
