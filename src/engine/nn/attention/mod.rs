//! Scaled dot-product attention: one place to choose how it is computed.
//!
//! libtorch's fused kernels where it has one for the shapes, else slices: never all scores at once on a GPU, which for
//! a video of 480p would be 86 GB a layer.

mod choice;
mod sliced;
mod spread;
#[cfg(test)]
mod tests;

use safelight_core::compute::AttentionChoice;
pub use spread::{SpreadHeads, spread_qkv_attention};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::kernels;
use crate::runtime::{attention_choice, is_rocm};

/// libtorch's fastest kernels for GPUs take heads up to this width.
const MAX_FAST_WIDTH: i64 = 256;

#[derive(Clone, Copy)]
struct AttentionCall<'a> {
    /// `(B, H, L, D)`
    q: &'a Tensor,
    /// `(B, H, S, D)`
    k: &'a Tensor,
    /// `(B, H, S, E)`
    v: &'a Tensor,
    /// Added to the scores: broadcast to `(B, H, L, S)`
    bias: Option<&'a Tensor>,
    /// Without it the root of `D` divides the scores.
    scale: Option<f64>,
}

impl AttentionCall<'_> {
    /// Scale factor of the scores.
    fn factor(&self) -> f64 {
        let width = self.q.size().last().copied().unwrap_or(1);
        self.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt())
    }
}

/// `q`: `(B, H, L, D)`, `k`, `v`: `(B, H, S, D)`, `bias`: added to the scores, broadcast to `(B, H, L, S)`
/// -> `(B, H, L, D)`. Without `scale` the scores are divided by the root of `D`.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    bias: Option<&Tensor>,
    scale: Option<f64>,
) -> Tensor {
    let call = AttentionCall {
        q,
        k,
        v,
        bias,
        scale,
    };
    if is_sliced(&call) {
        return sliced::sliced(&call, sliced::BUDGET);
    }
    let whole = Tensor::f_scaled_dot_product_attention(q, k, v, bias, 0.0, false, scale, false);
    whole.unwrap_or_else(|err| {
        let err = EngineError::from(err);
        // As everywhere: what runs out of memory ends the stage by a panic.
        assert!(!err.is_out_of_memory(), "{err}");
        tracing::warn!("a fused attention failed; it runs in slices from here on: {err}");
        choice::never_whole(&call);
        sliced::sliced(&call, sliced::BUDGET)
    })
}

/// [`attention`] where several heads of queries share each head of keys and values: `q`: `(B, H, L, D)`, `k`, `v`:
/// `(B, G, S, D)`, `G` dividing `H` -> `(B, H, L, D)`
pub fn shared_attention(q: &Tensor, k: &Tensor, v: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let sharing = q.size()[1] / k.size()[1];
    if sharing > 1 && attention_choice() != AttentionChoice::Sliced {
        let scale = None;
        let call = AttentionCall {
            q,
            k,
            v,
            bias,
            scale,
        };
        if let Some(attended) = shared(&call) {
            return attended;
        }
    }
    let [k, v] = [k, v].map(|xs| repeat_heads(xs, sharing));
    attention(q, &k, &v, bias, None)
}

/// Without a copy of keys and values for each head of queries; `None` where no kernel of libtorch's does that.
fn shared(call: &AttentionCall<'_>) -> Option<Tensor> {
    let AttentionCall { q, k, v, bias, .. } = *call;
    if !choice::is_shared(call) {
        return None;
    }
    let whole = Tensor::f_scaled_dot_product_attention(q, k, v, bias, 0.0, false, None, true);
    whole
        .map_err(|err| {
            let err = EngineError::from(err);
            assert!(!err.is_out_of_memory(), "{err}");
            tracing::warn!(
                "an attention of shared heads failed; they are repeated from here on: {err}"
            );
            choice::never_shared(call);
        })
        .ok()
}

fn is_sliced(call: &AttentionCall<'_>) -> bool {
    attention_choice() == AttentionChoice::Sliced || !choice::is_whole(call)
}

/// [`attention`] among the pixels of an image, without bias: on AMD always in slices, where fused kernels crash on large
/// images (seen by ComfyUI's users; not measured here).
pub fn pixel_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    if pixels_are_sliced(q.device(), is_rocm()) {
        let (bias, scale) = (None, None);
        let call = AttentionCall {
            q,
            k,
            v,
            bias,
            scale,
        };
        return sliced::sliced(&call, sliced::BUDGET);
    }
    attention(q, k, v, None, None)
}

fn pixels_are_sliced(device: Device, is_rocm: bool) -> bool {
    device != Device::Cpu && is_rocm
}

/// Attention of one half-precision head that is too wide for libtorch's fast kernels: `rows` rows of scores at a time
/// are held in memory in f32. On an H200 it takes a third of the time of the kernels that accept such heads.
///
/// `q`: `(1, 1, L, D)`, `k`, `v`: `(1, 1, S, D)`. Returns `(1, 1, L, D)`; `None` for other heads, and if libtorch
/// cannot multiply half precision into f32.
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

/// Mask value added to the score of a hidden pair of tokens: the lowest finite value of the type.
pub fn lowest(kind: Kind) -> f64 {
    match kind {
        Kind::Half => -65504.0,
        Kind::BFloat16 => -3.3895313892515355e38,
        _ => f64::from(f32::MIN),
    }
}

/// Self-attention of queries, keys and values in one product: `qkv`: `(B, L, 3 H, D)`, tokens with any stride; `bias`: see
/// [`attention`] -> `(B, L, H D)`
pub fn qkv_attention(qkv: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let heads = qkv.size()[2] / 3;
    let [q, k, v] = [0, 1, 2].map(|i| qkv.narrow(2, i * heads, heads).transpose(1, 2));
    join_heads(&attention(&q, &k, &v, bias, None))
}

/// `b l (h d) -> b h l d`, a view
pub fn split_heads(xs: &Tensor, num_heads: i64) -> Tensor {
    xs.unflatten(2, [num_heads, -1]).transpose(1, 2)
}

/// Heads of keys or values of which several of queries share each: `b g l d -> b (g sharing) l d`
fn repeat_heads(xs: &Tensor, sharing: i64) -> Tensor {
    let shared = xs.unsqueeze(2).expand([-1, -1, sharing, -1, -1], false);
    shared.flatten(1, 2)
}

/// `b h l d -> b l (h d)`
pub fn join_heads(xs: &Tensor) -> Tensor {
    xs.transpose(1, 2).flatten(2, 3)
}
