//! A convolution that keeps the size of its image, with channels innermost in memory, as cuDNN and oneDNN want it.

use tch::Tensor;

use crate::nn::channels_innermost;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct FinishConv {
    /// `(O, C, k, k)`
    weight: Tensor,
    /// `(O)`
    bias: Option<Tensor>,
}

impl FinishConv {
    /// A kernel of `kernel` × `kernel` with a bias.
    pub(super) fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
    ) -> Result<Self, WeightsError> {
        let conv = Self::without_bias(w, [inputs, outputs], kernel)?;
        let bias = Some(w.tensor("bias", &[outputs])?);
        Ok(Self { bias, ..conv })
    }

    pub(super) fn without_bias(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
    ) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[outputs, inputs, kernel, kernel])?;
        Ok(Self::from_tensors(&weight, None))
    }

    pub(super) fn from_tensors(weight: &Tensor, bias: Option<Tensor>) -> Self {
        Self {
            weight: channels_innermost(weight),
            bias,
        }
    }

    /// `xs`: `(1, C, H, W)` → `(1, O, H, W)`
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        // No probe tries them, and MIOpen hangs in some.
        let _guard = disable_miopen(xs.device());
        let border = self.weight.size()[2] / 2;
        let (weight, bias) = (&self.weight, self.bias.as_ref());
        xs.conv2d(weight, bias, [1, 1], [border; 2], [1, 1], 1)
    }
}

/// A leaky ReLU: what is below 0 becomes a part of itself.
#[derive(Debug)]
pub(super) struct LeakyRelu {
    /// `(1)`
    slope: Tensor,
}

impl LeakyRelu {
    pub(super) fn new(slope: f64, w: &Weights) -> Self {
        let slope = Tensor::from_slice(&[slope]);
        Self {
            slope: slope.to_kind(w.kind()).to_device(w.device()),
        }
    }

    /// One pass, with which tch's own, without a slope, could not do.
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        xs.prelu(&self.slope)
    }
}
