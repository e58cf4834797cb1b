//! Scaled dot-product attention: one place to choose how it is computed.

use tch::Tensor;

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
