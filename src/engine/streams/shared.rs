//! What blocks of two streams are told of a timestep where all blocks of a list are told the same, of the timestep alone.
//!
//! Shapes: as in [`streams`](super); `N` timesteps.

use safelight_core::networks::stream_blocks::{SHARED_MODULATIONS, SINUSOIDS, StreamShape};
use tch::{Device, Kind, Tensor};

use super::Modulations;
use super::told::{both_of, each_timestep};
use crate::nn::{Linear, timestep_embedding};
use crate::weights::{Weights, WeightsError};

/// The layers that make modulations, and those that they read; none has a bias.
pub struct SharedModulations {
    time_in: [Linear; 2],
    /// Of the picture's stream, of the text's, and of both in one.
    lists: [Linear; 3],
    /// `adaLN_modulation.1`
    last: Linear,
    shape: StreamShape,
    kind: Kind,
    device: Device,
}

impl SharedModulations {
    /// `w`: the transformer's weights, by the authors' names.
    pub fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let dim = shape.dim;
        let time = &w.with_kind(Kind::Float) / "time_in";
        // All steps' are made at once.
        let told = |count: i64, w: &Weights| Linear::without_bias(dim, count * dim, &w.seldom());
        let [img, txt, both] = SHARED_MODULATIONS.map(|name| w / name / "lin");
        Ok(Self {
            time_in: [
                Linear::without_bias(SINUSOIDS, dim, &(&time / "in_layer"))?,
                Linear::without_bias(dim, dim, &(&time / "out_layer"))?,
            ],
            lists: [told(6, &img)?, told(6, &txt)?, told(3, &both)?],
            last: told(2, &(w / "final_layer" / "adaLN_modulation.1"))?,
            shape: *shape,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// What the blocks are told of each of `times`, from noise alone at 1000 on.
    pub fn modulations(&self, times: &[f32]) -> Vec<Modulations> {
        let times = Tensor::from_slice(times).to_device(self.device);
        let [first, second] = &self.time_in;
        let hidden = first.forward(&timestep_embedding(&times, SINUSOIDS));
        let time = second.forward(&hidden.silu());
        let told = time.silu().to_kind(self.kind);
        let [img, txt, both] = &self.lists;
        let (double, single) = (both_of([txt, img], &told), both.forward(&told).unsqueeze(0));
        let blocks = [double, single].into_iter().zip(self.shape.blocks);
        let blocks = blocks.flat_map(|(all, count)| (0..count).map(move |_| all.shallow_clone()));
        let last = self.last.forward(&told).unsqueeze(0);
        each_timestep(&blocks.collect::<Vec<_>>(), &last, self.shape.dim)
    }
}
