//! Scaled dot-product attention: one place to choose how it is computed.

use tch::{Device, Kind, Tensor};

use crate::kernels;

/// libtorch's fastest kernels for GPUs take heads up to this width.
const MAX_FAST_WIDTH: i64 = 256;

/// `q`: `(B, H, L, D)`, `k`, `v`: `(B, H, S, D)`, `bias`: added to the scores, broadcast to `(B, H, L, S)`
/// -> `(B, H, L, D)`. Without `scale` the scores are divided by the root of `D`.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    bias: Option<&Tensor>,
    scale: Option<f64>,
) -> Tensor {
    Tensor::scaled_dot_product_attention(q, k, v, bias, 0.0, false, scale, false)
}

/// One head in half precision that is too wide for libtorch's fast kernels: the scores lie in memory then, `rows` of
/// them at a time, in f32. On an H200 a third of the time of the kernels that take such heads.
///
/// `q`: `(1, 1, L, D)`, `k`, `v`: `(1, 1, S, D)` -> `(1, 1, L, D)`; `None` for other heads, and where libtorch cannot
/// multiply halves to f32.
pub fn wide_attention(q: &Tensor, k: &Tensor, v: &Tensor, rows: i64) -> Option<Tensor> {
    let width = q.size().last().copied()?;
    let is_half = matches!(q.kind(), Kind::Half | Kind::BFloat16);
    if q.device() == Device::Cpu || !is_half || width <= MAX_FAST_WIDTH {
        return None;
    }
    let [q, k, v] = [q, k, v].map(|xs| xs.squeeze_dim(0).squeeze_dim(0));
    let scale = 1.0 / (width as f64).sqrt();
    let parts = q.split(rows, 0).into_iter().map(|q| {
        let scores = q.f_mm_dtype(&k.tr(), Kind::Float).ok()?;
        Some(kernels::softmax_to(&scores, scale, q.kind()).mm(&v))
    });
    let parts = parts.collect::<Option<Vec<_>>>()?;
    Some(Tensor::cat(&parts, 0).unsqueeze(0).unsqueeze(0))
}

/// What hides a pair of tokens when it is added to their score: as far below every other as the type allows.
pub fn lowest(kind: Kind) -> f64 {
    match kind {
        Kind::Half => -65504.0,
        Kind::BFloat16 => -3.3895313892515355e38,
        _ => f64::from(f32::MIN),
    }
}
