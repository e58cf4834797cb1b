//! One PNG image without loss, with the settings as international text under the name `safelight`.
//!
//! A video becomes one file a frame; naming them is not done here.

use std::borrow::Cow;

use png::{BitDepth, ColorType, Compression, Encoder, EncodingError};

use super::MADE_BY;
use crate::media::metadata::OWN_NAME;
use crate::media::{AlphaChannel, RgbPixels};

pub(super) fn encode(
    image: &RgbPixels,
    alpha: Option<&AlphaChannel>,
    settings: Option<&str>,
) -> Result<Vec<u8>, String> {
    let wrong = |err: EncodingError| err.to_string();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, image.width, image.height);
    encoder.set_color(if alpha.is_some() {
        ColorType::Rgba
    } else {
        ColorType::Rgb
    });
    encoder.set_depth(BitDepth::Eight);
    // Fifty times faster than the default for files that are 3 to 28 % larger.
    encoder.set_compression(Compression::Fast);
    encoder
        .add_text_chunk("Software".to_owned(), MADE_BY.to_owned())
        .map_err(wrong)?;
    if let Some(settings) = settings {
        encoder
            .add_itxt_chunk(OWN_NAME.to_owned(), settings.to_owned())
            .map_err(wrong)?;
    }
    let mut writer = encoder.write_header().map_err(wrong)?;
    let pixels = alpha.map_or(Cow::Borrowed(&image.rgb), |alpha| {
        Cow::Owned(alpha.joined(image))
    });
    writer.write_image_data(&pixels).map_err(wrong)?;
    writer.finish().map_err(wrong)?;
    Ok(bytes)
}
