//! Rotary positions: pairs of numbers are turned by an angle that grows with the position.
//!
//! Only the table is here; the turning is joined with the norm before it.

use tch::{Device, Kind, Tensor};

use crate::kernels::{self, RopePairing};
use crate::parallel::TokenShards;

/// Angles of tokens at places along several axes, each of which turns some numbers of a head: `ids`: `(L, axes)`; `dims`:
/// how many numbers, `theta`: the base of their frequencies -> `(L, D / 2)` in f64
pub fn angles_of_ids(ids: &Tensor, dims: &[i64], theta: f64) -> Tensor {
    let ids = ids.to_kind(Kind::Double);
    let axes = (0..).zip(dims).map(|(axis, &dim)| {
        let f64s = (Kind::Double, Device::Cpu);
        let exponents = Tensor::arange_start_step(0, dim, 2, f64s) / dim as f64;
        let freqs = Tensor::from(theta).pow(&exponents).reciprocal();
        ids.select(1, axis).outer(&freqs)
    });
    Tensor::cat(&axes.collect::<Vec<_>>(), 1)
}

/// Position ids of the tokens of an image: `time`, row and column, `(I, 3)`
pub fn image_ids([rows, columns]: [i64; 2], time: i64, kind: Kind) -> Tensor {
    let options = (kind, Device::Cpu);
    let [rows, columns] = [rows, columns].map(|count| Tensor::arange(count, options));
    Tensor::cartesian_prod(&[Tensor::full([1], time, options), rows, columns])
}

/// The angles of one axis at `places`, `(L)` in f32 and of any sign, in f32 throughout, as some references have them:
/// `(L, dim / 2)`
pub fn angles_at(places: &Tensor, dim: i64, theta: f64) -> Tensor {
    let exponents = Tensor::arange_start_step(0, dim, 2, (Kind::Float, Device::Cpu)) / dim as f64;
    let freqs = Tensor::pow_scalar(theta, &exponents).reciprocal();
    places.outer(&freqs)
}

/// A table of turns, one row a token.
pub struct Rope {
    /// `(L, 1, D / 2)`, complex
    turns: Tensor,
    shards: TokenShards,
}

impl Rope {
    /// `angles`: `(L, D / 2)` in f64
    pub fn new(angles: &Tensor, device: Device) -> Self {
        Self::of_turns(&angles.cos(), &angles.sin(), device)
    }

    /// `cos`, `sin`: `(L, D / 2)`, which need not be those of one angle: some models take the mean of several.
    pub fn of_turns(cos: &Tensor, sin: &Tensor, device: Device) -> Self {
        let [cos, sin] = [cos, sin].map(|xs| xs.to_kind(Kind::Float));
        let turns = Tensor::complex(&cos, &sin).unsqueeze(1).to_device(device);
        let shards = TokenShards::whole();
        Self { turns, shards }
    }

    /// Turns of some tokens, without ranks.
    pub fn narrow(&self, start: i64, len: i64) -> Self {
        Self {
            turns: self.turns.narrow(0, start, len),
            shards: TokenShards::whole(),
        }
    }

    /// Turns of this rank's tokens of all.
    pub fn spread(&self, shards: &TokenShards) -> Self {
        self.spread_rows(shards, 1)
    }

    /// [`Self::spread`] of a table with so many `rows` for each token.
    pub fn spread_rows(&self, shards: &TokenShards, rows: i64) -> Self {
        let turns = self.turns.unflatten(0, [-1, rows]);
        Self {
            turns: shards.own(&turns, 0).flatten(0, 1),
            shards: shards.clone(),
        }
    }

    /// Ranks that the tokens are split over.
    pub fn shards(&self) -> &TokenShards {
        &self.shards
    }

    /// RoPE of heads, optionally after an RMS norm of each head: `xs`: `(B, L, H, D)`, contiguous heads, tokens with
    /// any stride; `norm`: weights, `(D)`, and epsilon. Returns the same shape, contiguous.
    pub fn turn_heads(
        &self,
        xs: &Tensor,
        norm: Option<(&Tensor, f64)>,
        pairs: RopePairing,
    ) -> Tensor {
        kernels::turned_heads(xs, norm, &self.turns, pairs)
    }

    /// `(L, 1, D / 2)`, complex
    pub fn turns(&self) -> &Tensor {
        &self.turns
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_ids_of_its_row_and_column() {
        let ids = image_ids([2, 3], 7, Kind::Float);
        let ids: Vec<f32> = ids.get(5).try_into().unwrap();
        assert_eq!(ids, [7.0, 1.0, 2.0]);
    }
}
