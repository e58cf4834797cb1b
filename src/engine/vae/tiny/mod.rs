//! Tiny decoders: latents, as transformers have them, to rough pictures in a small part of a step.
//!
//! TAESD's family: of pictures (`taef1`) and of clips (TAEHV: `taehv`, `taew2_1`, `taew2_2` and those built alike), each
//! clip's frame with what its blocks remember of the one before. The last doublings may be left out, and time is never
//! doubled: one picture a latent frame, one frame at a time. Encodes nothing.
//! After <https://github.com/madebyollin/taehv> and diffusers' `AutoencoderTiny`.

mod blocks;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use safelight_core::catalog::TinyDecoderKeys;
use tch::{Device, Kind, Tensor};

use self::blocks::{Block, Conv};
use super::VaeError;
use crate::weights::Weights;

const NUM_LEVELS: usize = 3;
const BLOCKS_A_LEVEL: usize = 3;
/// Latents are bent into this range, whose ends only outliers reach.
const RANGE: f64 = 3.0;

/// Blocks of one size, the doubling behind them, and the convolution to the next level.
#[derive(Debug)]
struct Level {
    blocks: Vec<Block>,
    /// Of clips: what would make several frames of one; only the last of them is made.
    grow: Option<Conv>,
    conv: Conv,
}

#[derive(Debug)]
pub struct TinyDecoder {
    first: Conv,
    levels: Vec<Level>,
    /// Of pictures: the block of the last size.
    end: Option<Block>,
    last: Conv,
    /// Pixels along each edge that one place of the last convolution makes.
    patch: i64,
    kind: Kind,
    device: Device,
}

/// What blocks saw in the frame before.
type Memory = Vec<Option<Tensor>>;

impl TinyDecoder {
    /// Reads a file, or the folder of a diffusers component.
    pub fn open(place: &Path, kind: Kind, device: Device) -> Result<Self, VaeError> {
        let weights = Weights::open(place, kind, device)?;
        let wrong = |reason: String| VaeError::Config {
            reason,
            path: place.to_owned(),
        };
        let keys = TinyDecoderKeys::detect(|key| weights.has(key))
            .ok_or_else(|| wrong("expected a tiny decoder, found other tensors".to_owned()))?;
        let at = |number: usize| weights.sub(keys.layer(number));
        let first = Conv::read(&at(0), None)?;
        let mut channels = first.outputs();
        let mut number = 2; // Behind the first convolution and its ReLU.
        let mut levels = Vec::new();
        for _ in 0..NUM_LEVELS {
            let numbers = number..number + BLOCKS_A_LEVEL;
            let blocks = numbers.map(|number| Block::read(&at(number), channels, keys.is_video));
            let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
            number += BLOCKS_A_LEVEL + 1; // The doubling.
            let grow = keys.is_video.then(|| {
                number += 1;
                Conv::read_grow(&at(number - 1), channels)
            });
            let conv = Conv::read(&at(number), Some(channels))?;
            number += 1;
            channels = conv.outputs();
            levels.push(Level {
                blocks,
                grow: grow.transpose()?,
                conv,
            });
        }
        // A block, or a ReLU.
        let end = (!keys.is_video).then(|| Block::read(&at(number), channels, false));
        let last = Conv::read(&at(number + 1), Some(channels))?;
        let patch = (1..=4).find(|patch| 3 * patch * patch == last.outputs());
        let patch = patch.ok_or_else(|| {
            wrong(format!(
                "expected 3 colours of patches, found {} channels",
                last.outputs()
            ))
        })?;
        Ok(Self {
            first,
            levels,
            end: end.transpose()?,
            last,
            patch,
            kind,
            device,
        })
    }

    pub fn latent_channels(&self) -> i64 {
        self.first.inputs()
    }

    /// How often the size of a latent can be doubled.
    pub fn max_doublings(&self) -> u32 {
        self.levels.len() as u32
    }

    /// The most doublings with which no edge is longer than `max_edge` pixels; `None` where even none is too many.
    pub fn doublings_within(&self, latents: [i64; 2], max_edge: i64) -> Option<u32> {
        let edge = latents.into_iter().max().unwrap_or(0) * self.patch;
        let all = (0..=self.max_doublings()).rev();
        all.into_iter().find(|&n| edge << n <= max_edge)
    }

    /// Each frame of `latents`, `(1, C, f, h, w)`, to `picture` as `(3, H, W)`, nominally 0 to 1.
    pub fn decode(&self, latents: &Tensor, doublings: u32, picture: &mut dyn FnMut(Tensor)) {
        let mut memory = Memory::new();
        for frame in latents.to_device(self.device).to_kind(self.kind).unbind(2) {
            picture(self.frame(&frame, doublings, &mut memory));
        }
    }

    /// `(1, C, h, w)` -> `(3, H, W)`
    fn frame(&self, latents: &Tensor, doublings: u32, memory: &mut Memory) -> Tensor {
        let bent = (latents / RANGE).tanh() * RANGE;
        let mut xs = self.first.forward(&bent).relu_();
        let mut place = 0;
        for (level, number) in self.levels.iter().zip(0..) {
            for block in &level.blocks {
                if memory.len() <= place {
                    memory.push(None);
                }
                let ys = block.forward(&xs, memory[place].as_ref());
                memory[place] = block.remembers().then(|| xs.shallow_clone());
                xs = ys;
                place += 1;
            }
            if number < doublings {
                let size = xs.size();
                xs = xs.upsample_nearest2d([size[2] * 2, size[3] * 2], None, None);
            }
            if let Some(grow) = &level.grow {
                xs = grow.forward(&xs);
            }
            xs = level.conv.forward(&xs);
        }
        xs = match &self.end {
            Some(block) => block.forward(&xs, None),
            None => xs.relu(),
        };
        let xs = self.last.forward(&xs);
        let xs = if self.patch > 1 {
            xs.pixel_shuffle(self.patch)
        } else {
            xs
        };
        xs.squeeze_dim(0)
    }
}
