//! RRDBNet: residual blocks in residual blocks, then nearest pixels doubled.
//!
//! After `RRDBNet` of <https://github.com/xinntao/ESRGAN> and BasicSR, and ESRGAN+ with its shortcuts.

use safelight_core::networks::RrdbConfig;
use tch::Tensor;

use crate::finish::conv::{FinishConv, LeakyRelu};
use crate::weights::{Weights, WeightsError};

const NUM_CONVS: i64 = 5;
const NUM_DENSE: i64 = 3;
/// Residual scale of a block.
const SHARE: f64 = 0.2;
const SLOPE: f64 = 0.2;

/// Five convolutions, each of which sees what all before it made.
#[derive(Debug)]
struct DenseBlock {
    convs: Vec<FinishConv>,
    shortcut: Option<FinishConv>,
}

impl DenseBlock {
    fn new(w: &Weights, width: i64, cfg: &RrdbConfig) -> Result<Self, WeightsError> {
        let convs = (0..NUM_CONVS).map(|number| {
            let outputs = if number + 1 == NUM_CONVS {
                width
            } else {
                cfg.growth
            };
            let sizes = [width + number * cfg.growth, outputs];
            FinishConv::new(&(w / cfg.within(number)), sizes, 3)
        });
        let shortcut = cfg.has_shortcuts.then(|| {
            let w = w / "conv1x1";
            FinishConv::without_bias(&w, [width, cfg.growth], 1)
        });
        Ok(Self {
            convs: convs.collect::<Result<_, _>>()?,
            shortcut: shortcut.transpose()?,
        })
    }

    fn forward(&self, xs: &Tensor, act: &LeakyRelu) -> Tensor {
        let mut seen = vec![xs.shallow_clone()];
        for (number, conv) in self.convs.iter().enumerate() {
            let made = conv.forward(&Tensor::cat(&seen, 1));
            if number + 1 == self.convs.len() {
                return made * SHARE + xs;
            }
            let mut made = act.forward(&made);
            match &self.shortcut {
                Some(shortcut) if number == 1 => made += shortcut.forward(xs),
                Some(_) if number == 3 => made += &seen[2],
                _ => {}
            }
            seen.push(made);
        }
        xs.shallow_clone()
    }
}

#[derive(Debug)]
pub(super) struct RrdbUpscaler {
    first: FinishConv,
    blocks: Vec<[DenseBlock; NUM_DENSE as usize]>,
    trunk: FinishConv,
    ups: Vec<FinishConv>,
    ends: [FinishConv; 2],
    act: LeakyRelu,
}

impl RrdbUpscaler {
    pub(super) fn new(w: &Weights, width: i64, cfg: &RrdbConfig) -> Result<Self, WeightsError> {
        let conv = |name: String, sizes| FinishConv::new(&(w / name), sizes, 3);
        let same = [width, width];
        let dense = |block, part| DenseBlock::new(&(w / cfg.dense(block, part)), width, cfg);
        let blocks = (0..cfg.num_blocks)
            .map(|block| Ok([dense(block, 0)?, dense(block, 1)?, dense(block, 2)?]));
        let [before, last] = cfg.ends();
        Ok(Self {
            first: conv(cfg.first(), [3 * cfg.unshuffle.pow(2), width])?,
            blocks: blocks.collect::<Result<_, WeightsError>>()?,
            trunk: conv(cfg.trunk(), same)?,
            ups: (0..cfg.num_doublings)
                .map(|number| conv(cfg.up(number), same))
                .collect::<Result<_, _>>()?,
            ends: [conv(before, same)?, conv(last, [width, 3])?],
            act: LeakyRelu::new(SLOPE, w),
        })
    }

    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        let first = self.first.forward(places);
        let mut xs = first.shallow_clone();
        for block in &self.blocks {
            let mut ys = xs.shallow_clone();
            for dense in block {
                if !go_on() {
                    return None;
                }
                ys = dense.forward(&ys, &self.act);
            }
            xs = ys * SHARE + xs;
        }
        Some(first + self.trunk.forward(&xs))
    }

    pub(super) fn end(&self, made: &Tensor) -> Tensor {
        let mut xs = made.shallow_clone();
        for up in &self.ups {
            let [height, width] = [xs.size()[2] * 2, xs.size()[3] * 2];
            let doubled = xs.upsample_nearest2d([height, width], None, None);
            xs = self.act.forward(&up.forward(&doubled));
        }
        let [before, last] = &self.ends;
        last.forward(&self.act.forward(&before.forward(&xs)))
    }
}
