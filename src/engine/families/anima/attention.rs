//! Attention of Anima's transformer and of its text adapter, with an RMS norm of each head of queries and keys.
//!
//! Shapes: `B` images, `L` tokens of `C` numbers, `S` tokens of a context of `K` numbers, `H` heads of `D`.

use tch::Tensor;

use crate::nn::{Linear, Rope, RopePairing, SpreadHeads, attention, join_heads, rms_norm};
use crate::{Weights, WeightsError};

/// Epsilon of all norms but those of heads in the transformer.
pub(super) const EPS: f64 = 1e-6;

pub(super) struct HeadNormAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    output: Linear,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: f64,
    heads: i64,
}

impl HeadNormAttention {
    /// `sizes`: `C`, `K` and `H`; `output`: name of the last layer; `eps`: of both norms
    pub(super) fn new(
        [dim, context, heads]: [i64; 3],
        (output, eps): (&str, f64),
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let linear = |name: &str, input| Linear::without_bias(input, dim, &(w / name));
        let norm = |name: &str| (w / name).tensor("weight", &[dim / heads]);
        Ok(Self {
            q_proj: linear("q_proj", dim)?,
            k_proj: linear("k_proj", context)?,
            v_proj: linear("v_proj", context)?,
            output: linear(output, dim)?,
            q_norm: norm("q_norm")?,
            k_norm: norm("k_norm")?,
            eps,
            heads,
        })
    }

    /// Attention of tokens to each other: `xs`: `(B, L, C)`, on every rank its own → the same
    pub(super) fn forward(&self, xs: Tensor, rope: &Rope) -> Tensor {
        let parts: [&dyn Fn() -> Tensor; 3] = [
            &|| self.normed(&self.q_proj, &self.q_norm, &xs, Some(rope)),
            &|| self.normed(&self.k_proj, &self.k_norm, &xs, Some(rope)),
            &|| self.heads_of(&self.v_proj, &xs),
        ];
        let heads = SpreadHeads::start(parts, 1, rope.shards());
        drop(xs);
        self.output.forward(&heads.attend())
    }

    /// Attention to a context, `(1, S, K)`, the same for all images: `xs`: `(B, L, C)` → the same. `ropes`: of both.
    pub(super) fn forward_to(
        &self,
        context: &Tensor,
        xs: &Tensor,
        ropes: Option<[&Rope; 2]>,
    ) -> Tensor {
        let [rope, of_context] = [0, 1].map(|index| ropes.map(|ropes| ropes[index]));
        let q = self.normed(&self.q_proj, &self.q_norm, xs, rope);
        let k = self.normed(&self.k_proj, &self.k_norm, context, of_context);
        let v = self.heads_of(&self.v_proj, context);
        let images = q.size()[0];
        let [k, v] = [k, v].map(|xs| xs.expand([images, -1, -1, -1], false));
        let [q, k, v] = [q, k, v].map(|xs| xs.transpose(1, 2));
        self.output
            .forward(&join_heads(&attention(&q, &k, &v, None, None)))
    }

    /// `(B, L, H, D)`
    fn heads_of(&self, layer: &Linear, xs: &Tensor) -> Tensor {
        layer.forward(xs).unflatten(2, [self.heads, -1])
    }

    /// Heads after their norm and RoPE: `(B, L, H, D)`
    fn normed(&self, layer: &Linear, norm: &Tensor, xs: &Tensor, rope: Option<&Rope>) -> Tensor {
        let heads = self.heads_of(layer, xs);
        match rope {
            Some(rope) => rope.turn_heads(&heads, Some((norm, self.eps)), RopePairing::Halves),
            None => rms_norm(&heads.flatten(1, 2), norm, self.eps).view_as(&heads),
        }
    }
}
