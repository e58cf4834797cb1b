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
pub use pictures::{Entry, PictureStreams, Sizes};
pub use residuals::{ControlBlocks, MakeResiduals, Residuals, Samples};
pub use shared::SharedModulations;
pub use told::{BlockModulations, DoubleModulation, MlpEmbedder, OwnModulations, of_timestep};

pub const EPS: f64 = 1e-6;

/// The blocks of both lists.
pub struct Blocks {
    double: Vec<DoubleBlock>,
    single: Vec<SingleBlock>,
    kind: Kind,
    device: Device,
}

impl Blocks {
    /// `w`: by the authors' names.
    pub fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let [num_double, num_single] = shape.blocks;
        Ok(Self {
            double: (0..num_double)
                .map(|i| DoubleBlock::new(shape, &(w / "double_blocks" / i)))
                .collect::<Result<_, _>>()?,
            single: (0..num_single)
                .map(|i| SingleBlock::new(shape, &(w / "single_blocks" / i)))
                .collect::<Result<_, _>>()?,
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub fn double(&self) -> &[DoubleBlock] {
        &self.double
    }

    /// Of both lists.
    pub fn count(&self) -> usize {
        self.double.len() + self.single.len()
    }
}

/// All of a transformer but the way into the sequence, and what makes modulations.
pub struct Streams {
    blocks: Blocks,
    final_layer: FinalLayer,
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
        Ok(Self {
            blocks: Blocks::new(shape, w)?,
            final_layer: FinalLayer {
                linear: layer(shape, shape.dim, outputs, &(last / "linear"))?,
                shift_and_scale,
            },
        })
    }

    pub fn kind(&self) -> Kind {
        self.blocks.kind
    }

    pub fn device(&self) -> Device {
        self.blocks.device
    }

    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub fn num_blocks(&self) -> usize {
        self.blocks.count()
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
    blocks: &'a Blocks,
    /// Of each block, see [`Modulations::blocks`].
    told: &'a [Tensor],
    tokens: &'a Tokens,
    rope: &'a Rope,
    hooks: &'a dyn Hooks,
    /// Blocks that change nothing.
    without: BlockSet,
    /// Where the tokens of the two streams lie.
    halves: [(i64, i64); 2],
    /// Where all tokens lie.
    whole: [(i64, i64); 1],
}

impl<'a> Pass<'a> {
    /// `told`: of each block, see [`Modulations::blocks`].
    pub fn new(
        blocks: &'a Blocks,
        told: &'a [Tensor],
        tokens: &'a Tokens,
        rope: &'a Rope,
        without: BlockSet,
        hooks: &'a dyn Hooks,
    ) -> Self {
        Self {
            blocks,
            told,
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
            values: &self.told[i],
            ranges: if i < self.num_double() {
                &self.halves
            } else {
                &self.whole
            },
        }
    }

    /// The first norm of the block behind block `i`. Nothing reads what stands behind the last one's.
    fn next(&self, i: usize) -> Norm<'_> {
        Norm::modulated(self.rows((i + 1).min(self.blocks.count() - 1)), 0)
    }

    /// `xs` behind the first norm.
    pub fn start(&self, xs: &Tensor) -> Tensor {
        layer_norm(xs, &Norm::modulated(self.rows(0), 0), EPS)
    }

    pub fn num_double(&self) -> usize {
        self.blocks.double.len()
    }

    /// Block `i` of the double ones, and then of the single ones: `xs` is changed in place, `normed` is `xs` behind the
    /// block's first norm -> `xs` behind the first norm of the next block; `None` when cancelled
    pub fn block(&self, i: usize, xs: &mut Tensor, normed: Tensor) -> Option<Tensor> {
        self.hooks.go_on(Site::Block)?;
        // The last pass of a block is also the first of the next one.
        let next = self.next(i);
        if self.without.holds(i) {
            return Some(layer_norm(xs, &next, EPS));
        }
        let rows = self.rows(i);
        if let Some(block) = self.blocks.double.get(i) {
            return Some(block.forward(xs, normed, rows, &next, self.tokens, self.rope));
        }
        let block = &self.blocks.single[i - self.num_double()];
        // In one statement, so that the wide products are given back before the next norm takes memory.
        let ys = block
            .linear2
            .forward(&block.attend(normed, self.tokens, self.rope));
        Some(add_norm(xs, &ys, rows, 2, &next))
    }

    /// Adds what ControlNets gave for double block `i` to the pictures of `xs`, and gives `xs` behind the first norm of the
    /// next block again where there is anything; `normed`: what the block gave.
    pub fn add_behind_double(
        &self,
        i: usize,
        residuals: &Residuals,
        xs: &Tensor,
        normed: Tensor,
    ) -> Tensor {
        let mut img = self.tokens.of_img(xs);
        if residuals.add_double(i, self.num_double(), &mut img) {
            layer_norm(xs, &self.next(i), EPS)
        } else {
            normed
        }
    }

    /// All single blocks likewise, with what ControlNets gave -> what the last one adds to the tokens that `own` takes. The
    /// others are not read behind its attention, and get nothing.
    pub fn single(
        &self,
        xs: &mut Tensor,
        mut normed: Tensor,
        residuals: Option<&Residuals>,
        own: impl FnOnce(&Tensor) -> Tensor,
    ) -> Option<Tensor> {
        let (last, others) = self.blocks.single.split_last()?;
        let first = self.num_double();
        let add = |number: usize, xs: &Tensor| {
            // A single block adds to its hidden states once, at its end: what belongs behind it may come before that.
            if let Some(residuals) = residuals {
                let mut img = self.tokens.of_img(xs);
                residuals.add_single(number, others.len() + 1, &mut img);
            }
        };
        for number in 0..others.len() {
            add(number, xs);
            normed = self.block(first + number, xs, normed)?;
        }
        add(others.len(), xs);
        if self.without.holds(self.blocks.count() - 1) {
            return Some(own(xs).zeros_like());
        }
        let attended = last.attend(normed, self.tokens, self.rope);
        Some(last.linear2.forward(&own(&attended)))
    }

    /// The vectors of the last block, for `tokens` of one range.
    pub fn last_gate<'b>(&'b self, ranges: &'b [(i64, i64)]) -> TokenRows<'b> {
        TokenRows {
            values: &self.told[self.told.len() - 1],
            ranges,
        }
    }
}
