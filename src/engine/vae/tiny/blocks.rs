//! The layers of tiny decoders: convolutions of 3 × 3 and 1 × 1, and residual blocks of three.
//!
//! Plain libtorch: nothing here is large.

use tch::Tensor;

use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct TinyConv {
    /// `(O, C, k, k)`
    weight: Tensor,
    bias: Option<Tensor>,
}

impl TinyConv {
    pub(super) fn new(w: &Weights, widths: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            bias: Some(w.tensor("bias", &widths[1..])?),
            ..Self::without_bias(w, widths)?
        })
    }

    pub(super) fn without_bias(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, 3, 3])?,
            bias: None,
        })
    }

    /// Of what makes several frames of one, all as wide as it: only the last of them.
    pub(super) fn last_frame(w: &Weights, width: i64, frames: i64) -> Result<Self, WeightsError> {
        let all = w.tensor("weight", &[frames * width, width, 1, 1])?;
        let last = all.narrow(0, (frames - 1) * width, width);
        Ok(Self {
            weight: last.copy(),
            bias: None,
        })
    }

    /// `(1, C, h, w)` -> `(1, O, h, w)`
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        let border = self.weight.size()[2] / 2;
        xs.conv2d(
            &self.weight,
            self.bias.as_ref(),
            [1, 1],
            [border, border],
            [1, 1],
            1,
        )
    }
}

/// Three convolutions with a shortcut; keeps the width.
#[derive(Debug)]
pub(super) struct TinyBlock {
    convs: [TinyConv; 3],
    /// True if it also sees the previous frame.
    remembers: bool,
}

impl TinyBlock {
    pub(super) fn new(w: &Weights, width: i64, remembers: bool) -> Result<Self, WeightsError> {
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

    pub(super) fn remembers(&self) -> bool {
        self.remembers
    }

    /// `past`: what it saw in the frame before; nothing before the first.
    pub(super) fn forward(&self, xs: &Tensor, past: Option<&Tensor>) -> Tensor {
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
