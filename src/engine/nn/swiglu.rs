//! The feed-forward layers of most transformers: values gated by SiLU, without biases.

use tch::Tensor;

use super::{Linear, silu_times};
use crate::weights::{Weights, WeightsError};

pub struct SwiGlu {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl SwiGlu {
    /// `names`: of the gate, the values and the way back, `(dim)` to `(inner)` twice and `(inner)` to `(dim)`.
    pub fn new(
        [gate, up, down]: [&str; 3],
        dim: i64,
        inner: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            gate: Linear::without_bias(dim, inner, &(w / gate))?,
            up: Linear::without_bias(dim, inner, &(w / up))?,
            down: Linear::without_bias(inner, dim, &(w / down))?,
        })
    }

    /// `(B, L, dim)` -> the same
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        self.down(&self.hidden(xs))
    }

    /// The first half: `(B, L, dim)` -> `(B, L, inner)`
    pub fn hidden(&self, xs: &Tensor) -> Tensor {
        silu_times(self.gate.forward(xs), &self.up.forward(xs))
    }

    /// The second half: `(B, L, inner)` -> `(B, L, dim)`
    pub fn down(&self, hidden: &Tensor) -> Tensor {
        self.down.forward(hidden)
    }
}
