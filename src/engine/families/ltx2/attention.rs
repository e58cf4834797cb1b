//! Attention with a gate for each head, of the transformer and of the connectors.

use safelight_core::networks::ltx2::Ltx2Attention;
use tch::Tensor;

use crate::nn::{Linear, Mlp, Rope, RopePairing, TokenRmsNorm, attention, split_heads};
use crate::{Weights, WeightsError};

pub(super) struct HeadGatedAttention {
    to_q: Linear,
    to_k: Linear,
    to_v: Linear,
    to_out: Linear,
    to_gate_logits: Linear,
    q_norm: TokenRmsNorm,
    k_norm: TokenRmsNorm,
    heads: i64,
}

impl HeadGatedAttention {
    pub(super) fn new(shape: &Ltx2Attention, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let inner = shape.inner_dim();
        let (query, context) = (shape.query_dim, shape.context_dim);
        Ok(Self {
            to_q: Linear::new(query, inner, &(w / "to_q"))?,
            to_k: Linear::new(context, inner, &(w / "to_k"))?,
            to_v: Linear::new(context, inner, &(w / "to_v"))?,
            to_out: Linear::new(inner, query, &(w / "to_out" / 0))?,
            to_gate_logits: Linear::new(query, shape.heads, &(w / "to_gate_logits"))?,
            q_norm: TokenRmsNorm::new(inner, eps, &(w / "q_norm"))?,
            k_norm: TokenRmsNorm::new(inner, eps, &(w / "k_norm"))?,
            heads: shape.heads,
        })
    }

    /// `xs`: `(B, N, query)`, `context`: `(B, M, context)`, `ropes`: turns of queries and of keys -> `(B, N, query)`
    pub(super) fn forward(
        &self,
        xs: &Tensor,
        context: &Tensor,
        ropes: Option<[&Rope; 2]>,
    ) -> Tensor {
        let turned = |linear: &Linear, norm: &TokenRmsNorm, xs: &Tensor, which: usize| {
            let ys = norm.forward(&linear.forward(xs));
            match ropes {
                Some(ropes) => self.turned(&ys, ropes[which]),
                None => split_heads(&ys, self.heads),
            }
        };
        let q = turned(&self.to_q, &self.q_norm, xs, 0);
        let k = turned(&self.to_k, &self.k_norm, context, 1);
        let v = split_heads(&self.to_v.forward(context), self.heads);
        let attended = attention(&q, &k, &v, None, None).transpose(1, 2);
        drop((q, k, v));
        // b n h
        let gates = self.to_gate_logits.forward(xs).sigmoid_() * 2.0;
        let attended = (attended * gates.unsqueeze(-1)).flatten(2, 3);
        self.to_out.forward(&attended)
    }

    /// `xs`: `(B, N, H D)` -> `(B, H, N, D)`, turned; each head of a token has a row of `rope`
    fn turned(&self, xs: &Tensor, rope: &Rope) -> Tensor {
        let (batch, tokens, width) = xs.size3().expect("tokens have three dimensions");
        let rows = xs.view([batch, tokens * self.heads, 1, width / self.heads]);
        let ys = rope.turn_heads(&rows, None, RopePairing::Halves);
        split_heads(&ys.view([batch, tokens, width]), self.heads)
    }
}

/// `ff` of a block: two layers with GELU, four times as wide as the stream.
pub(super) fn feed_forward(dim: i64, w: &Weights) -> Result<Mlp, WeightsError> {
    Mlp::new([dim, 4 * dim, dim], ["net.0.proj", "net.2"], w)
}
