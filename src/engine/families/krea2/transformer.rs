//! Krea 2's transformer: the several states of each token of a text become one, and then text and picture go through
//! common blocks in one sequence.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_krea2.py`). Fields have the authors' names,
//! which ComfyUI's files have too.
//!
//! A timestep is told to all blocks as the same six vectors, to which each block adds its own. Norms are root mean
//! squares with weights that are stored as offsets from 1; norm and scale are one factor for each channel, made once for
//! each timestep. A text is read once, as nothing that reads it is told the timestep. diffusers pads texts and hides the
//! padding; here there is none, so nothing is hidden.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `T` of the text and then `I` of a picture; `C` width, `H` heads of `D`,
//! `G` heads of keys and values; `S` states of each token of a text.

use safelight_core::networks::krea2_transformer::BlockShape;
use safelight_core::networks::{Krea2TransformerConfig, Krea2TransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{
    Gate, Linear, QkNorm, Rope, TokenRows, axis_angles, gated_add, gelu_tanh, join_heads, rms_norm,
    rms_norm_shifted, shared_attention, silu_times, times_sigmoid, timestep_embedding,
};
use crate::step_cache::{Shortcut, Skip};
use crate::weights::{Weights, WeightsError};

/// What the model multiplies timesteps with, which come between 0 and 1.
const TIME_SCALE: f32 = 1000.0;

pub struct Krea2Transformer {
    first: Linear,
    tmlp: (Linear, Linear),
    tproj: Linear,
    fusion: TextFusion,
    blocks: Vec<ToldBlock>,
    /// The last norm's factor: `(C)` in f32
    norm: Tensor,
    /// Scale and shift, to which the timestep's vector is added: `(2, C)` in f32
    table: Tensor,
    last: Linear,
    config: Krea2TransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text as the blocks read it beside pictures of one size; it is the same in every step.
pub struct Context {
    /// `(1, T, C)`
    text: Tensor,
    /// Of all tokens.
    rope: Rope,
}

/// What the blocks are told of one timestep.
pub struct Modulations {
    /// Of each block: see [`ToldBlock::forward`].
    blocks: Vec<Tensor>,
    /// Factor and shift behind the last norm: `(2, C)` in f32
    last: Tensor,
}

impl Krea2Transformer {
    /// `w`: the file's own names, in any dialect of [`Krea2TransformerKeys`].
    pub fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = Krea2TransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        for name in Krea2TransformerKeys::UNREAD {
            w.ignore(name);
        }
        let dim = config.dim();
        // What is made once for each text, or for all steps at once, need not stay.
        let seldom = &w.seldom();
        let time = seldom / "tmlp";
        let blocks = (0..config.num_layers).map(|i| ToldBlock::new(config, &(w / "blocks" / i)));
        let last = &w.with_kind(Kind::Float) / "last";
        Ok(Self {
            first: Linear::new(config.in_channels, dim, &(w / "first"))?,
            tmlp: (
                Linear::new(config.timestep_embed_dim, dim, &(&time / 0))?,
                Linear::new(dim, dim, &(&time / 2))?,
            ),
            tproj: Linear::new(dim, 6 * dim, &(seldom / "tproj" / 1))?,
            fusion: TextFusion::new(config, seldom)?,
            blocks: blocks.collect::<Result<_, _>>()?,
            norm: factor("norm.scale", dim, &last)?,
            table: last.tensor("modulation.lin", &[2, dim])?,
            last: Linear::new(dim, config.in_channels, &(w / "last" / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(Krea2TransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    pub fn config(&self) -> &Krea2TransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// `states`: `(1, T, S text_hidden_dim)`, without padding; `grid`: rows and columns of a picture's tokens; `None` when
    /// cancelled
    pub fn context(&self, states: &Tensor, grid: [i64; 2], hooks: &dyn Hooks) -> Option<Context> {
        let states = states.to_device(self.device).to_kind(self.kind);
        let text = self.fusion.forward(&states, hooks)?;
        let rope = self.rope(text.size()[1], grid);
        Some(Context { text, rope })
    }

    /// A text's tokens turn nowhere; a picture's have rows and columns.
    fn rope(&self, text: i64, [rows, columns]: [i64; 2]) -> Rope {
        let [order, row, column] = self.config.axes_dims_rope;
        let angles = |count, dim| axis_angles(count, dim, self.config.rope_theta);
        let zeros =
            |count: i64, dim: i64| Tensor::zeros([count, dim / 2], (Kind::Double, Device::Cpu));
        let own = |xs: Tensor| xs.expand([rows, columns, -1], false);
        let picture = [
            own(zeros(1, order).unsqueeze(1)),
            own(angles(rows, row).unsqueeze(1)),
            own(angles(columns, column).unsqueeze(0)),
        ];
        let picture = Tensor::cat(&picture, 2).flatten(0, 1);
        let text = zeros(text, order + row + column);
        Rope::new(&Tensor::cat(&[text, picture], 0), self.device)
    }

    /// What the blocks are told of each of `timesteps`, between 0 and 1, which is noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<Modulations> {
        let times: Vec<f32> = timesteps.iter().map(|t| t * TIME_SCALE).collect();
        let times = Tensor::from_slice(&times).to_device(self.device);
        let sinusoids = timestep_embedding(&times, self.config.timestep_embed_dim);
        let hidden = self.tmlp.0.forward(&sinusoids.to_kind(self.kind));
        let told = self.tmlp.1.forward(&gelu_tanh(hidden));
        let for_blocks = self.tproj.forward(&gelu_tanh(told.copy()));
        // n (k c) -> n k c
        let count = timesteps.len() as i64;
        let for_blocks = for_blocks.to_kind(Kind::Float).view([count, 6, -1]);
        let of_last = told.to_kind(Kind::Float).unsqueeze(1) + &self.table;
        let last = Tensor::stack(
            &[
                (of_last.select(1, 0) + 1.0) * &self.norm,
                of_last.select(1, 1),
            ],
            1,
        );
        (0..count)
            .map(|i| {
                let told = for_blocks.get(i);
                let blocks = self.blocks.iter().map(|block| block.told(&told));
                Modulations {
                    blocks: blocks.collect(),
                    last: last.get(i),
                }
            })
            .collect()
    }

    /// `tokens`: `(B, I, in_channels)`, `modulations`: the timestep's, `context`: made for such a size -> the velocity from
    /// picture to noise, as large and in f32; `None` when cancelled
    pub fn forward(
        &self,
        tokens: &Tensor,
        modulations: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(tokens, modulations, context, Shortcut::default(), hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        tokens: &Tensor,
        modulations: &Modulations,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let tokens = tokens.to_device(self.device).to_kind(self.kind);
        let (pictures, count, _) = tokens.size3().expect("tokens have three dimensions");
        let text = context.text.expand([pictures, -1, -1], false);
        let mut xs = Tensor::cat(&[&text, &self.first.forward(&tokens)], 1);
        let mut skip = Skip::of(shortcut);
        let mut known = skip.start(&xs, &xs);
        for (i, (block, told)) in self.blocks.iter().zip(&modulations.blocks).enumerate() {
            if known.is_some() {
                break;
            }
            hooks.go_on(Site::Block)?;
            if !skip.leaves_out(i) {
                block.forward(&mut xs, told, &context.rope);
            }
            if i == 0 {
                known = skip.first(&xs);
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        let own = xs.narrow(1, context.text.size()[1], count).contiguous();
        let (factor, shift) = (modulations.last.get(0), modulations.last.get(1));
        let own = rms_norm_shifted(&own, &factor, &shift, self.config.norm_eps);
        Some(self.last.forward(&own).to_kind(Kind::Float))
    }
}

/// Of a norm whose weight is stored as its offset from 1; `w` in f32.
fn factor(name: &str, dim: i64, w: &Weights) -> Result<Tensor, WeightsError> {
    Ok(w.tensor(name, &[dim])? + 1.0)
}

/// Makes one state of the several of each token, and brings it to the width of the blocks.
struct TextFusion {
    layerwise_blocks: Vec<Block>,
    projector: Linear,
    refiner_blocks: Vec<Block>,
    /// `txtmlp`: the norm's factor, `(text_hidden_dim)` in f32, and two layers.
    norm: Tensor,
    txtmlp: (Linear, Linear),
    /// States of each token.
    num_states: i64,
    eps: f64,
    device: Device,
}

impl TextFusion {
    fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, text) = (config.dim(), config.text_hidden_dim);
        let fusion = w / "txtfusion";
        let blocks = |list: &str, count: i64| {
            let of = |i| Block::new(config.text_block(), config.norm_eps, &(&fusion / list / i));
            (0..count).map(of).collect::<Result<Vec<_>, _>>()
        };
        let mlp = w / "txtmlp";
        Ok(Self {
            layerwise_blocks: blocks("layerwise_blocks", config.num_layerwise_text_blocks)?,
            projector: Linear::one_row(config.num_text_layers, &(&fusion / "projector"))?,
            refiner_blocks: blocks("refiner_blocks", config.num_refiner_text_blocks)?,
            norm: factor("0.scale", text, &mlp.with_kind(Kind::Float))?,
            txtmlp: (
                Linear::new(text, dim, &(&mlp / 1))?,
                Linear::new(dim, dim, &(&mlp / 3))?,
            ),
            num_states: config.num_text_layers,
            eps: config.norm_eps,
            device: w.device(),
        })
    }

    /// `states`: `(1, T, S c)` -> `(1, T, C)`; `None` when cancelled
    fn forward(&self, states: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let tokens = states.size()[1];
        // 1 t (s c) -> t s c
        let mut xs = states.reshape([tokens, self.num_states, -1]).copy();
        let still = self.still(&self.layerwise_blocks, self.num_states);
        for block in &self.layerwise_blocks {
            hooks.go_on(Site::Block)?;
            block.forward(&mut xs, &still);
        }
        // t s c -> 1 t c
        let projected = self.projector.forward(&xs.transpose(1, 2).contiguous());
        let mut xs = projected.squeeze_dim(2).unsqueeze(0);
        let still = self.still(&self.refiner_blocks, tokens);
        for block in &self.refiner_blocks {
            hooks.go_on(Site::Block)?;
            block.forward(&mut xs, &still);
        }
        let xs = rms_norm(&xs, &self.norm, self.eps);
        let hidden = gelu_tanh(self.txtmlp.0.forward(&xs));
        Some(self.txtmlp.1.forward(&hidden))
    }

    /// Turns that leave everything where it is.
    fn still(&self, blocks: &[Block], tokens: i64) -> Rope {
        let dim = blocks.first().map_or(2, |block| block.shape.head_dim);
        let angles = Tensor::zeros([tokens, dim / 2], (Kind::Double, Device::Cpu));
        Rope::new(&angles, self.device)
    }
}

/// A block that is told the timestep.
struct ToldBlock {
    block: Block,
    /// `mod.lin`: what is added to the timestep's own, `(6, C)` in f32
    table: Tensor,
}

impl ToldBlock {
    fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let shape = config.block();
        let exact = w.with_kind(Kind::Float);
        // diffusers has rows, the authors have them one behind the other.
        let flat = [6 * shape.dim];
        let rows = [6, shape.dim];
        let is_flat = w.shape_of("mod.lin").is_none_or(|found| found.len() == 1);
        let size: &[i64] = if is_flat { &flat } else { &rows };
        Ok(Self {
            table: exact.tensor("mod.lin", size)?.view(rows),
            block: Block::new(shape, config.norm_eps, w)?,
        })
    }

    /// `told`: the timestep's six vectors, `(6, C)` in f32 -> before the attention and before the feed-forward part each
    /// the factor of the norm, a shift, and the gate behind it: `(6, C)` in f32
    fn told(&self, told: &Tensor) -> Tensor {
        let values = told + &self.table;
        let [attn, feed] = &self.block.norms;
        let parts = [
            (values.get(0) + 1.0) * attn,
            values.get(1),
            values.get(2),
            (values.get(3) + 1.0) * feed,
            values.get(4),
            values.get(5),
        ];
        Tensor::stack(&parts, 0)
    }

    /// `xs`: `(B, L, C)`, changed in place; `told`: what [`Self::told`] gives; `rope`: of `L` tokens
    fn forward(&self, xs: &mut Tensor, told: &Tensor, rope: &Rope) {
        let ranges = [(0, xs.size()[1])];
        let values = told.unsqueeze(0);
        let gate = |index| {
            let rows = TokenRows {
                values: &values,
                ranges: &ranges,
            };
            Some(Gate { rows, index })
        };
        let normed = |xs: &Tensor, first: i64| {
            rms_norm_shifted(xs, &told.get(first), &told.get(first + 1), self.block.eps)
        };
        let ys = self.block.attn.forward(&normed(xs, 0), rope);
        gated_add(xs, &ys, gate(2));
        let ys = self.block.mlp.forward(&normed(xs, 3));
        gated_add(xs, &ys, gate(5));
    }
}

struct Block {
    /// The factors of the norms before the attention and before the feed-forward part: `(C)` in f32
    norms: [Tensor; 2],
    attn: Attention,
    mlp: FeedForward,
    shape: BlockShape,
    eps: f64,
}

impl Block {
    fn new(shape: BlockShape, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let exact = w.with_kind(Kind::Float);
        Ok(Self {
            norms: [
                factor("prenorm.scale", shape.dim, &exact)?,
                factor("postnorm.scale", shape.dim, &exact)?,
            ],
            attn: Attention::new(shape, eps, &(w / "attn"))?,
            mlp: FeedForward::new(shape, &(w / "mlp"))?,
            shape,
            eps,
        })
    }

    /// `xs`: `(B, l, C)`, changed in place
    fn forward(&self, xs: &mut Tensor, rope: &Rope) {
        let [attn, feed] = &self.norms;
        let ys = self.attn.forward(&rms_norm(xs, attn, self.eps), rope);
        gated_add(xs, &ys, None);
        let ys = self.mlp.forward(&rms_norm(xs, feed, self.eps));
        gated_add(xs, &ys, None);
    }
}

/// Of what comes of the attention a gate lets through some, for each number.
struct Attention {
    /// Queries, keys, values and gates.
    heads: Linear,
    norm: QkNorm,
    wo: Linear,
    shape: BlockShape,
}

impl Attention {
    fn new(shape: BlockShape, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let exact = &w.with_kind(Kind::Float) / "qknorm";
        let norm = |name| factor(name, shape.head_dim, &exact);
        let (query, key) = (norm("qnorm.scale")?, norm("knorm.scale")?);
        // As many times that of the queries as they have the heads of the keys.
        let [heads, shared] = shape.heads;
        let mut norms = vec![&query; (heads / shared) as usize];
        norms.push(&key);
        Ok(Self {
            heads: Linear::fused_without_bias(shape.dim, &shape.parts(), &(w / "heads"))?,
            norm: QkNorm::of_weights(Tensor::stack(&norms, 0), eps),
            wo: Linear::without_bias(shape.dim, shape.dim, &(w / "wo"))?,
            shape,
        })
    }

    /// `(B, l, C)` -> the same
    fn forward(&self, normed: &Tensor, rope: &Rope) -> Tensor {
        let (pictures, tokens, _) = normed.size3().expect("tokens have three dimensions");
        let (head_dim, [heads, shared]) = (self.shape.head_dim, self.shape.heads);
        let all = self.heads.forward(normed);
        let of = |first: i64, count: i64| {
            let part = all.narrow(2, first * head_dim, count * head_dim);
            part.view([pictures, tokens, count, head_dim])
        };
        self.norm.forward_rope(&mut of(0, heads + shared), rope);
        // b l h d -> b h l d
        let q = of(0, heads).transpose(1, 2);
        let [k, v] = [heads, heads + shared].map(|first| of(first, shared).transpose(1, 2));
        let ys = join_heads(&shared_attention(&q, &k, &v, None));
        let gate = of(heads + 2 * shared, heads).flatten(2, 3);
        self.wo.forward(&times_sigmoid(ys, &gate))
    }
}

struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl FeedForward {
    fn new(shape: BlockShape, w: &Weights) -> Result<Self, WeightsError> {
        let BlockShape { dim, wide, .. } = shape;
        Ok(Self {
            gate: Linear::without_bias(dim, wide, &(w / "gate"))?,
            up: Linear::without_bias(dim, wide, &(w / "up"))?,
            down: Linear::without_bias(wide, dim, &(w / "down"))?,
        })
    }

    /// `(B, l, C)` -> the same
    fn forward(&self, normed: &Tensor) -> Tensor {
        let gates = self.gate.forward(normed);
        let hidden = silu_times(gates, &self.up.forward(normed));
        self.down.forward(&hidden)
    }
}
