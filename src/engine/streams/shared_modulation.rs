//! AdaLN modulation that all blocks of a list share, from the timestep alone (FLUX.2).
//!
//! Shapes: as in [`streams`](super); `N` timesteps.

use safelight_core::networks::stream_blocks::{SHARED_MODULATIONS, SINUSOIDS, StreamShape};
use tch::{Device, Kind, Tensor};

use super::StreamModulations;
use super::modulation::{both_of, each_timestep};
use crate::nn::{Linear, timestep_embedding};
use crate::weights::{Weights, WeightsError};

/// Timestep embedder and modulation layers, all without biases.
pub struct SharedModulation {
    time_in: [Linear; 2],
    /// For image stream, text stream, and single blocks.
    lists: [Linear; 3],
    /// `adaLN_modulation.1`
    last: Linear,
    shape: StreamShape,
    kind: Kind,
    device: Device,
}

impl SharedModulation {
    /// `w`: the transformer's weights by the authors' names
    pub fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let dim = shape.dim;
        let time = &w.with_kind(Kind::Float) / "time_in";
        // Run once for all steps.
        let layer = |count: i64, w: &Weights| Linear::without_bias(dim, count * dim, &w.seldom());
        let [img, txt, both] = SHARED_MODULATIONS.map(|name| w / name / "lin");
        Ok(Self {
            time_in: [
                Linear::without_bias(SINUSOIDS, dim, &(&time / "in_layer"))?,
                Linear::without_bias(dim, dim, &(&time / "out_layer"))?,
            ],
            lists: [layer(6, &img)?, layer(6, &txt)?, layer(3, &both)?],
            last: layer(2, &(w / "final_layer" / "adaLN_modulation.1"))?,
            shape: *shape,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Modulation for each timestep; 1000 is pure noise.
    pub fn modulations(&self, times: &[f32]) -> Vec<StreamModulations> {
        let times = Tensor::from_slice(times).to_device(self.device);
        let [first, second] = &self.time_in;
        let hidden = first.forward(&timestep_embedding(&times, SINUSOIDS));
        let time = second.forward(&hidden.silu());
        let time = time.silu().to_kind(self.kind);
        let [img, txt, both] = &self.lists;
        let (double, single) = (both_of([txt, img], &time), both.forward(&time).unsqueeze(0));
        let blocks = [double, single].into_iter().zip(self.shape.blocks);
        let blocks = blocks.flat_map(|(all, count)| (0..count).map(move |_| all.shallow_clone()));
        let last = self.last.forward(&time).unsqueeze(0);
        each_timestep(&blocks.collect::<Vec<_>>(), &last, self.shape.dim)
    }
}
