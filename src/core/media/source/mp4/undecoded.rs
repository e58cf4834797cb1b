//! In the place of the decoder in a build without H.264: there are no frames.

use super::avc::AvcConfig;
use super::colour::VideoColor;
use crate::media::RgbPixels;
use crate::media::open::DecodeFailure;

pub(super) enum DecodedFrames {}

impl DecodedFrames {
    pub fn new(_config: AvcConfig, _colour: VideoColor) -> Result<Self, DecodeFailure> {
        Err(DecodeFailure::Damaged("this build has no H.264".to_owned()))
    }

    pub fn feed(&mut self, _sample: &[u8]) -> Result<Option<RgbPixels>, DecodeFailure> {
        match *self {}
    }

    pub fn rest(&mut self) -> Result<Vec<RgbPixels>, DecodeFailure> {
        match *self {}
    }
}
