//! Our own kernels for GPUs: the element-wise passes between matrix products, each in one pass over memory.
//!
//! `rows.cu`, `pixels.cu` and `expand.cu` are compiled on the user's machine by what libtorch brings along, NVRTC or HIPRTC, on first use, and kept
//! in the cache folder. Every kernel has a twin in libtorch's operations, which is its definition; the two are
//! compared once in each process before a kernel is used. Where no kernel can be used, on the CPU, for other kinds
//! and shapes, or where anything at all fails, the twin does the work, so no job depends on a kernel.
//! `SAFELIGHT_KERNELS=off` uses the twins alone, for comparisons.
//!
//! Networks call these through [`crate::nn`], which knows weights and tables; nothing here does.

mod binary_cache;
mod block_reference;
mod check;
pub(crate) mod child_compiler;
mod compiler;
mod copies;
mod driver;
mod error;
mod expand;
mod loaded;
mod ops;
mod pass_params;
mod pixels;
pub mod reference;
mod rms;
mod vendor;

pub(crate) use binary_cache::forget_tries;
pub(crate) use copies::{CopyDriver, CopyMark, PinnedCopyStream as CopyLane};
pub(crate) use driver::{StreamMark, fork_stream, use_gpu};
pub use error::KernelError;
pub use pass_params::{FusedNorm, GateArgs, QuantRows, RopePairing, TokenRows};

use loaded::{kernels_for, kernels_of};
use pass_params::ElementActivation;
use safelight_core::formats::weights::gguf::BlockType;
use tch::{Kind, Tensor};

#[cfg(test)]
mod tests;

/// Libraries that may contain HIP's functions, next to a libtorch in this folder.
#[cfg(test)]
pub(crate) fn hip_libraries(folder: &std::path::Path) -> Vec<libloading::os::unix::Library> {
    vendor::libraries(folder, &vendor::HIP)
}

/// Layer norm over the last dimension: `xs`: `(B, L, C)` -> the same.
pub fn layer_norm(xs: &Tensor, norm: &FusedNorm<'_>, eps: f64) -> Tensor {
    kernels_for(xs)
        .and_then(|kernels| kernels.layer_norm(xs, norm, eps))
        .unwrap_or_else(|| reference::layer_norm(xs, norm, eps))
}

/// `xs += ys * gate` in place, or `xs += ys`: both `(B, L, C)`.
pub fn gated_add(xs: &mut Tensor, ys: &Tensor, gate: Option<GateArgs<'_>>) {
    let done = kernels_for(xs).and_then(|kernels| kernels.gated_add(xs, ys, gate));
    if done.is_none() {
        reference::gated_add(xs, ys, gate);
    }
}

/// [`gated_add`], then [`layer_norm`] of the sum, which is given back.
pub fn gated_add_norm(
    xs: &mut Tensor,
    ys: &Tensor,
    gate: Option<GateArgs<'_>>,
    norm: &FusedNorm<'_>,
    eps: f64,
) -> Tensor {
    let fused = kernels_for(xs).and_then(|kernels| kernels.gated_add_norm(xs, ys, gate, norm, eps));
    fused.unwrap_or_else(|| {
        gated_add(xs, ys, gate);
        layer_norm(xs, norm, eps)
    })
}

/// RMS norm over the last dimension, then RoPE of neighbouring pairs.
///
/// `xs`: `(B, L, C)`, rows with any stride, `weight`: `(C)`, `turns`: `(L, 1, D / 2)` complex for heads of `D`. Returns
/// the shape of `xs`. Consumes `xs`: the result may reuse its memory.
pub fn rms_norm_rope(xs: Tensor, weight: &Tensor, eps: f64, turns: Option<&Tensor>) -> Tensor {
    let done = kernels_for(&xs).and_then(|kernels| kernels.rms_norm_rope(&xs, weight, eps, turns));
    match done {
        Some(()) => xs,
        None => reference::rms_norm_rope(&xs, weight, eps, turns),
    }
}

/// Root mean square over the last dimension: `xs`: `(B, L, C)`, its rows at any one distance, `weight`: `(C)` -> the
/// same as `xs`, without gaps
pub fn rms_norm(xs: &Tensor, weight: &Tensor, eps: f64) -> Tensor {
    kernels_for(xs)
        .and_then(|kernels| kernels.rms_norm(xs, weight, None, eps))
        .unwrap_or_else(|| reference::rms_norm_rope(xs, weight, eps, None))
}

/// Like [`rms_norm`], then adds `shift` to each channel: `weight`, `shift`: `(C)`, both of one kind
pub fn rms_norm_shifted(xs: &Tensor, weight: &Tensor, shift: &Tensor, eps: f64) -> Tensor {
    kernels_for(xs)
        .and_then(|kernels| kernels.rms_norm(xs, weight, Some(shift), eps))
        .unwrap_or_else(|| reference::rms_norm_shifted(xs, weight, shift, eps))
}

/// Like [`rms_norm`]; consumes `xs`: the result may reuse its memory.
pub fn rms_norm_in_place(xs: Tensor, weight: &Tensor, eps: f64) -> Tensor {
    rms_norm_rope(xs, weight, eps, None)
}

/// Root mean square over each head, then the turns of neighbouring pairs, in place.
///
/// `xs`: `(B, L, H, D)`, heads side by side and tokens at any one distance, `weights`: `(N, D)`, the first for the
/// first of `N` equal shares of the heads and so on, `turns`: `(L, 1, D / 2)` complex
pub fn head_norm_rope(xs: &mut Tensor, weights: &Tensor, eps: f64, turns: &Tensor) {
    let done = kernels_for(xs).and_then(|kernels| kernels.head_norm_rope(xs, weights, eps, turns));
    if done.is_none() {
        reference::head_norm_rope(xs, weights, eps, turns);
    }
}

/// RoPE of each head's pairs, after an RMS norm of each head if `norm` gives weights, `(D)`, and epsilon.
///
/// `xs`: `(B, L, H, D)`, contiguous heads, tokens with any stride, `turns`: `(L, 1, D / 2)` complex. Returns the shape
/// of `xs`, contiguous.
pub fn turned_heads(
    xs: &Tensor,
    norm: Option<(&Tensor, f64)>,
    turns: &Tensor,
    pairs: RopePairing,
) -> Tensor {
    kernels_for(xs)
        .and_then(|kernels| kernels.turned_heads(xs, norm, turns, pairs))
        .unwrap_or_else(|| reference::turned_heads(xs, norm, turns, pairs))
}

/// GELU with the tanh approximation. Consumes `xs`: the result uses its memory, with any row stride.
pub fn gelu_tanh(xs: Tensor) -> Tensor {
    activate(xs, ElementActivation::GeluTanh)
}

/// `x * sigmoid(x)`. Consumes `xs`: the result uses its memory.
pub fn silu(xs: Tensor) -> Tensor {
    activate(xs, ElementActivation::Silu)
}

/// `x * sigmoid(x) * y`, with `ys` of equal size. Consumes `xs`: the result uses its memory; rows of both may have any
/// stride.
pub fn silu_times(xs: Tensor, ys: &Tensor) -> Tensor {
    activate(xs, ElementActivation::SiluTimes(ys))
}

/// `x * sigmoid(y)`, likewise.
pub fn times_sigmoid(xs: Tensor, ys: &Tensor) -> Tensor {
    activate(xs, ElementActivation::TimesSigmoid(ys))
}

/// `gelu(x) * y` with the exact GELU, likewise.
pub fn gelu_times(xs: Tensor, ys: &Tensor) -> Tensor {
    activate(xs, ElementActivation::GeluTimes(ys))
}

fn activate(xs: Tensor, what: ElementActivation<'_>) -> Tensor {
    let mut xs = xs;
    let done = kernels_for(&xs).and_then(|kernels| kernels.activate(&xs, what));
    if done.is_none() {
        reference::activate(&mut xs, what);
    }
    xs
}

/// Each pixel's channels divided by their norm, times `factor`, then SiLU: `xs`: `(.., C)`, `factor`: `(C)`, `out`: of equal
/// size, whose rows may have any stride. `None` if no kernel fits.
pub fn pixel_norm_silu_into(xs: &Tensor, factor: &Tensor, out: &Tensor) -> Option<()> {
    kernels_for(xs)?.pixel_norm_silu_into(xs, factor, out)
}

/// Mean and variance of each channel over all pixels, both `(C)` in f32: `xs`: `(.., C)`, without gaps.
pub fn channel_moments(xs: &Tensor) -> (Tensor, Tensor) {
    kernels_for(xs)
        .and_then(|kernels| kernels.channel_moments(xs))
        .unwrap_or_else(|| reference::channel_moments(xs))
}

/// `xs * scale + shift`, then optionally SiLU.
///
/// `xs`: `(.., C)`, contiguous, `scale`, `shift`: `(C)` in f32. Returns the shape of `xs`.
pub fn scaled_channels(xs: &Tensor, scale: &Tensor, shift: &Tensor, with_silu: bool) -> Tensor {
    kernels_for(xs)
        .and_then(|kernels| kernels.scaled_channels(xs, scale, shift, with_silu))
        .unwrap_or_else(|| reference::scaled_channels(xs, scale, shift, with_silu))
}

/// `xs += ys + bias` in place, or one of the two: `xs`, `ys`: `(.., C)`, `bias`: `(C)` in f32.
pub fn add_to_pixels(xs: &mut Tensor, ys: Option<&Tensor>, bias: Option<&Tensor>) {
    let done = kernels_for(xs).and_then(|kernels| kernels.add_to_pixels(xs, ys, bias));
    if done.is_none() {
        reference::add_to_pixels(xs, ys, bias);
    }
}

/// Puts the four pixels that one becomes where they belong, with `bias`, `(C)` in f32, added to all.
///
/// `corners`: `(T, H + 1, W + 1, 4 * C)`: one corner of each of four neighbours -> `(T, 2 * H, 2 * W, C)`
pub fn placed_corners(corners: &Tensor, bias: Option<&Tensor>) -> Tensor {
    kernels_for(corners)
        .and_then(|kernels| kernels.placed_corners(corners, bias))
        .unwrap_or_else(|| reference::placed_corners(corners, bias))
}

/// The softmax of `scores * scale` over the last dimension, in `kind`: `scores`: `(R, S)` in f32 -> `(R, S)`
pub fn softmax_to(scores: &Tensor, scale: f64, kind: Kind) -> Tensor {
    kernels_of(scores.device(), kind)
        .and_then(|kernels| kernels.softmax_to(scores, scale))
        .unwrap_or_else(|| reference::softmax_to(scores, scale, kind))
}

/// The numbers of GGUF's blocks, in f32 the very bits of gguf-py's `dequantize`, rounded once to `kind`.
///
/// `blocks`: `(N, bytes of a block)`, without gaps -> flat, of `kind`
pub fn expand_blocks(blocks: &Tensor, block: BlockType, kind: Kind) -> Tensor {
    kernels_of(blocks.device(), kind)
        .and_then(|kernels| kernels.expand_blocks(blocks, block))
        .unwrap_or_else(|| reference::expand_blocks(blocks, block, kind))
}

/// Numbers of fp8 times `scale`, in `kind`, of the same size.
pub fn expand_fp8(numbers: &Tensor, scale: f32, kind: Kind) -> Tensor {
    kernels_of(numbers.device(), kind)
        .and_then(|kernels| kernels.expand_fp8(numbers, scale))
        .unwrap_or_else(|| reference::expand_fp8(numbers, scale, kind))
}

/// A quantized matrix, whose rotation is undone, rounded once to `kind`: `(R, C)`.
pub fn expand_quant(rows: &QuantRows<'_>, kind: Kind) -> Tensor {
    kernels_of(rows.codes.device(), kind)
        .and_then(|kernels| kernels.expand_quant(rows))
        .unwrap_or_else(|| reference::expand_quant(rows, kind))
}
