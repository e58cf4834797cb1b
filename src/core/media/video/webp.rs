//! A WebP file through libwebp: an animation of lossy frames, or one image without loss, with the settings as
//! XMP.
//!
//! Every frame is whole: what a model makes moves everywhere, so differences would save little.

use webp::WebPConfig;

use super::{FrameTimes, MADE_BY};
use crate::media::metadata::XMP_ELEMENT;
use crate::media::{AlphaChannel, RgbPixels};

/// The format's own limit for a side.
pub(super) const MAX_SIDE: u32 = 16383;
/// Bytes of a `VP8X` chunk.
const EXTENDED_BYTES: usize = 18;
/// Longest frame: the format has 24 bits for it.
const MAX_MILLIS: u64 = 0xff_ffff;

pub(super) struct WebP {
    width: u32,
    height: u32,
    times: FrameTimes,
    crf: u8,
    /// A single image is stored without loss, so the first waits until a second one comes.
    first: Option<(RgbPixels, Option<AlphaChannel>)>,
    /// Chunks of each frame.
    frames: Vec<Vec<u8>>,
    has_alpha: bool,
}

impl WebP {
    pub fn new(width: u32, height: u32, times: FrameTimes, crf: u8) -> Self {
        Self {
            width,
            height,
            times,
            crf,
            first: None,
            frames: Vec::new(),
            has_alpha: false,
        }
    }

    pub fn push(&mut self, image: &RgbPixels, alpha: Option<&AlphaChannel>) -> Result<(), String> {
        self.has_alpha |= alpha.is_some();
        if self.first.is_none() && self.frames.is_empty() {
            self.first = Some((image.clone(), alpha.cloned()));
            return Ok(());
        }
        if let Some((first, alpha)) = self.first.take() {
            self.frames
                .push(encode_lossy(&first, alpha.as_ref(), self.crf)?);
        }
        self.frames.push(encode_lossy(image, alpha, self.crf)?);
        Ok(())
    }

    pub fn finish(self, settings: Option<&str>) -> Result<Vec<u8>, String> {
        let is_animation = self.first.is_none();
        // Bit 1 says animation, bit 2 XMP, bit 4 alpha.
        let flags = u8::from(is_animation) << 1
            | u8::from(settings.is_some()) << 2
            | u8::from(self.has_alpha) << 4;
        let size = [le24(self.width - 1), le24(self.height - 1)].concat();
        let mut chunks = chunk(*b"VP8X", &[&[flags, 0, 0, 0], &size]);
        if let Some((first, alpha)) = &self.first {
            chunks.extend(encode_lossless(first, alpha.as_ref())?);
        } else {
            // A black background and the number of plays.
            let plays = self.times.num_plays.to_le_bytes();
            chunks.extend(chunk(*b"ANIM", &[&[0, 0, 0, 255], &plays]));
        }
        for (i, frame) in self.frames.iter().enumerate() {
            // No duration at all means a default one to players.
            let millis = self.times.lasting(i as u64, 1000.0).clamp(1, MAX_MILLIS);
            let place = [&[0; 6], size.as_slice(), &le24(millis as u32), &[0b10]].concat();
            chunks.extend(chunk(*b"ANMF", &[&place, frame]));
        }
        if let Some(settings) = settings {
            chunks.extend(chunk(
                *b"XMP ",
                &[packet_from_settings(settings).as_bytes()],
            ));
        }
        let size =
            u32::try_from(chunks.len() + 4).map_err(|err| format!("larger than 4 GiB: {err}"))?;
        Ok([b"RIFF".as_slice(), &size.to_le_bytes(), b"WEBP", &chunks].concat())
    }
}

fn encode_lossy(
    image: &RgbPixels,
    alpha: Option<&AlphaChannel>,
    crf: u8,
) -> Result<Vec<u8>, String> {
    encode(image, alpha, |config| {
        // From 0 to 100 for a rate factor from 51 to 0: 16 becomes 86.
        config.quality = 100.0 - f32::from(crf.min(51)) * 0.9;
        // The default of 4 takes two and a half times as long for files at most 5 % smaller.
        config.method = 2;
    })
}

fn encode_lossless(image: &RgbPixels, alpha: Option<&AlphaChannel>) -> Result<Vec<u8>, String> {
    encode(image, alpha, |config| {
        config.lossless = 1;
        config.exact = 1;
        config.quality = 75.0;
    })
}

/// Encodes an image. Returns its chunks: its pixels, and before them the alpha of lossy ones.
fn encode(
    image: &RgbPixels,
    alpha: Option<&AlphaChannel>,
    set: impl FnOnce(&mut WebPConfig),
) -> Result<Vec<u8>, String> {
    let mut config = WebPConfig::new().map_err(|()| "it refused its own defaults".to_owned())?;
    set(&mut config);
    let rgba = alpha.map(|alpha| alpha.joined(image));
    let encoder = match &rgba {
        Some(rgba) => webp::Encoder::from_rgba(rgba, image.width, image.height),
        None => webp::Encoder::from_rgb(&image.rgb, image.width, image.height),
    };
    let file = encoder
        .encode_advanced(&config)
        .map_err(|err| format!("{err:?}"))?;
    // RIFF, size and WEBP; with alpha, another header follows.
    let chunks = file.get(12..).unwrap_or_default();
    let chunks = match chunks.strip_prefix(b"VP8X") {
        Some(_) => chunks.get(EXTENDED_BYTES..).unwrap_or_default(),
        None => chunks,
    };
    if chunks.is_empty() {
        return Err("it gave too few bytes".to_owned());
    }
    Ok(chunks.to_vec())
}

fn le24(value: u32) -> [u8; 3] {
    let [a, b, c, _] = value.to_le_bytes();
    [a, b, c]
}

fn chunk(name: [u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let data = parts.concat();
    let pad: &[u8] = if data.len() % 2 == 1 { &[0] } else { &[] };
    [
        &name,
        (data.len() as u32).to_le_bytes().as_slice(),
        &data,
        pad,
    ]
    .concat()
}

/// The settings as an XMP packet, under a name of our own.
fn packet_from_settings(settings: &str) -> String {
    // XML readers turn a bare carriage return into a line feed.
    let escaped = htmlize::escape_text(settings).replace('\r', "&#13;");
    format!(
        "<?xpacket begin=\"\u{feff}\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>\
         <x:xmpmeta xmlns:x=\"adobe:ns:meta/\">\
         <rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\
         <rdf:Description rdf:about=\"\" xmlns:xmp=\"http://ns.adobe.com/xap/1.0/\" \
         xmlns:safelight=\"urn:safelight\">\
         <xmp:CreatorTool>{MADE_BY}</xmp:CreatorTool>\
         <{XMP_ELEMENT}>{escaped}</{XMP_ELEMENT}>\
         </rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end=\"w\"?>"
    )
}
