//! One PNG picture without loss, with the settings as international text under the name `safelight`.
//!
//! A clip becomes one file a frame; naming them is not done here.

use png::{BitDepth, ColorType, Compression, Encoder, EncodingError};

use super::MADE_BY;
use crate::media::Picture;
use crate::media::metadata::OWN_NAME;

pub(super) fn encode(picture: &Picture, settings: Option<&str>) -> Result<Vec<u8>, String> {
    let wrong = |err: EncodingError| err.to_string();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, picture.width, picture.height);
    encoder.set_color(ColorType::Rgb);
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
    writer.write_image_data(&picture.rgb).map_err(wrong)?;
    writer.finish().map_err(wrong)?;
    Ok(bytes)
}
