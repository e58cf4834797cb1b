//! 256 colours for a frame: a palette and each pixel's index into it.

use crate::media::Picture;

/// The palette as RGB bytes and one index a pixel.
pub(super) fn quantise(picture: &Picture) -> (Vec<u8>, Vec<u8>) {
    let frame = gif::Frame::from_rgb_speed(
        picture.width as u16,
        picture.height as u16,
        &picture.rgb,
        10,
    );
    (frame.palette.unwrap_or_default(), frame.buffer.into_owned())
}
