//! A matrix product with an optional bias. How the matrix is stored is this file's business alone.

use tch::{Kind, Tensor};

use crate::weights::{Weights, WeightsError};

pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    pub fn new(in_features: i64, out_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[out_features, in_features])?,
            bias: Some(w.tensor("bias", &[out_features])?),
        })
    }

    pub fn without_bias(
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[out_features, in_features])?,
            bias: None,
        })
    }

    /// A convolution whose kernel is also its stride: `kernel` lists the sizes, inputs are flattened patches.
    pub fn from_patch_conv(
        in_channels: i64,
        out_channels: i64,
        kernel: &[i64],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let mut shape = vec![out_channels, in_channels];
        shape.extend_from_slice(kernel);
        Ok(Self {
            weight: w.tensor("weight", &shape)?.view([out_channels, -1]),
            bias: Some(w.tensor("bias", &[out_channels])?),
        })
    }

    /// The type of the numbers that go in and come out.
    pub fn kind(&self) -> Kind {
        self.weight.kind()
    }

    /// `xs`: `(.., in_features)` -> `(.., out_features)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        xs.linear(&self.weight, self.bias.as_ref())
    }
}
