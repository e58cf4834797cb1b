//! Samples of H.264 through OpenH264 into images, in the order in which they are shown.
//!
//! The decoder does not flush after each sample, which would break videos whose frames are stored in another order than
//! they are shown.

use openh264::decoder::{DecodeOptions, DecodedYUV, Decoder, Flush};
use openh264::formats::YUVSource as _;
use safelight_loops::yuv::{DecodedPlanes, rgb_from_planes};

use super::avc::AvcConfig;
use super::colour::VideoColor;
use crate::media::RgbPixels;
use crate::media::open::{DecodeFailure, image_from_rgb};

/// A decoder that is fed sample by sample.
pub(super) struct DecodedFrames {
    decoder: Decoder,
    config: AvcConfig,
    colour: VideoColor,
    is_begun: bool,
}

impl DecodedFrames {
    pub fn new(config: AvcConfig, colour: VideoColor) -> Result<Self, DecodeFailure> {
        Ok(Self {
            decoder: Decoder::new().map_err(|err| damaged(&err))?,
            config,
            colour,
            is_begun: false,
        })
    }

    /// The next image that is ready, if the sample completed one.
    pub fn feed(&mut self, sample: &[u8]) -> Result<Option<RgbPixels>, DecodeFailure> {
        let mut stream = Vec::with_capacity(sample.len() + 64);
        if !self.is_begun {
            let sets = self.config.sequence_sets.iter();
            for set in sets.chain(&self.config.image_sets) {
                push_unit(&mut stream, set);
            }
            self.is_begun = true;
        }
        let mut length = 0;
        for unit in self.config.units(sample) {
            length += self.config.length_bytes + unit.len();
            push_unit(&mut stream, unit);
        }
        if length != sample.len() {
            return Err(DecodeFailure::Damaged("a frame of it is cut".to_owned()));
        }
        let options = DecodeOptions::new().flush_after_decode(Flush::NoFlush);
        let yuv = self.decoder.decode_with_options(&stream, options);
        yuv.map_err(|err| damaged(&err))?
            .map(|yuv| image(&yuv, self.colour))
            .transpose()
    }

    /// The images that waited for later ones.
    pub fn rest(&mut self) -> Result<Vec<RgbPixels>, DecodeFailure> {
        let colour = self.colour;
        let rest = self
            .decoder
            .flush_remaining()
            .map_err(|err| damaged(&err))?;
        rest.iter().map(|yuv| image(yuv, colour)).collect()
    }
}

fn push_unit(stream: &mut Vec<u8>, unit: &[u8]) {
    stream.extend([0, 0, 0, 1]);
    stream.extend(unit);
}

fn damaged(err: &openh264::Error) -> DecodeFailure {
    tracing::debug!("OpenH264 says: {err}");
    DecodeFailure::Damaged("its H.264 cannot be decoded".to_owned())
}

fn image(yuv: &DecodedYUV<'_>, colour: VideoColor) -> Result<RgbPixels, DecodeFailure> {
    let (width, height) = yuv.dimensions();
    let (stride, chroma_stride, _) = yuv.strides();
    let planes = DecodedPlanes {
        width,
        height,
        y: yuv.y(),
        u: yuv.u(),
        v: yuv.v(),
        stride,
        chroma_stride,
    };
    let rgb = rgb_from_planes(&planes, colour.matrix())
        .ok_or_else(|| DecodeFailure::Damaged("its planes are too small".to_owned()))?;
    image_from_rgb(width as u32, height as u32, rgb)
}
