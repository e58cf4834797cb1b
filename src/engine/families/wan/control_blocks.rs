//! VACE's control blocks: a second, shorter list of blocks that reads the encoded control video. The output of each is
//! added after a block of the first list.
//!
//! After diffusers 0.42.1 (`models/transformers/transformer_wan_vace.py`), which runs all control blocks first. Here
//! each runs when its output is needed, so that only one output is in memory at a time; the sums are equal.

use safelight_core::networks::WanTransformerConfig;
use tch::Tensor;

use super::transformer::{BlockContext, WanBlock};
use crate::nn::{FusedNorm, GateArgs, Linear, Rope, TokenRows, gated_add, layer_norm};
use crate::{Weights, WeightsError};

pub(super) struct VaceBlocks {
    patch_embedding: Linear,
    before: Linear,
    blocks: Vec<VaceBlock>,
    /// Behind which block each says its word.
    layers: Vec<i64>,
    eps: f64,
}

struct VaceBlock {
    block: WanBlock,
    after: Linear,
}

/// Control video as seen by the transformer: constant in all steps.
pub struct ControlVideo {
    /// Input of the first control block, without the hidden states: `(1, L, C)`
    pub(super) begin: Tensor,
    pub(super) strength: f64,
}

impl VaceBlocks {
    /// Layers before the blocks; [`Self::read_behind`] reads each block. `None` if there are none.
    pub fn begin(config: &WanTransformerConfig, w: &Weights) -> Result<Option<Self>, WeightsError> {
        if !config.has_control() {
            return Ok(None);
        }
        let dim = config.dim();
        Ok(Some(Self {
            patch_embedding: Linear::from_patch_conv(
                config.vace_in_channels,
                dim,
                &config.patch_size,
                &(w / "vace_patch_embedding"),
            )?,
            before: Linear::new(dim, dim, &(w / "vace_blocks" / 0 / "before_proj"))?,
            blocks: Vec::new(),
            layers: config.vace_layers.clone(),
            eps: config.eps,
        }))
    }

    /// Reads the control block whose output is added after the `layer`-th block, if there is one: weights are read in
    /// the order of their use.
    pub fn read_behind(
        &mut self,
        layer: i64,
        config: &WanTransformerConfig,
        w: &Weights,
    ) -> Result<(), WeightsError> {
        let number = self.blocks.len();
        if self.layers.get(number) != Some(&layer) {
            return Ok(());
        }
        let w = &(w / "vace_blocks" / number as i64);
        let dim = config.dim();
        self.blocks.push(VaceBlock {
            block: WanBlock::new(config, w)?,
            after: Linear::new(dim, dim, &(w / "after_proj"))?,
        });
        Ok(())
    }

    pub fn blocks(&self) -> impl Iterator<Item = &WanBlock> {
        self.blocks.iter().map(|control| &control.block)
    }

    pub fn block(&self, number: usize) -> &WanBlock {
        &self.blocks[number].block
    }

    /// `patches`: `(1, L, C_control)`
    pub fn control(&self, patches: &Tensor, strength: f64) -> ControlVideo {
        ControlVideo {
            begin: self.before.forward(&self.patch_embedding.forward(patches)),
            strength,
        }
    }

    /// Index of the control block whose output is added after the `layer`-th block.
    pub fn behind(&self, layer: usize) -> Option<usize> {
        self.layers.iter().position(|&it| it == layer as i64)
    }

    /// Runs one control block on the control blocks' hidden states `xs`, `(B, L, C)` -> what is added to the others',
    /// times `strength`, as large
    pub fn run(
        &self,
        number: usize,
        xs: &mut Tensor,
        strength: f64,
        rows: TokenRows<'_>,
        context: &BlockContext,
        rope: &Rope,
    ) -> Tensor {
        let VaceBlock { block, after } = &self.blocks[number];
        let normed = layer_norm(xs, &FusedNorm::modulated(rows, 0), self.eps);
        let ys = block.forward(xs, normed, rows, context, rope);
        gated_add(xs, &ys, Some(GateArgs { rows, index: 5 }));
        drop(ys);
        let added = after.forward(xs);
        if (strength - 1.0).abs() < f64::EPSILON {
            added
        } else {
            added * strength
        }
    }
}
