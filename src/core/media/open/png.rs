//! PNG: every colour type and depth, interlaced or not; of an animated one, the still picture.
//!
//! Text and colour profiles are skipped unread, so that a huge or broken one does no harm.

use image::metadata::Orientation;
use png::{Decoder, DecodingError, Limits, Transformations};

use super::{Decoded, Failure, Input, MAX_DECODED_BYTES, check_size, drop_alpha, picture_from_rgb};

/// Deflate makes no byte into more than this, by the way it counts.
const MAX_RATIO: u64 = 1032;

pub(super) fn decode(file: Input) -> Result<Decoded, Failure> {
    let file_bytes = file.get_ref().metadata().map_err(Failure::Io)?.len();
    let limits = Limits {
        bytes: MAX_DECODED_BYTES as usize,
    };
    let mut decoder = Decoder::new_with_limits(file, limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    // Palette and few bits become 8 bits; of 16 bits the high byte stays, as in Pillow.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let header = decoder.read_header_info()?;
    check_size(header.width, header.height)?;
    let bits = header.color_type.samples() as u64 * header.bit_depth as u64;
    let packed = u64::from(header.width) * u64::from(header.height) * bits / 8;
    // Before there is room made for all of it.
    if packed > file_bytes.saturating_mul(MAX_RATIO) {
        return Err(Failure::Truncated);
    }
    let mut reader = decoder.read_info()?;
    let (width, height) = reader.info().size();
    let bytes = reader
        .output_buffer_size()
        .ok_or(Failure::TooManyPixels { width, height })?;
    let mut pixels = vec![0; bytes];
    let frame = reader.next_frame(&mut pixels)?;
    pixels.truncate(frame.buffer_size());
    // The rotation may stand behind the pixels; what is wrong there harms no pixel.
    reader.finish().ok();
    let orientation = reader
        .info()
        .exif_metadata
        .as_deref()
        .and_then(Orientation::from_exif_chunk)
        .unwrap_or(Orientation::NoTransforms);
    let rgb = drop_alpha(pixels, frame.color_type.samples());
    Ok(Decoded {
        picture: picture_from_rgb(frame.width, frame.height, rgb)?,
        orientation,
    })
}

impl From<DecodingError> for Failure {
    fn from(err: DecodingError) -> Self {
        match err {
            DecodingError::LimitsExceeded => Self::too_much_memory(),
            DecodingError::IoError(err) => err.into(),
            err => Self::from_words(&err.to_string()),
        }
    }
}
