//! Tiny decoders: latents, as transformers have them, to rough images in a small part of a step.
//!
//! TAESD's family: of images (`taef1`) and of videos (TAEHV: `taehv`, `taew2_1`, `taew2_2` and those built alike), each
//! video's frame with what its blocks remember of the one before. The last doublings may be left out, and time is never
//! doubled: one image a latent frame, one frame at a time. Encodes nothing.
//! After <https://github.com/madebyollin/taehv> and diffusers' `AutoencoderTiny`.

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use safelight_core::networks::{TinyDecoderConfig, TinyDecoderLevel};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

/// Latents are bent into this range, whose ends only outliers reach.
const RANGE: f64 = 3.0;

/// Blocks of one resolution, the doubling after them, and the convolution to the next level.
#[derive(Debug)]
struct TinyLevel {
    blocks: Vec<TinyBlock>,
    /// Convolution to several frames, in video decoders; only the last frame is computed.
    grow: Option<TinyConv>,
    conv: TinyConv,
}

impl TinyLevel {
    fn new(
        w: &Weights,
        names: &TinyDecoderLevel,
        number: usize,
        config: &TinyDecoderConfig,
    ) -> Result<Self, WeightsError> {
        let (width, next) = (config.widths[number], config.widths[number + 1]);
        let blocks = names.blocks.iter();
        let blocks = blocks.map(|name| TinyBlock::new(&(w / name), width, config.keys.is_video));
        let frames = config.frames[number];
        let grow = names.grow.as_ref();
        let grow = grow.map(|name| TinyConv::last_frame(&(w / name), width, frames));
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            grow: grow.transpose()?,
            conv: TinyConv::without_bias(&(w / &names.conv), [width, next])?,
        })
    }
}

#[derive(Debug)]
pub struct TinyDecoder {
    first: TinyConv,
    levels: Vec<TinyLevel>,
    /// Of images: the block of the last size.
    end: Option<TinyBlock>,
    last: TinyConv,
    latent_channels: i64,
    /// Pixels along each edge that one place of the last convolution makes.
    patch_size: i64,
    kind: Kind,
    device: Device,
}

/// Previous frame's input of each block.
type FrameMemory = Vec<Option<Tensor>>;

impl TinyDecoder {
    /// Reads a file, or the folder of a diffusers component.
    pub fn open(place: &Path, kind: Kind, device: Device) -> Result<Self, EngineError> {
        let config = TinyDecoderConfig::read(place)?;
        let w = Weights::open(place, kind, device)?;
        let first = TinyConv::new(
            &(&w / config.keys.first()),
            [config.latent_channels, config.widths[0]],
        )?;
        let layers = config.keys.layers();
        let levels = layers.levels.iter().enumerate();
        let levels = levels.map(|(number, names)| TinyLevel::new(&w, names, number, &config));
        let width = config.last_width();
        let end = layers
            .end
            .map(|name| TinyBlock::new(&(&w / name), width, false));
        Ok(Self {
            first,
            levels: levels.collect::<Result<_, _>>()?,
            end: end.transpose()?,
            last: TinyConv::new(&(&w / layers.last), [width, config.pixel_channels()])?,
            latent_channels: config.latent_channels,
            patch_size: config.patch_size,
            kind,
            device,
        })
    }

    pub fn latent_channels(&self) -> i64 {
        self.latent_channels
    }

    /// The most doublings with which no edge is longer than `max_edge` pixels; `None` where even none is too many.
    pub fn doublings_within(&self, latents: [i64; 2], max_edge: i64) -> Option<u32> {
        let edge = latents.into_iter().max().unwrap_or(0) * self.patch_size;
        let all = (0..=self.levels.len() as u32).rev();
        all.into_iter().find(|&n| edge << n <= max_edge)
    }

    /// Each frame of `latents`, `(1, C, f, h, w)`, to `image` as `(3, H, W)`, nominally 0 to 1.
    pub fn decode(&self, latents: &Tensor, doublings: u32, image: &mut dyn FnMut(Tensor)) {
        let _guard = disable_miopen(self.device);
        let mut memory = FrameMemory::new();
        for frame in latents.to_device(self.device).to_kind(self.kind).unbind(2) {
            image(self.frame(&frame, doublings, &mut memory));
        }
    }

    /// `(1, C, h, w)` -> `(3, H, W)`
    fn frame(&self, latents: &Tensor, doublings: u32, memory: &mut FrameMemory) -> Tensor {
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
        let patch = self.patch_size;
        let xs = if patch > 1 {
            xs.pixel_shuffle(patch)
        } else {
            xs
        };
        xs.squeeze_dim(0)
    }
}

#[derive(Debug)]
struct TinyConv {
    /// `(O, C, k, k)`
    weight: Tensor,
    bias: Option<Tensor>,
}

impl TinyConv {
    fn new(w: &Weights, widths: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            bias: Some(w.tensor("bias", &widths[1..])?),
            ..Self::without_bias(w, widths)?
        })
    }

    fn without_bias(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, 3, 3])?,
            bias: None,
        })
    }

    /// Of what makes several frames of one, all as wide as it: only the last of them.
    fn last_frame(w: &Weights, width: i64, frames: i64) -> Result<Self, WeightsError> {
        let all = w.tensor("weight", &[frames * width, width, 1, 1])?;
        let last = all.narrow(0, (frames - 1) * width, width);
        Ok(Self {
            weight: last.copy(),
            bias: None,
        })
    }

    /// `(1, C, h, w)` -> `(1, O, h, w)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        let border = self.weight.size()[2] / 2;
        let (weight, bias) = (&self.weight, self.bias.as_ref());
        xs.conv2d(weight, bias, [1, 1], [border; 2], [1, 1], 1)
    }
}

/// Three convolutions with a shortcut; keeps the width.
#[derive(Debug)]
struct TinyBlock {
    convs: [TinyConv; 3],
    /// True if it also sees the previous frame.
    remembers: bool,
}

impl TinyBlock {
    fn new(w: &Weights, width: i64, remembers: bool) -> Result<Self, WeightsError> {
        let seen = if remembers { 2 * width } else { width };
        Ok(Self {
            convs: [
                TinyConv::new(&(w / "conv.0"), [seen, width])?,
                TinyConv::new(&(w / "conv.2"), [width, width])?,
                TinyConv::new(&(w / "conv.4"), [width, width])?,
            ],
            remembers,
        })
    }

    fn remembers(&self) -> bool {
        self.remembers
    }

    /// `past`: what it saw in the frame before; nothing before the first.
    fn forward(&self, xs: &Tensor, past: Option<&Tensor>) -> Tensor {
        let seen = match (self.remembers, past) {
            (false, _) => xs.shallow_clone(),
            (true, Some(past)) => Tensor::cat(&[xs, past], 1),
            (true, None) => Tensor::cat(&[xs, &xs.zeros_like()], 1),
        };
        let [first, second, third] = &self.convs;
        let ys = first.forward(&seen).relu_();
        let ys = third.forward(&second.forward(&ys).relu_());
        (ys + xs).relu_()
    }
}
