//! An image or frame that was read.

use crate::media::{AlphaChannel, RgbPixels};

/// An image or frame of a video, upright.
#[derive(Clone, Debug)]
pub struct OpenedImage {
    /// In sRGB.
    pub image: RgbPixels,
    /// `None` where all pixels are opaque.
    pub alpha: Option<AlphaChannel>,
    /// Colours that were converted to sRGB, in words.
    pub colours: Option<String>,
    /// Colours of the file that are not used, as a sentence.
    pub notice: Option<String>,
    /// Other parts of the file that are not used, each as a sentence.
    pub unused: Vec<String>,
}

/// Ends the words for colours that are HDR.
pub(super) const TONE_MAPPED: &str = ", tone mapped";

impl OpenedImage {
    /// HDR that the pixels do not keep, as a sentence.
    pub fn hdr_notice(&self) -> Option<String> {
        let (hdr, _) = self.colours.as_deref()?.split_once(TONE_MAPPED)?;
        Some(format!("{hdr} is tone mapped to SDR"))
    }
}

impl From<RgbPixels> for OpenedImage {
    /// An opaque image in sRGB.
    fn from(image: RgbPixels) -> Self {
        Self {
            image,
            alpha: None,
            colours: None,
            notice: None,
            unused: Vec::new(),
        }
    }
}

/// Notice on a file with several images, frames or pages.
pub(in crate::media) fn only_first(count: usize, parts: &str) -> Option<String> {
    (count > 1).then(|| format!("Only the first of {count} {parts} is used"))
}
