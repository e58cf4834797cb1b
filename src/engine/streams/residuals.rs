//! ControlNets of transformers of two streams: blocks of the transformer's kind with a layer behind each, and what these
//! give, which is added to the pictures in the transformer, one tensor behind each block or behind several.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_flux.py`, `controlnet_qwenimage.py`). How texts
//! and pictures get into the sequence, and what the blocks are told, is each ControlNet's own.
//!
//! Shapes: as in [`streams`](super).

use std::rc::Rc;

use safelight_core::job::BlockSet;
use safelight_core::networks::stream_blocks::StreamShape;
use tch::Tensor;

use super::{Blocks, Pass, Tokens};
use crate::hooks::Hooks;
use crate::nn::{Linear, Rope, gated_add};
use crate::weights::{Weights, WeightsError};

/// What one ControlNet gives for a call, of double blocks and of single ones: `(1, B * I, C)` each
pub type Samples = [Vec<Tensor>; 2];

/// Makes what ControlNets add in a call, where the call needs it; `None` when cancelled.
pub type MakeResiduals<'a> = Option<&'a dyn Fn() -> Option<Rc<Residuals>>>;

/// What the ControlNets of a job gave for one call, before the blocks of the transformer.
#[derive(Default)]
pub struct Residuals {
    /// Of each network, spread evenly over the blocks of each list.
    each: Vec<Samples>,
}

impl Residuals {
    /// Those of one network more, which are added to the others'.
    pub fn push(&mut self, samples: Samples) {
        self.each.push(samples);
    }

    /// Adds to `img`, the pictures' `(1, B * I, C)`, what belongs behind double block `index` of `num_blocks`, as diffusers
    /// spreads it. Whether there is anything.
    pub fn add_double(&self, index: usize, num_blocks: usize, img: &mut Tensor) -> bool {
        self.add(0, index, num_blocks, img)
    }

    /// The same of single blocks.
    pub fn add_single(&self, index: usize, num_blocks: usize, img: &mut Tensor) -> bool {
        self.add(1, index, num_blocks, img)
    }

    fn add(&self, list: usize, index: usize, num_blocks: usize, img: &mut Tensor) -> bool {
        let lists = self.each.iter().map(|samples| &samples[list]);
        let mut is_changed = false;
        for samples in lists.filter(|samples| !samples.is_empty()) {
            let every = num_blocks.div_ceil(samples.len());
            gated_add(img, &samples[index / every], None);
            is_changed = true;
        }
        is_changed
    }
}

/// What a ControlNet has beside the way into the sequence, its blocks and what tells them of timesteps.
pub struct ControlBlocks {
    embedder: Linear,
    /// Behind each block, double ones first.
    behind: Vec<Linear>,
    num_double: usize,
}

impl ControlBlocks {
    /// `channels`: numbers of a control picture's token; `w`: in the names of Flux's authors.
    pub fn new(shape: &StreamShape, channels: i64, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, [num_double, num_single]) = (shape.dim, shape.blocks);
        let layer = |list: &str, i: i64| Linear::new(dim, dim, &(w / list / i));
        let double = (0..num_double).map(|i| layer("controlnet_blocks", i));
        let single = (0..num_single).map(|i| layer("controlnet_single_blocks", i));
        Ok(Self {
            embedder: Linear::new(channels, dim, &(w / "controlnet_x_embedder"))?,
            behind: double.chain(single).collect::<Result<_, _>>()?,
            num_double: num_double as usize,
        })
    }

    /// Control pictures as they join the noise in every call: `(B, I, channels)`, of the kind of the weights and where they
    /// are -> `(B, I, C)`
    pub fn embedded(&self, control: &Tensor) -> Tensor {
        // One by one, as how a product rounds depends on its rows.
        let each = control.split(1, 0);
        let each = each
            .iter()
            .map(|one| self.embedder.forward(&one.contiguous()));
        Tensor::cat(&each.collect::<Vec<_>>(), 0)
    }

    /// `xs`: texts and pictures in the sequence, `(1, L, C)`, changed in place; `control`: of [`embedded`](Self::embedded),
    /// of as many pictures or of one for all; `told`: of each block -> what is added in the transformer, `strength` times;
    /// `None` when cancelled
    pub fn samples(
        &self,
        blocks: &Blocks,
        mut xs: Tensor,
        (control, strength): (&Tensor, f64),
        told: &[Tensor],
        (tokens, rope): (&Tokens, &Rope),
        hooks: &dyn Hooks,
    ) -> Option<Samples> {
        let control = control.expand([tokens.pictures, -1, -1], false);
        let control = control.reshape([1, tokens.img.1, -1]);
        gated_add(&mut tokens.of_img(&xs), &control, None);
        let pass = Pass::new(blocks, told, tokens, rope, BlockSet::default(), hooks);
        let mut normed = pass.start(&xs);
        let mut samples = Vec::with_capacity(self.behind.len());
        for (i, behind) in self.behind.iter().enumerate() {
            normed = pass.block(i, &mut xs, normed)?;
            let mut sample = behind.forward(&tokens.of_img(&xs));
            if strength != 1.0 {
                drop(sample.g_mul_scalar_(strength));
            }
            samples.push(sample);
        }
        let single = samples.split_off(self.num_double);
        Some([samples, single])
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
                let [mut double, mut single] = [sample(0.0), sample(0.0)];
                residuals.add_single(index.min(3), 4, &mut single);
                residuals
                    .add_double(index, 7, &mut double)
                    .then(|| [double, single].map(|img| img.double_value(&[0, 0, 0])))
            };
            (0..7).filter_map(of_block).collect::<Vec<_>>()
        };
        residuals.push([Vec::new(), Vec::new()]);
        assert!(found(&residuals).is_empty());
        let three = [1.0, 2.0, 3.0].map(sample).into_iter().collect();
        residuals.push([three, Vec::new()]);
        let spread = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0];
        assert_eq!(found(&residuals), spread.map(|value| [value, 0.0]));
        let two = |values: [f64; 2]| values.map(sample).into_iter().collect();
        residuals.push([two([10.0, 20.0]), two([5.0, 6.0])]);
        let double = [11.0, 11.0, 11.0, 12.0];
        let found = found(&residuals);
        for (block, single) in [5.0, 5.0, 6.0, 6.0].into_iter().enumerate() {
            assert_eq!(found[block], [double[block], single]);
        }
    }
}
