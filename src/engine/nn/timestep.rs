//! The sinusoidal embedding of a timestep, cosines first (diffusers' `flip_sin_to_cos`).

use tch::{Kind, Tensor};

/// `timesteps`: `(N)` -> `(N, dim)` in f32
pub fn timestep_embedding(timesteps: &Tensor, dim: i64) -> Tensor {
    let half = dim / 2;
    let device = timesteps.device();
    let exponents = Tensor::arange(half, (Kind::Float, device)) * -10000_f64.ln() / half as f64;
    let angles = timesteps.to_kind(Kind::Float).unsqueeze(1) * exponents.exp().unsqueeze(0);
    let embedding = Tensor::cat(&[angles.cos(), angles.sin()], -1);
    if dim % 2 == 1 {
        embedding.pad([0, 1], "constant", 0.0)
    } else {
        embedding
    }
}
