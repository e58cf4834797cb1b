//! Normalisations over the last dimension. Statistics are always taken in f32, whatever comes in.

use tch::{Kind, Tensor};

use super::Rope;
use crate::kernels::{self, FusedNorm};
use crate::weights::{Weights, WeightsError};

/// Mean and deviation, computed and given back in f32 (diffusers' `FP32LayerNorm` before its final cast).
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    dim: i64,
    eps: f64,
}

impl LayerNorm {
    pub fn new(dim: i64, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let w = w.with_kind(Kind::Float);
        let (weight, bias) = (w.tensor("weight", &[dim])?, w.tensor("bias", &[dim])?);
        Ok(Self {
            weight,
            bias,
            dim,
            eps,
        })
    }

    /// `xs`: `(.., dim)` of any kind -> the same in f32
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        let (weight, bias) = (Some(&self.weight), Some(&self.bias));
        xs.to_kind(Kind::Float)
            .layer_norm([self.dim], weight, bias, self.eps, true)
    }

    /// Norm after mean and deviation, for [`gated_add_norm`](super::gated_add_norm).
    pub fn norm(&self) -> FusedNorm<'_> {
        let (weight, bias) = (&self.weight, &self.bias);
        FusedNorm::Affine { weight, bias }
    }

    /// `xs`: `(.., dim)` -> the same, rounded to its kind once
    pub fn forward_as_kind(&self, xs: &Tensor) -> Tensor {
        kernels::layer_norm(xs, &self.norm(), self.eps)
    }
}

/// Root mean square, as `torch.nn.RMSNorm` has it.
pub struct TokenRmsNorm {
    weight: Tensor,
    eps: f64,
}

impl TokenRmsNorm {
    pub fn new(dim: i64, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[dim])?;
        Ok(Self { weight, eps })
    }

    /// Norm followed by RoPE: `xs`: `(B, L, dim)`, rows with any stride. Returns the same shape.
    ///
    /// Consumes `xs`: the result may reuse its memory.
    pub fn forward_rope(&self, xs: Tensor, rope: Option<&Rope>) -> Tensor {
        kernels::rms_norm_rope(xs, &self.weight, self.eps, rope.map(Rope::turns))
    }

    /// `(dim)` in f32
    pub fn weight(&self) -> Tensor {
        self.weight.to_kind(Kind::Float)
    }

    /// The norm alone: `xs`: `(B, L, dim)` -> the same, elsewhere
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        kernels::rms_norm(xs, &self.weight, self.eps)
    }
}

/// Root mean square of each head of queries and keys, with a weight for each of the two.
pub struct QkNorm {
    /// `(2, D)`, or more rows where queries have more heads than keys
    weights: Tensor,
    eps: f64,
}

impl QkNorm {
    /// `head_dim`: numbers of a head, `D`.
    pub fn new(head_dim: i64, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        Self::named(["query_norm.scale", "key_norm.scale"], head_dim, eps, w)
    }

    /// Like [`Self::new`], with other names of the two weights.
    pub fn named(
        [query, key]: [&str; 2],
        head_dim: i64,
        eps: f64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let weight = |name| w.tensor(name, &[head_dim]);
        let weights = Tensor::stack(&[weight(query)?, weight(key)?], 0);
        Ok(Self { weights, eps })
    }

    /// `weights`: `(N, D)`, the first for the first of `N` equal shares of the heads of queries and keys and so on.
    pub fn of_weights(weights: Tensor, eps: f64) -> Self {
        Self { weights, eps }
    }

    /// Splits tokens into heads: `(1, L, C)`, rows with any stride -> a view, `(1, L, H, D)`
    pub fn heads_of(&self, xs: &Tensor) -> Tensor {
        let (size, head_dim) = (xs.size(), self.weights.size()[1]);
        xs.view([1, size[1], size[2] / head_dim, head_dim])
    }

    /// Norm followed by RoPE, in place: `qk`: `(B, L, 2 * H, D)`, the heads of the queries, then those of the keys,
    /// which may be fewer; tokens may have any stride.
    pub fn forward_rope(&self, qk: &mut Tensor, rope: &Rope) {
        kernels::head_norm_rope(qk, &self.weights, self.eps, rope.turns());
    }
}

/// Root mean square as T5 has it: what is normalised is rounded to the weight's type before it is scaled.
pub struct T5Norm {
    weight: Tensor,
    eps: f64,
}

impl T5Norm {
    pub fn new(dim: i64, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[dim])?;
        Ok(Self { weight, eps })
    }

    /// `xs`: `(.., dim)` -> the same
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        let size = self.weight.size();
        let kind = self.weight.kind();
        // The library takes statistics in f32 and rounds to what it was given, all in one pass where it can.
        let xs = if xs.kind() == kind {
            xs.rms_norm(&size, None::<&Tensor>, self.eps)
        } else {
            let wide = xs.to_kind(Kind::Float);
            wide.rms_norm(&size, None::<&Tensor>, self.eps)
                .to_kind(kind)
        };
        xs * &self.weight
    }
}
