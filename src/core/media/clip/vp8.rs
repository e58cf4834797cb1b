//! VP8 through libwebp: a lossy WebP picture is one VP8 keyframe, so a clip of keyframes alone needs no
//! other encoder. Also the lossless form, for single pictures.
//!
//! The containers around the frames are written elsewhere.

use webp::WebPConfig;

use crate::media::Picture;

/// The format's own limit for a side.
pub(super) const MAX_SIDE: u32 = 16383;

/// One encoded picture and how: the name of its chunk in a WebP file.
pub(super) struct Encoded {
    pub name: [u8; 4],
    pub bytes: Vec<u8>,
}

pub(super) fn encode_lossy(picture: &Picture, crf: u8) -> Result<Encoded, String> {
    encode(picture, |config| {
        config.quality = quality_from_crf(crf);
        // The default of 4 takes two and a half times as long for files at most 5 % smaller.
        config.method = 2;
    })
}

pub(super) fn encode_lossless(picture: &Picture) -> Result<Encoded, String> {
    encode(picture, |config| {
        config.lossless = 1;
        config.exact = 1;
        config.quality = 75.0;
    })
}

fn encode(picture: &Picture, set: impl FnOnce(&mut WebPConfig)) -> Result<Encoded, String> {
    let mut config = WebPConfig::new().map_err(|()| "it refused its own defaults".to_owned())?;
    set(&mut config);
    let encoder = webp::Encoder::from_rgb(&picture.rgb, picture.width, picture.height);
    let file = encoder
        .encode_advanced(&config)
        .map_err(|err| format!("{err:?}"))?;
    // RIFF, size, WEBP, and then one chunk: nothing asked for a second one.
    let chunk = file.get(12..20).zip(file.get(20..));
    let Some(([a, b, c, d, size @ ..], rest)) = chunk else {
        return Err("it gave too few bytes".to_owned());
    };
    let size = size.try_into().map_or(0, u32::from_le_bytes) as usize;
    let bytes = rest.get(..size).ok_or("its chunk ends early")?.to_vec();
    Ok(Encoded {
        name: [*a, *b, *c, *d],
        bytes,
    })
}

/// The quality from 0 to 100 that goes with a rate factor from 0 to 51: 16 becomes 86.
fn quality_from_crf(crf: u8) -> f32 {
    100.0 - f32::from(crf.min(51)) * 0.9
}
