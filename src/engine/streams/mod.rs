//! Dual-stream transformers (MMDiT): text and image in one sequence, first with separate weights (double blocks), then
//! with common ones (single blocks). The blocks of FLUX.1, Chroma and HunyuanVideo, and FLUX.2's, which have gated
//! feed-forward layers and no biases.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names. Each family embeds text and image
//! and uses the last hidden states.
//!
//! The hidden states of images and of their text share one tensor throughout, texts first, so that every pass over memory
//! serves both and, for one image, nothing is joined or cut for the attention. Queries, keys and values are views of one
//! product, changed in place.
//!
//! Shapes: `B` images of one text; `L` tokens, `B` × `T` of text and then `B` × `I` of images; `C` width, `H` heads
//! of `D`, `M` width of the feed-forward layers.

mod blocks;
mod controlnet;
mod modulation;

use std::rc::Rc;

use safelight_core::job::BlockSet;
use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Device, Kind, Tensor};

use crate::fault::FaultSite;
use crate::nn::{FusedNorm, GateArgs, Linear, Rope, TokenRows, gated_add, layer_norm};
use crate::step_cache::{BlockSkipper, SkipOptions};
use crate::{Hooks, Weights, WeightsError};

use blocks::{DoubleBlock, SingleBlock, layer};
pub use blocks::{TokenRanges, add_norm};
pub use controlnet::{ControlNetBlocks, ControlNetResiduals};
pub use modulation::{StreamModulation, embedder};

pub const EPS: f64 = 1e-6;

/// Double and single blocks.
pub struct StreamBlocks {
    double: Vec<DoubleBlock>,
    single: Vec<SingleBlock>,
    pub kind: Kind,
    pub device: Device,
}

impl StreamBlocks {
    /// `w`: by the authors' names
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

    /// Number of blocks of both kinds.
    pub fn count(&self) -> usize {
        self.double.len() + self.single.len()
    }
}

/// Blocks and output layer, without embedders and modulation layers.
pub struct MmditBackbone {
    pub blocks: StreamBlocks,
    /// The final layer, and the indices of shift and scale in its modulation.
    linear: Linear,
    shift_and_scale: (i64, i64),
    ends_in_f32: bool,
}

/// Shift, scale and gate vectors (adaLN) for one timestep.
pub struct StreamModulations {
    /// One tensor per block in order: `(2, 6, C)` for double blocks, text first, `(1, 3, C)` for single blocks
    pub blocks: Vec<Tensor>,
    /// `(1, 2, C)` in the kind of the last layer; `None` in ControlNets
    pub final_layer: Option<Tensor>,
}

impl MmditBackbone {
    /// `last`: weights of the final layer, in f32 if `ends_in_f32`; `outputs`: its output channels per token;
    /// `shift_and_scale`: indices of these vectors in its modulation
    pub fn new(
        shape: &StreamShape,
        outputs: i64,
        shift_and_scale: (i64, i64),
        w: &Weights,
        (last, ends_in_f32): (&Weights, bool),
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            blocks: StreamBlocks::new(shape, w)?,
            linear: layer(shape, shape.dim, outputs, &(last / "linear"))?,
            shift_and_scale,
            ends_in_f32,
        })
    }

    /// Runs the blocks with a step cache and `residuals` of ControlNets, which are computed only if blocks run: `xs`: all
    /// tokens, `(1, L, C)`, changed in place; `own`: start and number of those that are predicted, the last of each image
    /// -> the final layer's output for these, `(B, N, outputs)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        xs: &mut Tensor,
        modulations: &StreamModulations,
        (tokens, rope, own): (&TokenRanges, &Rope, (i64, i64)),
        skip: SkipOptions<'_>,
        residuals: impl FnOnce() -> Option<Rc<ControlNetResiduals>>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let predicted = own.1 / tokens.images;
        let others = tokens.img.1 / tokens.images - predicted;
        let tokens = &tokens.spread(&[others, predicted]);
        let shards = tokens.all_shards();
        let rope = &rope.spread(&shards);
        *xs = shards.own(xs, 1);
        let own = tokens.last();
        let without = skip.without;
        let blocks = &modulations.blocks;
        let pass = BlocksForward::new(&self.blocks, blocks, tokens, rope, without, hooks);
        let mut skip = BlockSkipper::of(skip);
        let own_of = |xs: &Tensor| xs.narrow(1, own.0, own.1);
        let range = [(0, own.1)];
        let rows_of = |values| TokenRows {
            values,
            ranges: &range,
        };
        let (shift, scale) = self.shift_and_scale;
        let values = modulations.final_layer.as_ref();
        let rows = rows_of(values.expect("a transformer has a final layer"));
        let last = FusedNorm::Modulated { rows, shift, scale };
        let exact = |hidden: &Tensor| layer_norm(&hidden.to_kind(Kind::Float), &last, EPS);
        let normed = match pass.double(xs, &mut skip, own_of, residuals)? {
            DoubleOutput::Skipped(hidden) if self.ends_in_f32 => exact(&hidden),
            DoubleOutput::Skipped(hidden) => layer_norm(&hidden, &last, EPS),
            DoubleOutput::Computed(normed, residuals) => {
                let ys = pass.single(xs, normed, &residuals, own_of)?;
                let mut hidden = own_of(xs);
                let rows = rows_of(blocks.last()?);
                let normed = if self.ends_in_f32 {
                    gated_add(&mut hidden, &ys, Some(GateArgs { rows, index: 2 }));
                    exact(&hidden)
                } else {
                    add_norm(&mut hidden, &ys, rows, 2, &last)
                };
                skip.end(&hidden);
                normed
            }
        };
        let velocity = self.linear.forward(&normed).to_kind(Kind::Float);
        let size = [tokens.images, own.1 / tokens.images, velocity.size()[2]];
        let velocity = velocity.view(size);
        Some(tokens.shards.of([predicted]).gathered(&velocity))
    }
}

/// One forward pass of hidden states, `(1, L, C)`, through the blocks.
pub struct BlocksForward<'a> {
    blocks: &'a StreamBlocks,
    /// Per block, see [`StreamModulations::blocks`].
    modulations: &'a [Tensor],
    tokens: &'a TokenRanges,
    rope: &'a Rope,
    hooks: &'a dyn Hooks,
    without: BlockSet,
    /// Token ranges that each vector of a double block's modulation applies to.
    ranges: Vec<(i64, i64)>,
    /// Range of all tokens.
    whole: [(i64, i64); 1],
    /// Norm after the last block; nothing reads it in networks that end with single blocks.
    last: Option<FusedNorm<'a>>,
}

/// State after the double blocks.
pub enum DoubleOutput {
    /// Image hidden states after all blocks, as the step cache extrapolates them.
    Skipped(Tensor),
    /// Next norm of the hidden states, and ControlNet residuals for the single blocks.
    Computed(Tensor, Rc<ControlNetResiduals>),
}

impl<'a> BlocksForward<'a> {
    /// `modulations`: per block, see [`StreamModulations::blocks`]
    pub fn new(
        blocks: &'a StreamBlocks,
        modulations: &'a [Tensor],
        tokens: &'a TokenRanges,
        rope: &'a Rope,
        without: BlockSet,
        hooks: &'a dyn Hooks,
    ) -> Self {
        Self {
            blocks,
            modulations,
            tokens,
            rope,
            without,
            hooks,
            ranges: tokens.streams().to_vec(),
            whole: [(0, tokens.count())],
            last: None,
        }
    }

    /// A pass that ends with double blocks and the norm `last`; `ranges`: tokens of each vector of their modulation.
    pub fn ending_with(self, last: FusedNorm<'a>, ranges: Vec<(i64, i64)>) -> Self {
        Self {
            ranges,
            last: Some(last),
            ..self
        }
    }

    /// Modulation of block `i`, counted through both lists.
    fn rows(&self, i: usize) -> TokenRows<'_> {
        TokenRows {
            values: &self.modulations[i],
            ranges: if i < self.num_double() {
                &self.ranges
            } else {
                &self.whole
            },
        }
    }

    /// First norm of the block after block `i`, or the norm after the last one.
    fn next(&self, i: usize) -> FusedNorm<'_> {
        match self.last {
            Some(last) if i + 1 == self.blocks.count() => last,
            _ => FusedNorm::modulated(self.rows((i + 1).min(self.blocks.count() - 1)), 0),
        }
    }

    /// First norm of `xs`.
    pub fn start(&self, xs: &Tensor) -> Tensor {
        layer_norm(xs, &FusedNorm::modulated(self.rows(0), 0), EPS)
    }

    pub fn num_double(&self) -> usize {
        self.blocks.double.len()
    }

    /// Runs block `i`, double ones first: `xs` is changed in place, `normed` is the first norm of the block applied to `xs`. Returns that of the next block; `None` when cancelled.
    pub fn block(&self, i: usize, xs: &mut Tensor, normed: Tensor) -> Option<Tensor> {
        self.hooks.check_cancelled(FaultSite::Block)?;
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

    /// Runs the first norm and all double blocks with a step cache of the tokens that `own` takes, and `residuals` of
    /// ControlNets, which are computed only if blocks run; `None` when cancelled.
    pub fn double(
        &self,
        xs: &mut Tensor,
        skip: &mut BlockSkipper<'_>,
        own: impl Fn(&Tensor) -> Tensor,
        residuals: impl FnOnce() -> Option<Rc<ControlNetResiduals>>,
    ) -> Option<DoubleOutput> {
        let mut normed = self.start(xs);
        if let Some(hidden) = skip.start(&own(xs), &self.tokens.of_img(&normed)) {
            return Some(DoubleOutput::Skipped(hidden));
        }
        let residuals = residuals()?;
        for i in 0..self.num_double() {
            normed = self.block(i, xs, normed)?;
            if i == 0
                && let Some(hidden) = skip.first(&own(xs))
            {
                return Some(DoubleOutput::Skipped(hidden));
            }
            let num_double = self.num_double();
            if !residuals.is_empty() && residuals.add(0, i, num_double, &mut self.tokens.of_img(xs))
            {
                normed = layer_norm(xs, &self.next(i), EPS);
            }
        }
        Some(DoubleOutput::Computed(normed, residuals))
    }

    /// Runs all single blocks with `residuals` of ControlNets -> the last block's contribution to the tokens that `own`
    /// takes; the others are not read after its attention and stay. `None` when cancelled.
    pub fn single(
        &self,
        xs: &mut Tensor,
        mut normed: Tensor,
        residuals: &ControlNetResiduals,
        own: impl FnOnce(&Tensor) -> Tensor,
    ) -> Option<Tensor> {
        let (last, others) = self.blocks.single.split_last()?;
        let first = self.num_double();
        // A single block adds to its hidden states once, at its end: residuals after it may come before that.
        let add = |number: usize, xs: &Tensor| {
            if !residuals.is_empty() {
                let mut img = self.tokens.of_img(xs);
                residuals.add(1, number, others.len() + 1, &mut img);
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
}

pub struct SequenceEmbedder {
    img_in: Linear,
    txt_in: Linear,
    dim: i64,
    pub kind: Kind,
    pub device: Device,
}

impl SequenceEmbedder {
    /// `input` and `text`: channels of an image token and of a text token; `w`: by the authors' names
    pub fn new(
        shape: &StreamShape,
        input: i64,
        text: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            img_in: layer(shape, input, shape.dim, &(w / "img_in"))?,
            txt_in: layer(shape, text, shape.dim, &(w / "txt_in"))?,
            dim: shape.dim,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Text embedded for the blocks: `(1, T, text)` -> `(1, T, C)`
    pub fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        self.txt_in.forward(&prompt.contiguous())
    }

    /// Texts followed by images: `img`: `(B, I, input)`, `txt`: `(1, T, C)` -> `(1, L, C)`
    pub fn embed(&self, img: &Tensor, txt: &Tensor, tokens: &TokenRanges) -> Tensor {
        let img = img.to_device(self.device).to_kind(self.kind);
        let xs = Tensor::empty([1, tokens.count(), self.dim], (self.kind, self.device));
        let mut texts = tokens.of_txt(&xs).view([tokens.images, -1, self.dim]);
        texts.copy_(&txt.expand_as(&texts));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}

/// Text embedded once for all steps.
pub struct FluxSequence {
    /// `(1, T, C)`
    pub txt: Tensor,
    /// Added to the attention scores of one image and its text: `(1, 1, T + I, T + I)`
    pub bias: Option<Tensor>,
    /// Of all tokens of a batch.
    pub rope: Rope,
}
