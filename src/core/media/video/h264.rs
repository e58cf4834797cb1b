//! H.264 frames in the form that an MP4 wants: units with their length in front, and the parameter sets
//! apart.
//!
//! The quantiser is fixed, so every frame has the same quality however the video moves.

use safelight_loops::yuv::YuvPlanes;
use serde::{Deserialize, Serialize};

use super::encoder::{EncoderSettings, H264Encoder};

/// The largest frame that the encoder takes, lying or standing.
pub(super) const MAX_LONG_SIDE: u32 = 3840;
pub(super) const MAX_SHORT_SIDE: u32 = 2160;

/// Frames are padded at least to one macroblock.
pub(super) const MIN_SIDE: u32 = 16;

/// So many frames apart a player can start: two seconds at 24 frames a second.
const FRAMES_BETWEEN_KEYFRAMES: u32 = 48;

pub(super) struct H264Frames {
    encoder: H264Encoder,
    pub coded: CodedFrames,
    /// All frames one after the other.
    pub bytes: Vec<u8>,
}

/// Data that a player needs besides the frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CodedFrames {
    /// Sequence and image parameter sets.
    pub sps: Vec<u8>,
    pub pps: Vec<u8>,
    pub sizes: Vec<u32>,
    /// Counted from 1, as an MP4 counts them.
    pub keyframes: Vec<u32>,
}

impl CodedFrames {
    /// Bytes of all frames.
    pub fn num_bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    /// Adds frames that follow these; `false` where they are of another video.
    pub fn append(&mut self, next: &Self) -> bool {
        if self.sizes.is_empty() {
            self.clone_from(next);
            return true;
        }
        let before = self.sizes.len() as u32;
        self.sizes.extend(&next.sizes);
        let keyframes = next.keyframes.iter().map(|number| number + before);
        self.keyframes.extend(keyframes);
        (&self.sps, &self.pps) == (&next.sps, &next.pps)
    }
}

impl H264Frames {
    pub fn new(width: u32, height: u32, fps: f64, crf: u8) -> Result<Self, String> {
        let encoder = H264Encoder::new(&EncoderSettings {
            width,
            height,
            fps,
            quantiser: quantiser_from_crf(crf),
            frames_between_keyframes: FRAMES_BETWEEN_KEYFRAMES,
        })?;
        Ok(Self {
            encoder,
            coded: CodedFrames::default(),
            bytes: Vec::new(),
        })
    }

    pub fn push(&mut self, planes: &YuvPlanes) -> Result<(), String> {
        let frame = self.encoder.encode(planes)?;
        if frame.is_keyframe {
            let number = self.coded.sizes.len() as u32 + 1;
            self.coded.keyframes.push(number);
        }
        let before = self.bytes.len();
        for unit in frame.units {
            match unit.first().map(|header| header & 0x1f) {
                // The parameter sets repeat with every keyframe; the header contains them once.
                Some(7) => self.coded.sps = unit,
                Some(8) => self.coded.pps = unit,
                _ => {
                    self.bytes.extend((unit.len() as u32).to_be_bytes());
                    self.bytes.extend(unit);
                }
            }
        }
        let size = self.bytes.len() - before;
        self.coded.sizes.push(size as u32);
        Ok(())
    }
}

/// The quantiser for a rate factor: from 16 on about the luma error that x264 gives with that factor (within 2 dB at
/// 16, 23 and 28, on moving textures and on soft gradients), in larger files. Below 16 it goes down to 8 only: worse
/// noise than any model makes would overflow the encoder's buffers at 4.
fn quantiser_from_crf(crf: u8) -> u8 {
    if crf < 16 {
        8 + crf / 4
    } else {
        (crf - 4).min(51)
    }
}
