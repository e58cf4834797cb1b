//! What ControlNets add to pictures in a transformer of two streams: one tensor behind each block, or behind several.
//!
//! How they are made is each ControlNet's own.

use tch::Tensor;

use crate::nn::gated_add;

/// What the ControlNets of a job gave for one call, before the blocks of the transformer.
#[derive(Default)]
pub struct Residuals {
    /// Of each network, spread evenly over the blocks: `(1, B * I, C)` each
    lists: Vec<Vec<Tensor>>,
}

impl Residuals {
    /// Those of one network more, which are added to the others'.
    pub fn push(&mut self, samples: Vec<Tensor>) {
        if !samples.is_empty() {
            self.lists.push(samples);
        }
    }

    /// Adds to `img`, the pictures' `(1, B * I, C)`, what belongs behind block `index` of `num_blocks`, as diffusers
    /// spreads it. Whether there is anything.
    pub fn add_behind(&self, index: usize, num_blocks: usize, img: &mut Tensor) -> bool {
        for samples in &self.lists {
            let every = num_blocks.div_ceil(samples.len());
            gated_add(img, &samples[index / every], None);
        }
        !self.lists.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn the_samples_of_several_networks_are_spread_over_the_blocks_and_added() {
        let sample = |value: f64| Tensor::full([1, 1, 1], value, (Kind::Float, Device::Cpu));
        let mut residuals = Residuals::default();
        let found = |residuals: &Residuals| {
            let of_block = |index: usize| {
                let mut img = sample(0.0);
                residuals
                    .add_behind(index, 7, &mut img)
                    .then(|| img.double_value(&[0, 0, 0]))
            };
            (0..7).filter_map(of_block).collect::<Vec<_>>()
        };
        residuals.push(Vec::new());
        assert!(found(&residuals).is_empty());
        residuals.push(vec![sample(1.0), sample(2.0), sample(3.0)]);
        assert_eq!(found(&residuals), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0]);
        residuals.push(vec![sample(10.0), sample(20.0)]);
        let both = [11.0, 11.0, 11.0, 12.0, 22.0, 22.0, 23.0];
        assert_eq!(found(&residuals), both);
    }
}
