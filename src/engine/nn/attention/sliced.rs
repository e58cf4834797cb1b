//! Attention in slices: the scores of some heads and rows at a time, so that memory stays bounded at any length.
//!
//! The softmax is in f32 whatever comes in, and so are the scores, but for AMD's GPUs whose libtorch cannot multiply
//! halves to f32. Slower than fused kernels by what the scores cost to write and read; chooses nothing.

use tch::{Device, Kind, Tensor};

use super::AttentionCall;
use crate::kernels;
use crate::runtime::is_rocm;

/// Bytes that scores, and what is made of them, may have at a time.
pub(super) const BUDGET: usize = 256 << 20;

/// Part of the attention computed at a time within the memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionSlab {
    pub(super) heads: i64,
    pub(super) rows: i64,
}

impl AttentionSlab {
    /// Whole heads where they fit, else rows of one; one row at the least.
    pub(super) fn within(budget: usize, heads: i64, rows: i64, row_bytes: usize) -> Self {
        let fitting = (budget / row_bytes.max(1)).max(1) as i64;
        if fitting >= rows {
            Self {
                heads: (fitting / rows.max(1)).clamp(1, heads.max(1)),
                rows: rows.max(1),
            }
        } else {
            Self {
                heads: 1,
                rows: fitting,
            }
        }
    }
}

/// Precision of the two products: queries with keys, and scores with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScoreProducts {
    /// Halves multiplied to f32, and the softmax as halves in one pass.
    HalvesFused,
    /// Halves multiplied to f32.
    Halves,
    /// Halves multiplied to halves, and the softmax in f32: products of f32 are five to forty times as slow on gfx1151.
    Rounded,
    /// Everything made f32 first.
    Floats,
}

impl ScoreProducts {
    fn for_call(call: &AttentionCall<'_>) -> Self {
        let Device::Cuda(_) = call.q.device() else {
            return Self::Floats;
        };
        // libtorch for ROCm may lack these products.
        let widens = || {
            let [one, two] = [call.q, call.k].map(|xs| xs.select(0, 0).narrow(1, 0, 1));
            one.f_bmm_dtype(&two.transpose(1, 2), Kind::Float).is_ok()
        };
        Self::on_gpu(call, widens, is_rocm())
    }

    /// `widens`: whether libtorch multiplies halves to f32 there.
    pub(super) fn on_gpu(
        call: &AttentionCall<'_>,
        widens: impl FnOnce() -> bool,
        is_rocm: bool,
    ) -> Self {
        if !matches!(call.q.kind(), Kind::Half | Kind::BFloat16) {
            Self::Floats
        } else if !widens() {
            if is_rocm { Self::Rounded } else { Self::Floats }
        } else if call.bias.is_some() {
            Self::Halves
        } else {
            Self::HalvesFused
        }
    }

    /// Of one score, from when it is made until it is used up.
    fn score_bytes(self) -> usize {
        match self {
            Self::Floats => 4,
            Self::Halves => 4 + 2,
            // Without our own kernel libtorch makes two more copies.
            Self::HalvesFused => 4 + 4 + 4 + 2,
            // And once more as a half.
            Self::Rounded => 2 + 4 + 4 + 4 + 2,
        }
    }

    /// Operand of the products: a copy for f32.
    fn ready(self, xs: &Tensor) -> Tensor {
        match self {
            Self::Floats => xs.to_kind(Kind::Float),
            Self::Halves | Self::HalvesFused | Self::Rounded => xs.shallow_clone(),
        }
    }

    /// Share of `factor` applied to the queries: for products in half precision the largest power of two in it, which
    /// is exact and keeps the scores within f16.
    fn early(self, factor: f64) -> f64 {
        if self == Self::Rounded && factor > 0.0 {
            factor.log2().floor().exp2()
        } else {
            1.0
        }
    }

    /// The queries of a slice.
    fn asking(self, xs: &Tensor, factor: f64) -> Tensor {
        let xs = self.ready(xs);
        if self == Self::Rounded {
            xs * self.early(factor)
        } else {
            xs
        }
    }

    /// `xs`: `(h, n, m)`, `ys`: `(h, m, o)` -> `(h, n, o)`, in f32 but for [`Rounded`](Self::Rounded)
    fn multiply(self, xs: &Tensor, ys: &Tensor) -> Tensor {
        match self {
            Self::Floats | Self::Rounded => xs.bmm(ys),
            Self::Halves | Self::HalvesFused => xs
                .f_bmm_dtype(ys, Kind::Float)
                .unwrap_or_else(|err| panic!("{err}")),
        }
    }
}

/// Attention in slices, with at most `budget` bytes in addition to the result and, for half precision without products
/// into f32, the keys and values of some heads in f32. A row whose scores are all minus infinity gives zeros.
pub(super) fn sliced(call: &AttentionCall<'_>, budget: usize) -> Tensor {
    sliced_by(call, budget, ScoreProducts::for_call)
}

/// `products`: of a call that has something in it.
pub(super) fn sliced_by(
    call: &AttentionCall<'_>,
    budget: usize,
    products: impl FnOnce(&AttentionCall<'_>) -> ScoreProducts,
) -> Tensor {
    let AttentionCall { q, k, v, bias, .. } = *call;
    let (q_size, v_size) = (q.size(), v.size());
    let [batch, heads, len] = [0, 1, 2].map(|dim| q_size[dim]);
    let (keys, width) = (v_size[2], v_size[3]);
    // Rows of one token's heads side by side, as fused kernels leave them.
    let out = Tensor::empty([batch, len, heads, width], (q.kind(), q.device())).transpose(1, 2);
    if out.numel() == 0 || keys == 0 {
        return out.zeros_like();
    }
    let products = products(call);
    let row_bytes = (keys as usize).saturating_mul(products.score_bytes());
    let slab = AttentionSlab::within(budget, heads, len, row_bytes);
    let bias = bias.map(|bias| bias.expand([batch, heads, len, keys], true));
    for index in 0..batch {
        let mut head = 0;
        while head < heads {
            let num_heads = slab.heads.min(heads - head);
            let part = |xs: &Tensor| xs.select(0, index).narrow(0, head, num_heads);
            let [q, k, v] = [q, k, v].map(part);
            let [k, v] = [&k, &v].map(|xs| products.ready(xs));
            let mut row = 0;
            while row < len {
                let num_rows = slab.rows.min(len - row);
                let rows = |xs: &Tensor| xs.narrow(1, row, num_rows);
                let asking = products.asking(&rows(&q), call.factor());
                let scores = products.multiply(&asking, &k.transpose(1, 2));
                let bias = bias.as_ref().map(|bias| rows(&part(bias)));
                let ys = weighted(products, scores, bias.as_ref(), call, &v);
                rows(&part(&out)).copy_(&ys);
                row += num_rows;
            }
            head += num_heads;
        }
    }
    out
}

/// The values by the softmax of the scores: `scores`: `(h, n, S)` as multiplied, `v`: `(h, S, E)` -> `(h, n, E)`
fn weighted(
    products: ScoreProducts,
    scores: Tensor,
    bias: Option<&Tensor>,
    call: &AttentionCall<'_>,
    v: &Tensor,
) -> Tensor {
    let mut scores = scores;
    let factor = call.factor() / products.early(call.factor());
    if products == ScoreProducts::Rounded {
        scores = scores.to_kind(Kind::Float);
    }
    let is_fused = products == ScoreProducts::HalvesFused;
    if is_fused || (products == ScoreProducts::Rounded && bias.is_none()) {
        let size = scores.size();
        let flat = scores.view([-1, size[2]]);
        let weights = kernels::softmax_to(&flat, factor, call.q.kind());
        return weights.view(size.as_slice()).bmm(v);
    }
    drop(scores.g_mul_scalar_(factor));
    if let Some(bias) = bias {
        if bias.kind() == Kind::Bool {
            drop(scores.masked_fill_(&bias.logical_not(), f64::NEG_INFINITY));
        } else {
            drop(scores.g_add_(bias));
        }
    }
    // In place, where libtorch's softmax would make another copy.
    let most = scores.amax([-1_i64], true).clamp_min_(f64::from(f32::MIN));
    drop(scores.g_sub_(&most).exp_());
    let sums = scores.sum_dim_intlist([-1_i64].as_slice(), true, Kind::Float);
    let sums = sums.clamp_min(f64::from(f32::MIN_POSITIVE));
    let weights = match products {
        ScoreProducts::Floats => scores,
        // Before the product: the sum of all values may be too large for a half.
        ScoreProducts::Rounded => {
            return scores.g_div_(&sums).to_kind(call.q.kind()).bmm(v);
        }
        ScoreProducts::Halves | ScoreProducts::HalvesFused => scores.to_kind(call.q.kind()),
    };
    products.multiply(&weights, v).g_div_(&sums)
}
