//! The sinusoidal embedding of a timestep, cosines first (diffusers' `flip_sin_to_cos`).

use tch::{Device, Kind, Tensor};

/// The timestep of pure noise.
pub const NUM_TIMESTEPS: f32 = 1000.0;

/// `timesteps`: `(N)` -> `(N, dim)` in f32
pub fn timestep_embedding(timesteps: &Tensor, dim: i64) -> Tensor {
    scaled_timestep_embedding(timesteps, 1.0, dim)
}

/// Timesteps of the scheduler (1000 is pure noise) divided by 1000 and multiplied again, with the rounding to f32 that
/// diffusers' pipelines and models have between them.
pub fn rounded_timesteps(timesteps: &[f32]) -> Vec<f32> {
    let timesteps = timesteps.iter();
    timesteps
        .map(|t| t / NUM_TIMESTEPS * NUM_TIMESTEPS)
        .collect()
}

/// Like [`timestep_embedding`] for a network that multiplies the angles by `scale`.
pub fn scaled_timestep_embedding(timesteps: &Tensor, scale: f64, dim: i64) -> Tensor {
    let frequencies = frequencies(dim / 2, timesteps.device());
    let angles = timesteps.to_kind(Kind::Float).unsqueeze(1) * frequencies.unsqueeze(0) * scale;
    let embedding = Tensor::cat(&[angles.cos(), angles.sin()], -1);
    if dim % 2 == 1 {
        embedding.pad([0, 1], "constant", 0.0)
    } else {
        embedding
    }
}

/// `(count)` in f32, by the device's own `exp` as in diffusers.
///
/// Their last bits are other ones on another processor, and a timestep or a guidance of some thousands makes them some
/// ten-thousandths of an angle (docs/reliability.md). Tests can compute with those of their fixtures.
pub(super) fn frequencies(count: i64, device: Device) -> Tensor {
    #[cfg(test)]
    if let Some(recorded) = crate::closeness::recorded_frequencies(count, device) {
        return recorded;
    }
    let exponents = Tensor::arange(count, (Kind::Float, device)) * -10000_f64.ln() / count as f64;
    exponents.exp()
}
