//! Decoded frames as a screen shows them: square pixels, sRGB colours.

use crate::media::colour::{ColourConversion, hdr_words};
use crate::media::open::CicpColours;
use crate::media::resize::resize_lanczos;
use crate::media::{MediaError, RgbPixels};

/// Code of primaries and transfer characteristics that a file leaves open, in ITU-T H.273.
pub(super) const UNSPECIFIED: u8 = 2;

/// Width and height of a pixel in any unit; `None` or a 0 if the file does not say.
pub(super) type PixelAspect = Option<(u32, u32)>;

/// Pixels that are longer than this are a damaged header.
const MAX_ASPECT: u32 = 16;

pub(super) fn has_square_pixels(aspect: PixelAspect) -> bool {
    aspect.is_none_or(|(width, height)| {
        let is_sound = width.min(height) > 0 && width.max(height) / width.min(height) < MAX_ASPECT;
        width == height || !is_sound
    })
}

/// Size with square pixels: the shorter side of a pixel grows, so nothing is lost.
pub(super) fn square_size((width, height): (u32, u32), aspect: PixelAspect) -> (u32, u32) {
    let Some((across, down)) = aspect.filter(|_| !has_square_pixels(aspect)) else {
        return (width, height);
    };
    let grown = |side: u32, by: u32, over: u32| {
        let (side, by, over) = (u64::from(side), u64::from(by), u64::from(over));
        ((side * by + over / 2) / over) as u32
    };
    if across > down {
        (grown(width, across, down), height)
    } else {
        (width, grown(height, down, across))
    }
}

/// Resamples a frame to square pixels.
pub(super) fn make_square(frame: RgbPixels, aspect: PixelAspect) -> Result<RgbPixels, MediaError> {
    let size = (frame.width, frame.height);
    let (width, height) = square_size(size, aspect);
    if (width, height) == size {
        return Ok(frame);
    }
    resize_lanczos(&frame, width, height)
}

/// Conversions of frames with these colours, in words, and these pixels, each as a sentence.
pub(super) fn conversions(colours: Option<String>, aspect: PixelAspect) -> Vec<String> {
    let aspect = aspect.filter(|_| !has_square_pixels(aspect));
    let square = aspect.map(|(width, height)| format!("pixels: {width}:{height}, made square"));
    let colours = colours.map(|colours| format!("colours: {colours}, converted to sRGB"));
    colours.into_iter().chain(square).collect()
}

/// Declared colours of a video and their conversion.
#[derive(Default)]
pub(super) struct VideoColours {
    pub conversion: Option<ColourConversion>,
    /// Colours that are converted, in words; `None` for HDR, which has a notice.
    pub words: Option<String>,
    /// A sentence where light is tone mapped or the colours are unknown.
    pub notice: Option<String>,
}

impl VideoColours {
    /// From the codes of H.273. `peak`: that of PQ as declared, in cd/m².
    pub fn new(primaries: u8, transfer: u8, peak: Option<f64>) -> Self {
        let colours = CicpColours {
            primaries,
            transfer,
            peak,
            is_narrow: false,
        };
        let hdr = hdr_words(transfer, peak);
        match colours.conversion() {
            Ok(conversion) => Self {
                words: (conversion.is_some() && hdr.is_none()).then(|| colours.in_words()),
                notice: hdr.map(|words| format!("HDR {words} is tone mapped to SDR")),
                conversion,
            },
            Err(why) => Self {
                notice: Some(format!("Its colours cannot be converted: {why}")),
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_grow_to_squares_and_nonsense_is_ignored() {
        for (aspect, expected) in [
            (None, (720, 480)),
            (Some((0, 1)), (720, 480)),
            (Some((7, 7)), (720, 480)),
            (Some((2, 1)), (1440, 480)),
            (Some((64, 45)), (1024, 480)),
            (Some((8, 9)), (720, 540)),
            (Some((u32::MAX, 1)), (720, 480)),
            (Some((u32::MAX, u32::MAX - 1)), (720, 480)),
        ] {
            assert_eq!(square_size((720, 480), aspect), expected, "{aspect:?}");
        }
    }

    #[test]
    fn hdr_and_unknown_colours_are_named() {
        let notice = |primaries, transfer| VideoColours::new(primaries, transfer, None).notice;
        assert_eq!(notice(1, 1), None);
        assert_eq!(notice(UNSPECIFIED, UNSPECIFIED), None);
        assert!(notice(9, 18).is_some_and(|text| text.contains("HLG")));
        assert!(notice(1, 99).is_some_and(|text| text.contains("cannot be converted")));
        let words = |primaries, transfer| VideoColours::new(primaries, transfer, None).words;
        assert_eq!(words(9, 14).as_deref(), Some("BT.2020"));
        assert_eq!((words(1, 1), words(9, 16)), (None, None));
    }
}
