//! Attention with a gate for each head, of the transformer and of the connectors.

use safelight_core::networks::ltx2::Ltx2Attention;
use tch::Tensor;

use crate::nn::{Linear, Mlp, Rope, RopePairing, SpreadHeads, TokenRmsNorm};
use crate::parallel::TokenShards;
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

    /// `xs`: `(B, N, query)`, `context`: `(B, M, context)`, `ropes`: turns of queries and of keys -> `(B, N, query)`. Where
    /// the turns of the keys are not split over ranks, all of the context is on each of them.
    pub(super) fn forward(
        &self,
        xs: &Tensor,
        context: &Tensor,
        ropes: Option<[&Rope; 2]>,
    ) -> Tensor {
        let whole = TokenShards::whole();
        let spread = ropes.map(|ropes| ropes.map(Rope::shards));
        let spread = spread.filter(|[_, keys]| !keys.is_whole());
        let shards = spread.unwrap_or([&whole; 2]);
        let normed = |linear: &Linear, norm: &TokenRmsNorm, xs: &Tensor, which: usize| {
            let ys = norm.forward(&linear.forward(xs));
            let (batch, tokens, width) = ys.size3().expect("tokens have three dimensions");
            let heads = [batch, tokens, self.heads, width / self.heads];
            let Some(ropes) = ropes else {
                return ys.view(heads);
            };
            // Each head of a token has a row of the table.
            let rows = ys.view([batch, tokens * self.heads, 1, width / self.heads]);
            let turned = ropes[which].turn_heads(&rows, None, RopePairing::Halves);
            turned.view(heads)
        };
        let parts: [&dyn Fn() -> Tensor; 3] = [
            &|| normed(&self.to_q, &self.q_norm, xs, 0),
            &|| normed(&self.to_k, &self.k_norm, context, 1),
            &|| self.to_v.forward(context).unflatten(2, [self.heads, -1]),
        ];
        let heads = SpreadHeads::between(parts, 1, shards);
        // b n h
        let gates = self.to_gate_logits.forward(xs).sigmoid_() * 2.0;
        let attended = heads.attend().unflatten(2, [self.heads, -1]) * gates.unsqueeze(-1);
        self.to_out.forward(&attended.flatten(2, 3))
    }
}

/// `ff` of a block: two layers with GELU, four times as wide as the stream.
pub(super) fn feed_forward(dim: i64, w: &Weights) -> Result<Mlp, WeightsError> {
    Mlp::new([dim, 4 * dim, dim], ["net.0.proj", "net.2"], w)
}
