//! Attention among all tokens of a sequence that is split over ranks: each rank computes its share of the heads.
//!
//! Shapes: `S` tokens of this rank, `H` heads of `D`, `G` heads of keys and values, which divides `H`.

use tch::Tensor;

use super::{join_heads, qkv_attention, shared_attention};
use crate::parallel::{PendingExchange, TokenShards};

/// Queries, keys and values on their way to the ranks that compute their heads, next to the work that follows.
pub struct SpreadHeads<'a> {
    shards: &'a TokenShards,
    heads: i64,
    sharing: i64,
    parts: [PendingExchange; 3],
}

impl<'a> SpreadHeads<'a> {
    /// `parts`: `(B, S, H, D)` of queries and `(B, S, G, D)` of keys and values, each exchanged as soon as it is made
    pub fn start(parts: [&dyn Fn() -> Tensor; 3], sharing: i64, shards: &'a TokenShards) -> Self {
        Self::between(parts, sharing, [shards; 2])
    }

    /// From one sequence to another one: `shards`: of the queries, and of the keys and values
    pub fn between(
        parts: [&dyn Fn() -> Tensor; 3],
        sharing: i64,
        [shards, others]: [&'a TokenShards; 2],
    ) -> Self {
        let [q, k, v] = parts;
        // Keys last: they take longest to make, which hides the exchange of the others.
        let v = others.start_heads(&v(), 1);
        let q = q();
        let heads = q.size()[2];
        let q = shards.start_heads(&q, sharing);
        let k = others.start_heads(&k(), 1);
        Self {
            shards,
            heads,
            sharing,
            parts: [q, k, v],
        }
    }

    /// `(B, S, H D)`
    pub fn attend(self) -> Tensor {
        self.attend_after(None)
    }

    /// Like [`Self::attend`], of tokens that also see others: `before`: keys and values of this rank's heads of those,
    /// `(1, h, P, D)` each
    pub fn attend_after(self, before: Option<&[Tensor; 2]>) -> Tensor {
        let Self {
            shards,
            heads,
            sharing,
            parts,
        } = self;
        let [q, mut k, mut v] = parts.map(|part| part.wait().transpose(1, 2));
        if let Some(before) = before {
            for (own, before) in [&mut k, &mut v].into_iter().zip(before) {
                let before = before.expand([own.size()[0], -1, -1, -1], false);
                // Of tensors without gaps libtorch copies 16 bytes at a time.
                *own = Tensor::cat(&[&before, &own.contiguous()], 2);
            }
        }
        // A rank without heads gives tokens to the others all the same.
        let ys = match q.numel() {
            0 => q,
            _ => shared_attention(&q, &k, &v, None),
        };
        if shards.is_whole() {
            return join_heads(&ys);
        }
        let ys = shards.own_tokens(&ys.transpose(1, 2), heads, sharing);
        ys.flatten(2, 3)
    }
}

/// [`qkv_attention`] with one exchange for queries, keys and values: `qkv`: `(B, S, 3 H, D)`, tokens with any stride;
/// `bias`: see [`TokenShards::bias`] -> `(B, S, H D)`. `meanwhile`: work that does not depend on the attention
pub fn spread_qkv_attention(
    qkv: &Tensor,
    bias: Option<&Tensor>,
    shards: &TokenShards,
    meanwhile: impl FnOnce(),
) -> Tensor {
    if shards.is_whole() {
        let ys = qkv_attention(qkv, bias);
        meanwhile();
        return ys;
    }
    let [batch, _, heads, width] = [0, 1, 2, 3].map(|i: usize| qkv.size()[i]);
    let heads = heads / 3;
    // b s (k h) d -> b l k h d
    let own = shards.start_heads(&qkv.unflatten(2, [3, heads]), 1);
    meanwhile();
    let own = own.wait();
    let (tokens, own_heads) = (own.size()[1], own.size()[3]);
    let ys = match own_heads {
        0 => Tensor::empty([batch, tokens, 0], (own.kind(), own.device())),
        _ => qkv_attention(&own.flatten(2, 3), bias),
    };
    let ys = shards.own_tokens(&ys.view([batch, tokens, own_heads, width]), heads, 1);
    ys.flatten(2, 3)
}
