//! Weights of a prompt's words, such as `(word:1.2)`, on the hidden states of a text encoder, as in ComfyUI and A1111.
//!
//! By encoder: states of T5, UMT5 and Llama have weights, CLIP's pooled vector has none, and for Qwen ComfyUI has none.
//! The empty prompt is the end token (for Llama the beginning token) and padding; for Chroma it is padding alone.

use tch::{Kind, Tensor};

/// Moves hidden states away from those of the empty prompt, or towards them: `empty + weight (states - empty)` in f32.
/// States of weight 1 stay as they are. `states`: `(N, L, C)`; `empty`: `(1, L, C)`, may be longer; `weights`: `(N, L)`.
pub(super) fn weigh(states: &Tensor, empty: &Tensor, weights: &Tensor) -> Tensor {
    let weights = weights.to_device(states.device()).unsqueeze(-1);
    let empty = empty.narrow(1, 0, states.size()[1]).to_kind(Kind::Float);
    let moved = &empty + (states.to_kind(Kind::Float) - &empty) * &weights;
    states.where_self(&weights.eq(1.0), &moved.to_kind(states.kind()))
}

/// Multiplies hidden states of CLIP by weights, and all states of a text by what its mean was times greater before, as A1111
/// does: `states`, `(N, L, C)`; `weights`, `(N, L)`.
pub(super) fn weigh_and_rescale(states: &Tensor, weights: &Tensor) -> Tensor {
    let weights = weights.to_device(states.device()).unsqueeze(-1);
    let plain = states.to_kind(Kind::Float);
    let weighted = &plain * weights;
    let mean = |xs: &Tensor| xs.mean_dim([1, 2].as_slice(), true, Kind::Float);
    (&weighted * (mean(&plain) / mean(&weighted))).to_kind(states.kind())
}
