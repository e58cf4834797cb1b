//! Transformers of two streams: text and picture in one sequence, first with weights of their own (double blocks), then
//! with common ones (single blocks). Flux's blocks, which are Chroma's and HunyuanVideo's too; and those that have gates
//! in the feed-forward part and no biases.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names. How text and picture get into the
//! sequence, and what becomes of the last hidden states, is the family's.
//!
//! The hidden states of pictures and of their text lie in one tensor all the way, the texts first, so that every pass
//! over memory serves both and, for one picture, nothing is joined or cut for the attention. Queries, keys and values
//! are views of one product, changed in place.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `B` × `T` of text and then `B` × `I` of pictures; `C` width, `H` heads
//! of `D`, `M` width inside the feed-forward part.

mod blocks;
mod pictures;
mod residuals;
mod shared;
mod told;

use safelight_core::job::BlockSet;
use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Device, Kind, Tensor};

use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{Linear, Norm, Rope, TokenRows, layer_norm};
use crate::weights::{Weights, WeightsError};

pub use blocks::{DoubleBlock, Tokens, add_norm};
use blocks::{SingleBlock, layer};
pub use pictures::{PictureStreams, Sizes};
pub use residuals::Residuals;
pub use shared::SharedModulations;
pub use told::{DoubleModulation, MlpEmbedder, OwnModulations};

pub const EPS: f64 = 1e-6;

/// All of a transformer but the way into the sequence, and what makes modulations.
pub struct Streams {
    double_blocks: Vec<DoubleBlock>,
    single_blocks: Vec<SingleBlock>,
    final_layer: FinalLayer,
    kind: Kind,
    device: Device,
}

/// Shifts, scales and gates of one timestep.
pub struct Modulations {
    /// Of each block in their order: the double blocks' `(2, 6, C)`, text first, and the single blocks' `(1, 3, C)`
    pub blocks: Vec<Tensor>,
    /// `(1, 2, C)` in the kind of the last layer
    pub final_layer: Tensor,
}

struct FinalLayer {
    linear: Linear,
    shift_and_scale: (i64, i64),
}

impl Streams {
    /// `last`: where the final layer is, in the kind that it computes in; `outputs`: numbers of a token behind it;
    /// `shift_and_scale`: which vectors of its modulation they are.
    pub fn new(
        shape: &StreamShape,
        outputs: i64,
        shift_and_scale: (i64, i64),
        w: &Weights,
        last: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, [num_double, num_single]) = (shape.dim, shape.blocks);
        Ok(Self {
            double_blocks: (0..num_double)
                .map(|i| DoubleBlock::new(shape, &(w / "double_blocks" / i)))
                .collect::<Result<_, _>>()?,
            single_blocks: (0..num_single)
                .map(|i| SingleBlock::new(shape, &(w / "single_blocks" / i)))
                .collect::<Result<_, _>>()?,
            final_layer: FinalLayer {
                linear: layer(shape, dim, outputs, &(last / "linear"))?,
                shift_and_scale,
            },
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    pub fn num_blocks(&self) -> usize {
        self.double_blocks.len() + self.single_blocks.len()
    }

    /// The final layer of `tokens` hidden states, `(1, N, C)`, to which `norm` applies the norm that it is given
    /// -> `(1, N, outputs)` in f32
    pub fn finish(
        &self,
        tokens: i64,
        modulations: &Modulations,
        norm: impl FnOnce(&Norm<'_>) -> Tensor,
    ) -> Tensor {
        let ranges = [(0, tokens)];
        let (shift, scale) = self.final_layer.shift_and_scale;
        let normed = norm(&Norm::Modulated {
            rows: TokenRows {
                values: &modulations.final_layer,
                ranges: &ranges,
            },
            shift,
            scale,
        });
        let hidden = self.final_layer.linear.forward(&normed);
        hidden.to_kind(Kind::Float)
    }
}

/// One way of hidden states, `(1, L, C)`, through the blocks.
pub struct Pass<'a> {
    pub streams: &'a Streams,
    pub modulations: &'a Modulations,
    pub tokens: &'a Tokens,
    pub rope: &'a Rope,
    pub hooks: &'a dyn Hooks,
    /// Blocks that change nothing.
    without: BlockSet,
    /// Where the tokens of the two streams lie.
    halves: [(i64, i64); 2],
    /// Where all tokens lie.
    whole: [(i64, i64); 1],
}

impl<'a> Pass<'a> {
    pub fn new(
        streams: &'a Streams,
        modulations: &'a Modulations,
        tokens: &'a Tokens,
        rope: &'a Rope,
        without: BlockSet,
        hooks: &'a dyn Hooks,
    ) -> Self {
        Self {
            streams,
            modulations,
            tokens,
            rope,
            without,
            hooks,
            halves: tokens.streams(),
            whole: [(0, tokens.count())],
        }
    }

    /// What block `i` is told, counted through both lists.
    fn rows(&self, i: usize) -> TokenRows<'_> {
        TokenRows {
            values: &self.modulations.blocks[i],
            ranges: if i < self.streams.double_blocks.len() {
                &self.halves
            } else {
                &self.whole
            },
        }
    }

    /// `xs` behind the first norm.
    pub fn start(&self, xs: &Tensor) -> Tensor {
        layer_norm(xs, &Norm::modulated(self.rows(0), 0), EPS)
    }

    pub fn num_double(&self) -> usize {
        self.streams.double_blocks.len()
    }

    /// Double block `i`: `xs` is changed in place, `normed` is `xs` behind the block's first norm -> `xs` behind the first
    /// norm of the next block; `None` when cancelled
    pub fn double(&self, i: usize, xs: &mut Tensor, normed: Tensor) -> Option<Tensor> {
        self.hooks.go_on(Site::Block)?;
        // The last pass of a block is also the first of the next one.
        let next = Norm::modulated(self.rows(i + 1), 0);
        if self.without.holds(i) {
            return Some(layer_norm(xs, &next, EPS));
        }
        let block = &self.streams.double_blocks[i];
        Some(block.forward(xs, normed, self.rows(i), &next, self.tokens, self.rope))
    }

    /// All single blocks likewise -> what the last one adds to the tokens that `own` takes. The others are not read
    /// behind its attention, and get nothing.
    pub fn single(
        &self,
        xs: &mut Tensor,
        mut normed: Tensor,
        own: impl FnOnce(&Tensor) -> Tensor,
    ) -> Option<Tensor> {
        let (last, others) = self.streams.single_blocks.split_last()?;
        for (block, i) in others.iter().zip(self.num_double()..) {
            self.hooks.go_on(Site::Block)?;
            let next = Norm::modulated(self.rows(i + 1), 0);
            if self.without.holds(i) {
                normed = layer_norm(xs, &next, EPS);
                continue;
            }
            // In one statement, so that the wide products are given back before the next norm takes memory.
            let ys = block
                .linear2
                .forward(&block.attend(normed, self.tokens, self.rope));
            normed = add_norm(xs, &ys, self.rows(i), 2, &next);
        }
        if self.without.holds(self.streams.num_blocks() - 1) {
            return Some(own(xs).zeros_like());
        }
        let attended = last.attend(normed, self.tokens, self.rope);
        Some(last.linear2.forward(&own(&attended)))
    }

    /// The vectors of the last block, for `tokens` of one range.
    pub fn last_gate<'b>(&'b self, ranges: &'b [(i64, i64)]) -> TokenRows<'b> {
        TokenRows {
            values: &self.modulations.blocks[self.modulations.blocks.len() - 1],
            ranges,
        }
    }
}
