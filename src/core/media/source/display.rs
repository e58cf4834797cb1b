//! Decoded frames as a screen shows them: square pixels, sRGB colours.

use crate::media::colour::{ColourConversion, hdr_words};
use crate::media::resize::resize_lanczos;
use crate::media::{MediaError, Picture};

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
pub(super) fn make_square(frame: Picture, aspect: PixelAspect) -> Result<Picture, MediaError> {
    let size = (frame.width, frame.height);
    let (width, height) = square_size(size, aspect);
    if (width, height) == size {
        return Ok(frame);
    }
    resize_lanczos(&frame, width, height)
}

/// The conversion that colours of these codes of ITU-T H.273 need, and a notice if light is tone mapped or the codes are
/// unknown. `peak`: that of PQ as declared, in cd/m².
pub(super) fn colour_conversion(
    primaries: u8,
    transfer: u8,
    peak: Option<f64>,
) -> (Option<ColourConversion>, Option<String>) {
    let hdr = hdr_words(transfer, peak).map(|words| format!("HDR {words} is tone mapped to SDR"));
    match ColourConversion::from_cicp(primaries, transfer, peak) {
        Ok(conversion) => (conversion, hdr),
        Err(why) => (
            None,
            Some(format!("Its colours cannot be converted: {why}")),
        ),
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
        let notice = |primaries, transfer| colour_conversion(primaries, transfer, None).1;
        assert_eq!(notice(1, 1), None);
        assert_eq!(notice(UNSPECIFIED, UNSPECIFIED), None);
        assert!(notice(9, 18).is_some_and(|text| text.contains("HLG")));
        assert!(notice(1, 99).is_some_and(|text| text.contains("cannot be converted")));
    }
}
