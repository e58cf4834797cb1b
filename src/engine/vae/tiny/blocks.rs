//! The layers of tiny decoders: convolutions of 3 × 3 and 1 × 1, and residual blocks of three.
//!
//! Widths are those of the file. Plain libtorch: nothing here is large.

use tch::Tensor;

use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub(super) struct Conv {
    /// `(O, C, k, k)`
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Conv {
    /// `inputs`: the channels that it must take, where they are known.
    pub(super) fn read(w: &Weights, inputs: Option<i64>) -> Result<Self, WeightsError> {
        let shape = w.shape_of("weight").unwrap_or_default();
        let of = |axis: usize| shape.get(axis).copied().unwrap_or(0);
        let (outputs, kernel) = (of(0), if of(2) == 1 { 1 } else { 3 });
        let inputs = inputs.unwrap_or_else(|| of(1));
        let bias = w.has("bias").then(|| w.tensor("bias", &[outputs]));
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, kernel, kernel])?,
            bias: bias.transpose()?,
        })
    }

    /// Of what makes several frames of one, all as wide as it: only the last of them.
    pub(super) fn read_grow(w: &Weights, channels: i64) -> Result<Self, WeightsError> {
        let w = w.sub("conv");
        let found = w
            .shape_of("weight")
            .and_then(|shape| shape.first().copied());
        let frames = (found.unwrap_or(0) / channels.max(1)).max(1);
        let all = w.tensor("weight", &[frames * channels, channels, 1, 1])?;
        let last = all.narrow(0, (frames - 1) * channels, channels);
        Ok(Self {
            weight: last.copy(),
            bias: None,
        })
    }

    pub(super) fn inputs(&self) -> i64 {
        self.weight.size()[1]
    }

    pub(super) fn outputs(&self) -> i64 {
        self.weight.size()[0]
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

/// Three convolutions around a shortcut, as wide behind as before.
#[derive(Debug)]
pub(super) struct Block {
    convs: [Conv; 3],
    /// Whether it sees the frame before beside its own.
    remembers: bool,
}

impl Block {
    pub(super) fn read(w: &Weights, channels: i64, remembers: bool) -> Result<Self, WeightsError> {
        let seen = if remembers { 2 * channels } else { channels };
        let first = Conv::read(&w.sub("conv.0"), Some(seen))?;
        let width = first.outputs();
        let second = Conv::read(&w.sub("conv.2"), Some(width))?;
        let third = Conv::read(&w.sub("conv.4"), Some(second.outputs()))?;
        if third.outputs() != channels {
            // Says which shape it should have.
            drop(w.sub("conv.4").tensor("weight", &[channels, width, 3, 3])?);
        }
        Ok(Self {
            convs: [first, second, third],
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
