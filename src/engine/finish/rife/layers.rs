//! IFNet's layers: convolutions that keep, halve or double edges, and the block that is made of them.

use safelight_core::networks::{IFNET_CONVS, IfnetConfig};
use tch::Tensor;

use super::FrameMotion;
use crate::finish::conv::LeakyRelu;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

/// Slope of the leaky ReLU below 0.
pub(super) const SLOPE: f64 = 0.2;
/// Channels of both flows.
const FLOWS: i64 = 4;

/// Three by three.
#[derive(Debug)]
pub(super) struct RifeConv {
    /// `(O, C / groups, 3, 3)`
    weight: Tensor,
    bias: Tensor,
    stride: i64,
    groups: i64,
}

impl RifeConv {
    /// `stride`: 2 halves edges
    pub(super) fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        stride: i64,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, 3, 3])?,
            bias: w.tensor("bias", &[outputs])?,
            stride,
            groups: 1,
        })
    }

    /// Grouped convolution that keeps the width.
    fn grouped(w: &Weights, width: i64, groups: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            groups,
            ..Self::new(w, [width / groups, width], 1)?
        })
    }

    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        // No probe tries them, and MIOpen hangs in some.
        let _guard = disable_miopen(xs.device());
        let stride = [self.stride, self.stride];
        let bias = Some(&self.bias);
        xs.conv2d(&self.weight, bias, stride, [1, 1], [1, 1], self.groups)
    }
}

/// Doubles edges.
#[derive(Debug)]
pub(super) struct DoublingDeconv {
    /// `(C, O, 4, 4)`
    weight: Tensor,
    bias: Tensor,
}

impl DoublingDeconv {
    pub(super) fn new(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[inputs, outputs, 4, 4])?,
            bias: w.tensor("bias", &[outputs])?,
        })
    }

    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        let _guard = disable_miopen(xs.device());
        let bias = Some(&self.bias);
        xs.conv_transpose2d(&self.weight, bias, [2, 2], [1, 1], [0, 0], 1, [1, 1])
    }
}

#[derive(Debug)]
pub(super) struct FlowBlock {
    halving: [RifeConv; 2],
    /// Each with how much of it counts, `(1, C, 1, 1)`.
    convs: Vec<(RifeConv, Tensor)>,
    last: DoublingDeconv,
    relu: LeakyRelu,
}

impl FlowBlock {
    /// The block of this number, from 0.
    pub(super) fn new(
        config: &IfnetConfig,
        number: usize,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let w = &(w / &config.block(number));
        let width = config.widths[number];
        let convs = (0..IFNET_CONVS).map(|conv| {
            let w = &(w / &format!("convblock.{conv}"));
            let beta = w.tensor("beta", &[1, width, 1, 1])?;
            let groups = config.groups.clamp(1, width);
            Ok((RifeConv::grouped(&(w / "conv"), width, groups)?, beta))
        });
        let half = width / 2;
        Ok(Self {
            halving: [
                RifeConv::new(&(w / "conv0.0.0"), [config.inputs(number), half], 2)?,
                RifeConv::new(&(w / "conv0.1.0"), [half, width], 2)?,
            ],
            convs: convs.collect::<Result<_, WeightsError>>()?,
            last: DoublingDeconv::new(&(w / "lastconv.0"), [width, config.shuffled()])?,
            relu: LeakyRelu::new(SLOPE, w),
        })
    }

    /// `seen`: `(1, C, H, W)`; `flow`: `(1, 4, H, W)`, what was found before; `scale`: by how much smaller both are
    /// seen -> what is to be added to it, and the rest as it is
    pub(super) fn forward(&self, seen: &Tensor, flow: Option<&Tensor>, scale: i64) -> FrameMotion {
        let smaller = 1.0 / scale as f64;
        let mut xs = resized(seen, smaller);
        if let Some(flow) = flow {
            xs = Tensor::cat(&[xs, resized(flow, smaller) / scale as f64], 1);
        }
        for conv in &self.halving {
            xs = self.relu.forward(&conv.forward(&xs));
        }
        for (conv, beta) in &self.convs {
            xs = self.relu.forward(&(conv.forward(&xs) * beta + xs));
        }
        let made = self.last.forward(&xs).pixel_shuffle(2);
        let made = resized(&made, scale as f64);
        let rest = made.size()[1] - FLOWS - 1;
        FrameMotion {
            flow: made.narrow(1, 0, FLOWS) * scale as f64,
            mask: made.narrow(1, FLOWS, 1),
            told: made.narrow(1, FLOWS + 1, rest),
        }
    }
}

/// Edges by this factor, without smoothing.
fn resized(xs: &Tensor, factor: f64) -> Tensor {
    let size = xs.size();
    let edges = [2, 3].map(|axis| (size[axis] as f64 * factor).round() as i64);
    if edges == size[2..] {
        return xs.shallow_clone();
    }
    xs.upsample_bilinear2d(edges, false, factor, factor)
}
