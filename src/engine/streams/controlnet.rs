//! ControlNets of dual-stream transformers: blocks of the transformer's kind with a linear layer after each, whose outputs
//! are added to the image tokens in the transformer, after one block or several.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_flux.py`, `controlnet_qwenimage.py`). Each
//! ControlNet has its own embedders and modulation layers.
//!
//! Shapes: as in [`streams`](super).

use safelight_core::job::BlockSet;
use safelight_core::networks::stream_blocks::StreamShape;
use tch::Tensor;

use super::{BlocksForward, StreamBlocks, TokenRanges};
use crate::nn::{Linear, Rope, gated_add};
use crate::{Hooks, Weights, WeightsError};

/// Output of one ControlNet for double and single blocks: `(1, B * I, C)` each
pub type ControlNetOutput = [Vec<Tensor>; 2];

/// Outputs of a job's ControlNets for one call, added to the hidden states.
#[derive(Default)]
pub struct ControlNetResiduals {
    /// Per network, spread evenly over the blocks of each list.
    each: Vec<ControlNetOutput>,
}

impl ControlNetResiduals {
    /// Adds the output of one more network.
    pub fn push(&mut self, output: ControlNetOutput) {
        self.each.push(output);
    }

    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Adds to `img`, `(1, B * I, C)`, the residuals for block `index` of `num_blocks` of a list, 0 for double blocks and 1
    /// for single ones, spread as in diffusers; returns whether there were any.
    pub fn add(&self, list: usize, index: usize, num_blocks: usize, img: &mut Tensor) -> bool {
        let lists = self.each.iter().map(|output| &output[list]);
        let mut is_changed = false;
        for samples in lists.filter(|samples| !samples.is_empty()) {
            let every = num_blocks.div_ceil(samples.len());
            gated_add(img, &samples[index / every], None);
            is_changed = true;
        }
        is_changed
    }
}

/// Layers of a ControlNet besides embedders, blocks and modulation layers.
pub struct ControlNetBlocks {
    embedder: Linear,
    pub dim: i64,
    /// Channels of a control token.
    pub channels: i64,
    /// One layer after each block, double ones first.
    behind: Vec<Linear>,
    num_double: usize,
}

impl ControlNetBlocks {
    /// `w`: by the names of Flux's authors
    pub fn new(shape: &StreamShape, channels: i64, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, [num_double, num_single]) = (shape.dim, shape.blocks);
        let layer = |list: &str, i: i64| Linear::new(dim, dim, &(w / list / i));
        let double = (0..num_double).map(|i| layer("controlnet_blocks", i));
        let single = (0..num_single).map(|i| layer("controlnet_single_blocks", i));
        Ok(Self {
            embedder: Linear::new(channels, dim, &(w / "controlnet_x_embedder"))?,
            dim,
            channels,
            behind: double.chain(single).collect::<Result<_, _>>()?,
            num_double: num_double as usize,
        })
    }

    /// Control images embedded for all calls: `(B, I, channels)`, with dtype and device of the weights -> `(B, I, C)`
    pub fn embedded(&self, control: &Tensor) -> Tensor {
        // One by one, as how a product rounds depends on its rows.
        let each = control.split(1, 0);
        let each = each
            .iter()
            .map(|one| self.embedder.forward(&one.contiguous()));
        Tensor::cat(&each.collect::<Vec<_>>(), 0)
    }

    /// `xs`: embedded texts and images, `(1, L, C)`, changed in place; `control`: see [`embedded`](Self::embedded), per image
    /// or one for all; `modulations`: per block -> residuals of this rank's tokens times `strength`; `None` when
    /// cancelled
    pub fn output(
        &self,
        blocks: &StreamBlocks,
        xs: &Tensor,
        (control, strength): (&Tensor, f64),
        modulations: &[Tensor],
        (tokens, rope): (&TokenRanges, &Rope),
        hooks: &dyn Hooks,
    ) -> Option<ControlNetOutput> {
        let control = control.expand([tokens.images, -1, -1], false);
        let control = control.reshape([1, tokens.img.1, -1]);
        gated_add(&mut tokens.of_img(xs), &control, None);
        let tokens = &tokens.spread(&[tokens.img.1 / tokens.images]);
        let shards = tokens.all_shards();
        let (mut xs, rope) = (shards.own(xs, 1), &rope.spread(&shards));
        let pass = BlocksForward::new(
            blocks,
            modulations,
            tokens,
            rope,
            BlockSet::default(),
            hooks,
        );
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
        let mut residuals = ControlNetResiduals::default();
        let found = |residuals: &ControlNetResiduals| {
            let of_block = |index: usize| {
                let [mut double, mut single] = [sample(0.0), sample(0.0)];
                residuals.add(1, index.min(3), 4, &mut single);
                residuals
                    .add(0, index, 7, &mut double)
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
