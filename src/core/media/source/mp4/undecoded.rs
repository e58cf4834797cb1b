//! In the place of the decoder in a build without H.264: there are no frames.

use super::avc::AvcConfig;
use super::colour::Colour;
use crate::media::Picture;
use crate::media::open::Failure;

pub(super) enum Frames {}

impl Frames {
    pub fn new(_config: AvcConfig, _colour: Colour) -> Result<Self, Failure> {
        Err(Failure::Damaged("this build has no H.264".to_owned()))
    }

    pub fn feed(&mut self, _sample: &[u8]) -> Result<Option<Picture>, Failure> {
        match *self {}
    }

    pub fn rest(&mut self) -> Result<Vec<Picture>, Failure> {
        match *self {}
    }
}
