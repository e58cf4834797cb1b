//! Between two levels: halving and doubling of edges and time, with their parameterless shortcuts, and patches.
//!
//! In the first chunk, one frame, time is neither halved nor doubled.

use safelight_core::networks::WanVaeLevel;
use tch::{Kind, Tensor};

use super::blocks::{ChunkPass, four};
use crate::nn::{channels_innermost, convolve_strided};
use crate::parallel::row_bands;
use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm};
use crate::vae::doubling::{DoublingConv, ShortcutFrames};
use crate::weights::{Weights, WeightsError};

/// A 3 × 3 convolution of `(T, H, W, C)` frames.
#[derive(Debug)]
struct WanConv2d {
    weight: Tensor,
    bias: Tensor,
}

impl WanConv2d {
    fn new(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[outputs, inputs, 3, 3])?;
        Ok(Self {
            weight: channels_innermost(&weight),
            bias: w.tensor("bias", &[outputs])?,
        })
    }

    /// With a border of zeros, or with the rows of other ranks.
    fn forward(&self, xs: &Tensor) -> Tensor {
        match row_bands() {
            Some(bands) => self.convolve(&bands.bordered(xs), 1, [0, 1]),
            None => self.convolve(xs, 1, [1, 1]),
        }
    }

    fn convolve(&self, xs: &Tensor, stride: i64, padding: [i64; 2]) -> Tensor {
        let (weight, bias) = (&self.weight, Some(&self.bias));
        convolve_strided(xs, weight, bias, padding, stride)
    }
}

/// The encoder's step to the next level.
#[derive(Debug)]
pub(super) struct WanDownsample {
    resample: WanConv2d,
    time_conv: Option<CausalConv3d>,
}

impl WanDownsample {
    /// `time`: whether frames become half as many too.
    pub(super) fn new(
        w: &Weights,
        dim: i64,
        time: bool,
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            resample: WanConv2d::new(&(w / "resample" / 1), [dim, dim])?,
            time_conv: time
                .then(|| CausalConv3d::new(&(w / "time_conv"), [dim, dim], [3, 1, 1], feed))
                .transpose()?,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T or T/2, H/2, W/2, C)`
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        // A border of zeros below and to the right only.
        let xs = xs.constant_pad_nd([0, 0, 0, 1, 0, 1]);
        let xs = self.resample.convolve(&xs, 2, [0, 0]);
        let Some(time_conv) = &self.time_conv else {
            return Some(xs);
        };
        let last = xs.narrow(0, xs.size()[0] - 1, 1).copy();
        Some(match pass.cache.slot().replace(last) {
            // The frame before the first chunk does not exist, so its only frame passes as it is.
            None => xs,
            Some(before) => time_conv.convolve(&Tensor::cat(&[&before, &xs], 0), 2),
        })
    }
}

/// The decoder's step to the next level, with the level's shortcut where there is one.
#[derive(Debug)]
pub(super) struct WanUpsample {
    resample: UpsampleDoubling,
    time_conv: Option<CausalConv3d>,
    level: WanVaeLevel,
    form: ConvForm,
}

#[derive(Debug)]
enum UpsampleDoubling {
    /// Without making the doubled frames: fewer multiplications and less memory.
    AtOnce(DoublingConv),
    /// One operation after the other.
    InSteps(WanConv2d),
}

impl WanUpsample {
    /// `time`: whether frames become twice as many too.
    pub(super) fn new(
        w: &Weights,
        level: WanVaeLevel,
        time: bool,
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        let dim = level.output;
        let conv = WanConv2d::new(&(w / "resample" / 1), [dim, level.next])?;
        Ok(Self {
            resample: match feed.form {
                ConvForm::Planes | ConvForm::Mixed => {
                    UpsampleDoubling::AtOnce(DoublingConv::new(&conv.weight, &conv.bias))
                }
                ConvForm::Images | ConvForm::Volumes => UpsampleDoubling::InSteps(conv),
            },
            time_conv: time
                .then(|| CausalConv3d::new(&(w / "time_conv"), [dim, 2 * dim], [3, 1, 1], feed))
                .transpose()?,
            level,
            form: feed.form,
        })
    }

    /// `xs`: `(T, H, W, O)`, `before` the level: `(T, H, W, C)` → `(T or 2T, 2H, 2W, next)`
    pub(super) fn forward(
        &self,
        xs: &Tensor,
        before: &Tensor,
        pass: &mut ChunkPass<'_>,
    ) -> Option<Tensor> {
        pass.check_cancelled()?;
        let first_chunk = pass.cache.is_first_chunk();
        let xs = match &self.time_conv {
            Some(time_conv) => double_time(time_conv, xs, pass),
            None => xs.shallow_clone(),
        };
        let ys = match &self.resample {
            UpsampleDoubling::AtOnce(conv)
                if self.level.has_shortcut && self.form == ConvForm::Planes =>
            {
                let shortcut = ShortcutFrames {
                    frames: before,
                    time: self.level.time_factor(),
                    last_only: first_chunk,
                };
                return Some(conv.forward_with(&xs, &shortcut));
            }
            UpsampleDoubling::AtOnce(conv) => conv.forward(&xs),
            UpsampleDoubling::InSteps(conv) => {
                let (_, height, width, _) = four(&xs);
                let xs = xs.permute([0, 3, 1, 2]);
                let xs = xs.upsample_nearest2d([2 * height, 2 * width], None, None);
                conv.forward(&xs.permute([0, 2, 3, 1]))
            }
        };
        Some(if self.level.has_shortcut {
            ys + duplicate_up(before, self.level, first_chunk)
        } else {
            ys
        })
    }
}

/// `xs`: `(T, H, W, C)` → `(2T, H, W, C)`, in the first chunk `xs` itself
fn double_time(time_conv: &CausalConv3d, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Tensor {
    let first_chunk = pass.cache.is_first_chunk();
    let slot = pass.cache.slot();
    if first_chunk {
        // The first frame stays one frame, and the second chunk does not remember it.
        return xs.shallow_clone();
    }
    let (frames, height, width, dim) = four(xs);
    // t h w (2 c) -> (t 2) h w c
    let pairs = time_conv.forward(xs, slot);
    let pairs = pairs.view([frames, height, width, 2, dim]);
    let pairs = pairs.permute([0, 3, 1, 2, 4]).contiguous();
    pairs.view([2 * frames, height, width, dim])
}

/// The encoder's shortcut: the pixels of a cube become channels, and neighbouring channels their mean.
///
/// `xs`: `(T, H, W, C)` → `(T/ft, H/fs, W/fs, level.output)`
pub(super) fn average_down(xs: &Tensor, level: WanVaeLevel) -> Tensor {
    let (ft, fs) = (level.time_factor(), level.space_factor());
    let missing = (ft - xs.size()[0] % ft) % ft;
    let xs = if missing > 0 {
        xs.constant_pad_nd([0, 0, 0, 0, 0, 0, missing, 0])
    } else {
        xs.shallow_clone()
    };
    let (frames, height, width, dim) = four(&xs);
    let (frames, height, width) = (frames / ft, height / fs, width / fs);
    // (t ft) (h fh) (w fw) c -> t h w (c ft fh fw) -> t h w o group
    let cubes = xs.view([frames, ft, height, fs, width, fs, dim].as_slice());
    let cubes = cubes.permute([0, 2, 4, 6, 1, 3, 5]);
    let groups = cubes.reshape([frames, height, width, level.output, -1]);
    groups.mean_dim([-1].as_slice(), false, None::<Kind>)
}

/// The decoder's shortcut: channels are repeated and become the pixels of a cube.
///
/// `xs`: `(T, H, W, C)` → `(T · ft, H · fs, W · fs, level.output)`, in the first chunk without what time adds.
fn duplicate_up(xs: &Tensor, level: WanVaeLevel, first_chunk: bool) -> Tensor {
    let (ft, fs) = (level.time_factor(), level.space_factor());
    let (frames, height, width, dim) = four(xs);
    let repeats = level.output * ft * fs * fs / dim;
    // t h w c -> t h w (c repeats) = t h w (o ft fh fw) -> (t ft) (h fh) (w fw) o
    let xs = xs
        .unsqueeze(-1)
        .expand([frames, height, width, dim, repeats], false);
    let xs = xs.reshape([frames, height, width, level.output, ft, fs, fs]);
    let xs = xs.permute([0, 4, 1, 5, 2, 6, 3]);
    let xs = xs.reshape([frames * ft, height * fs, width * fs, level.output]);
    if first_chunk {
        xs.slice(0, ft - 1, None, 1)
    } else {
        xs
    }
}
