//! Z-Image's transformer: picture and text each through a small refiner of its own, then both in one sequence through
//! common blocks (S3-DiT). Turbo and Base are configurations of it.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_z_image.py`). Fields have the authors' names,
//! which ComfyUI's files have too.
//!
//! Nothing in a block is shifted: what it is told of a timestep scales what goes in and gates what comes out, beside
//! norms with weights of their own. Norm and scale, and norm and gate, are one factor for each channel, made once for
//! each timestep. A text is refined once, as its refiner is told nothing.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `I` of a picture and then `T` of its text, both padded to multiples of
//! 32 with tokens that the model has learned; `C` width, `H` heads of `D`.

use safelight_core::networks::z_image_transformer::{SINUSOIDS, TIME_WIDTH, TOKENS_MULTIPLE};
use safelight_core::networks::{ZImageTransformerConfig, ZImageTransformerKeys};
use tch::{Device, Kind, Tensor};

use super::control::{Acting, Seen};
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{
    Linear, Norm, QkNorm, RmsNorm, Rope, TokenRows, attention, axis_angles, gated_add, join_heads,
    layer_norm, rms_norm, rms_norm_in_place, silu_times, timestep_embedding,
};
use crate::step_cache::{Shortcut, Skip};
use crate::weights::{Weights, WeightsError};

/// Latents along an edge of one token.
const PATCH: i64 = 2;
/// Of the last layer's norm, and of those of queries and keys, which the config does not say.
const LAST_EPS: f64 = 1e-6;
const HEAD_EPS: f64 = 1e-5;
/// The largest timestep, which the model has as 0.
pub(super) const TIMESTEPS: f32 = 1000.0;
/// The largest number in f16, which the model's sums leave.
const LARGEST_HALF: f64 = 65504.0;

pub struct ZImageTransformer {
    x_embedder: Linear,
    /// `(1, 1, C)`
    x_pad_token: Tensor,
    cap_norm: RmsNorm,
    cap_embedder: Linear,
    cap_pad_token: Tensor,
    t_embedder: (Linear, Linear),
    noise_refiner: Vec<Block>,
    context_refiner: Vec<Block>,
    layers: Vec<Block>,
    /// `adaLN_modulation.1`: a scale alone.
    last_scale: Linear,
    last: Linear,
    config: ZImageTransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text as the blocks read it beside pictures of one size; it is the same in every step.
pub struct Context {
    /// `(1, T, C)`
    cap: Tensor,
    /// Of all tokens.
    rope: Rope,
    /// Rows and columns of a picture's tokens.
    grid: [i64; 2],
}

/// What the blocks are told of one timestep.
pub struct Modulations {
    /// Of each block of the noise refiner and of the common ones, `(4, C)` in f32: see [`Block::forward`].
    blocks: Vec<Tensor>,
    /// Nothing, and the scale of the last layer: `(1, 2, C)`
    last: Tensor,
}

/// What is missing to the next multiple.
fn padding(tokens: i64) -> i64 {
    (TOKENS_MULTIPLE - tokens % TOKENS_MULTIPLE) % TOKENS_MULTIPLE
}

impl ZImageTransformer {
    /// `w`: the file's own names, in any dialect of [`ZImageTransformerKeys`].
    pub fn new(config: &ZImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = ZImageTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let (dim, told) = (config.dim, config.told_dim());
        let time = &w.with_kind(Kind::Float) / "t_embedder" / "mlp";
        // What is made once for each text, or for all steps at once, need not stay.
        let seldom = &w.seldom();
        let list = |name: &str, count: i64, is_told: bool| {
            let w = if is_told { w } else { seldom };
            let blocks = (0..count).map(|i| Block::new(config, is_told, &(w / name / i)));
            blocks.collect::<Result<Vec<_>, _>>()
        };
        // What came of Lumina 2 and nobody reads.
        w.ignore("norm_final.weight");
        Ok(Self {
            x_embedder: Linear::new(config.token_numbers(), dim, &(w / "x_embedder"))?,
            x_pad_token: pad_token("x_pad_token", dim, w)?,
            cap_norm: RmsNorm::new(
                config.cap_feat_dim,
                config.norm_eps,
                &(w / "cap_embedder" / 0),
            )?,
            cap_embedder: Linear::new(config.cap_feat_dim, dim, &(seldom / "cap_embedder" / 1))?,
            cap_pad_token: pad_token("cap_pad_token", dim, w)?,
            t_embedder: (
                Linear::new(SINUSOIDS, TIME_WIDTH, &(&time / 0))?,
                Linear::new(TIME_WIDTH, told, &(&time / 2))?,
            ),
            context_refiner: list("context_refiner", config.n_refiner_layers, false)?,
            noise_refiner: list("noise_refiner", config.n_refiner_layers, true)?,
            layers: list("layers", config.n_layers, true)?,
            last_scale: Linear::new(
                told,
                dim,
                &(seldom / "final_layer" / "adaLN_modulation" / 1),
            )?,
            last: Linear::new(dim, config.token_numbers(), &(w / "final_layer" / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(ZImageTransformerKeys::of(|key| w.has(key)).prefix)
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.layers.len()
    }

    pub fn config(&self) -> &ZImageTransformerConfig {
        &self.config
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// What a picture's tokens are padded with: `(1, 1, C)`
    pub(super) fn picture_pad(&self) -> &Tensor {
        &self.x_pad_token
    }

    pub(super) fn noise_refiner(&self) -> &[Block] {
        &self.noise_refiner
    }

    /// `prompt_embeds`: `(1, tokens, cap_feat_dim)`, without padding; `size`: height and width of the pictures' latents;
    /// `None` when cancelled
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        size: [i64; 2],
        hooks: &dyn Hooks,
    ) -> Option<Context> {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        let cap = self.cap_norm.forward(&prompt.contiguous());
        let mut cap = padded(&self.cap_embedder.forward(&cap), &self.cap_pad_token);
        let tokens = cap.size()[1];
        let grid = size.map(|edge| edge / PATCH);
        let rope = self.rope(tokens, grid);
        let own = rope.narrow(picture_tokens(grid), tokens);
        for block in &self.context_refiner {
            hooks.go_on(Site::Block)?;
            block.forward(&mut cap, &block.norms, &own);
        }
        Some(Context { cap, rope, grid })
    }

    /// The turns of a picture's tokens and of those of its text. A text's count from 1, its padding too; a picture has
    /// the number behind them, rows and columns, and its padding nothing.
    fn rope(&self, text: i64, [rows, columns]: [i64; 2]) -> Rope {
        let int64s = (Kind::Int64, Device::Cpu);
        let axis = |values: &Tensor, size: [i64; 2]| values.expand(size, false).reshape([-1]);
        let own = [rows, columns];
        let zeros = Tensor::zeros([padding(rows * columns)], int64s);
        let texts = Tensor::zeros([text], int64s);
        let places = [
            (
                Tensor::full([rows * columns], 1 + text, int64s),
                Tensor::arange_start(1, 1 + text, int64s),
            ),
            (
                axis(&Tensor::arange(rows, int64s).view([-1, 1]), own),
                texts.shallow_clone(),
            ),
            (axis(&Tensor::arange(columns, int64s), own), texts),
        ];
        let axes = places.iter().zip(self.config.axes_dims);
        let axes = axes.map(|((picture, text), dim)| {
            let places = Tensor::cat(&[picture, &zeros, text], 0);
            let count = places.max().int64_value(&[]) + 1;
            axis_angles(count, dim, self.config.rope_theta).index_select(0, &places)
        });
        // The angles themselves are rounded, as in diffusers and in the authors' code.
        let angles = Tensor::cat(&axes.collect::<Vec<_>>(), 1).to_kind(Kind::Float);
        Rope::of_turns(&angles.cos(), &angles.sin(), self.device)
    }

    /// What the layers that make modulations read, of each of `timesteps`, as the scheduler has them, 1000 for noise
    /// alone: `(N, told)`
    pub fn told(&self, timesteps: &[f32]) -> Tensor {
        let scale = self.config.t_scale as f32;
        let times = timesteps.iter();
        let times: Vec<f32> = times.map(|t| (TIMESTEPS - t) / TIMESTEPS * scale).collect();
        let times = Tensor::from_slice(&times).to_device(self.device);
        let hidden = self
            .t_embedder
            .0
            .forward(&timestep_embedding(&times, SINUSOIDS));
        self.t_embedder.1.forward(&hidden.silu()).to_kind(self.kind)
    }

    /// What the blocks are told, by what [`told`](Self::told) gave.
    pub fn modulations(&self, told: &Tensor) -> Vec<Modulations> {
        let blocks = self.noise_refiner.iter().chain(&self.layers);
        let blocks: Vec<Tensor> = blocks.map(|block| block.factors(told)).collect();
        let scales = self.last_scale.forward(&told.silu());
        let last = Tensor::stack(&[scales.zeros_like(), scales], 1);
        (0..told.size()[0])
            .map(|i| Modulations {
                blocks: blocks.iter().map(|all| all.get(i)).collect(),
                last: last.narrow(0, i, 1),
            })
            .collect()
    }

    /// `latents`: `(B, in_channels, h, w)`, `modulations`: the timestep's, `context`: made for such a size -> what the
    /// model gives, the velocity from noise to picture, as large and in f32; `None` when cancelled
    pub fn forward(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_cached(latents, modulations, context, Shortcut::default(), hooks)
    }

    /// The same as one call of a walk with a step cache, of one picture.
    pub fn forward_cached(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward_controlled(latents, modulations, context, (shortcut, &[]), hooks)
    }

    /// The same with what ControlNets add behind the blocks.
    pub fn forward_controlled(
        &self,
        latents: &Tensor,
        modulations: &Modulations,
        context: &Context,
        (shortcut, controls): (Shortcut<'_>, &[Acting<'_>]),
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let pictures = latents.size()[0];
        let tokens = context.grid[0] * context.grid[1];
        let embedded = self.x_embedder.forward(&Self::patches(&latents));
        let mut xs = padded(&embedded, &self.x_pad_token);
        drop(embedded);
        let is_seen = controls.iter().any(|control| control.network.is_along());
        let at_first = is_seen.then(|| xs.copy());
        let own = context.rope.narrow(0, xs.size()[1]);
        let (first, common) = modulations.blocks.split_at(self.noise_refiner.len());
        for (block, factors) in self.noise_refiner.iter().zip(first) {
            hooks.go_on(Site::Block)?;
            block.forward(&mut xs, factors, &own);
        }
        let cap = context.cap.expand([pictures, -1, -1], false);
        xs = Tensor::cat(&[&xs, &cap], 1);
        let mut skip = Skip::of(shortcut);
        let mut known = skip.start(&xs, &xs);
        let seen = Seen {
            transformer: self,
            cap: &context.cap,
            first: at_first.as_ref(),
            factors: first,
            xs: &xs.shallow_clone(),
        };
        let walks = controls.iter().filter(|_| known.is_none());
        let walks = walks.map(|control| control.begin(&seen, &context.rope, hooks));
        let mut walks = walks.collect::<Option<Vec<_>>>()?;
        drop(at_first);
        for (i, (block, factors)) in self.layers.iter().zip(common).enumerate() {
            if known.is_some() {
                break;
            }
            hooks.go_on(Site::Block)?;
            if !skip.leaves_out(i) {
                block.forward(&mut xs, factors, &context.rope);
            }
            if i == 0 {
                known = skip.first(&xs);
            }
            for walk in walks.iter_mut().filter(|_| known.is_none()) {
                walk.behind(i, &mut xs, hooks)?;
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        let xs = xs.narrow(1, 0, tokens).contiguous();
        let rows = TokenRows {
            values: &modulations.last,
            ranges: &[(0, tokens)],
        };
        let xs = layer_norm(&xs, &Norm::modulated(rows, 0), LAST_EPS);
        let ys = self.last.forward(&xs).to_kind(Kind::Float);
        Some(self.latents(&ys, context.grid))
    }

    /// `(B, c, h, w)` -> `(B, h / 2 * w / 2, 4 c)`, channels innermost
    pub(super) fn patches(latents: &Tensor) -> Tensor {
        let (_, channels, height, width) = latents.size4().expect("latents have four dimensions");
        let [rows, columns] = [height, width].map(|edge| edge / PATCH);
        // b c (h p) (w q) -> b (h w) (p q c)
        latents
            .reshape([-1, channels, rows, PATCH, columns, PATCH])
            .permute([0, 2, 4, 3, 5, 1])
            .reshape([-1, rows * columns, PATCH * PATCH * channels])
    }

    /// The other way round.
    fn latents(&self, patches: &Tensor, [rows, columns]: [i64; 2]) -> Tensor {
        let channels = self.config.in_channels;
        // b (h w) (p q c) -> b c (h p) (w q)
        patches
            .reshape([-1, rows, columns, PATCH, PATCH, channels])
            .permute([0, 5, 1, 3, 2, 4])
            .reshape([-1, channels, rows * PATCH, columns * PATCH])
    }
}

/// Tokens of a picture, its padding included.
fn picture_tokens([rows, columns]: [i64; 2]) -> i64 {
    rows * columns + padding(rows * columns)
}

/// `(1, 1, C)`; some converters to GGUF leave out the first axis of the file's `(1, C)`.
fn pad_token(name: &str, dim: i64, w: &Weights) -> Result<Tensor, WeightsError> {
    let is_squeezed = w.shape_of(name).is_some_and(|shape| shape == [dim]);
    let shape: &[i64] = if is_squeezed { &[dim] } else { &[1, dim] };
    Ok(w.tensor(name, shape)?.view([1, 1, dim]))
}

/// `(B, tokens, C)` with as many of `pad` behind as are missing.
pub(super) fn padded(xs: &Tensor, pad: &Tensor) -> Tensor {
    let (pictures, tokens, _) = xs.size3().expect("tokens have three dimensions");
    match padding(tokens) {
        0 => xs.shallow_clone(),
        missing => Tensor::cat(&[xs, &pad.expand([pictures, missing, -1], false)], 1),
    }
}

pub(super) struct Block {
    qkv: Linear,
    head_norm: QkNorm,
    out: Linear,
    /// `w1`, `w2` and `w3`.
    feed_forward: [Linear; 3],
    /// The weights of the norms before and behind the attention, and before and behind the feed-forward part: `(4, C)`
    /// in f32
    norms: Tensor,
    /// `adaLN_modulation.0`, in blocks that are told the timestep.
    modulation: Option<Linear>,
    num_heads: i64,
    eps: f64,
}

impl Block {
    pub(super) fn new(
        config: &ZImageTransformerConfig,
        is_told: bool,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, wide) = (config.dim, config.ffn_dim());
        let attn = w / "attention";
        let ffn = w / "feed_forward";
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        let norm = |name| RmsNorm::new(dim, config.norm_eps, &(w / name)).map(|norm| norm.weight());
        let norms = [
            norm("attention_norm1")?,
            norm("attention_norm2")?,
            norm("ffn_norm1")?,
            norm("ffn_norm2")?,
        ];
        let names = ["q_norm.weight", "k_norm.weight"];
        let modulation = || {
            let w = (w / "adaLN_modulation" / 0).seldom();
            Linear::new(config.told_dim(), 4 * dim, &w)
        };
        Ok(Self {
            qkv: Linear::fused_without_bias(dim, &parts, &(&attn / "qkv"))?,
            head_norm: QkNorm::named(names, config.head_dim(), HEAD_EPS, &attn)?,
            out: Linear::without_bias(dim, dim, &(&attn / "out"))?,
            feed_forward: [
                Linear::without_bias(dim, wide, &(&ffn / "w1"))?,
                Linear::without_bias(wide, dim, &(&ffn / "w2"))?,
                Linear::without_bias(dim, wide, &(&ffn / "w3"))?,
            ],
            norms: Tensor::stack(&norms, 0),
            modulation: is_told.then(modulation).transpose()?,
            num_heads: config.n_heads,
            eps: config.norm_eps,
        })
    }

    /// `told`: of `N` timesteps -> the norms' weights with scales and gates in them: `(N, 4, C)` in f32
    pub(super) fn factors(&self, told: &Tensor) -> Tensor {
        let Some(modulation) = &self.modulation else {
            return self.norms.unsqueeze(0);
        };
        let values = modulation.forward(told).to_kind(Kind::Float);
        let values = values.view([told.size()[0], 4, -1]);
        let part = |i: i64| values.select(1, i);
        let parts = [part(0) + 1.0, part(1).tanh(), part(2) + 1.0, part(3).tanh()];
        Tensor::stack(&parts, 1) * &self.norms
    }

    /// `xs`: `(B, l, C)`, changed in place; `factors`: of what goes into and comes out of the attention and the
    /// feed-forward part behind their root mean squares, `(4, C)`; `rope`: of `l` tokens
    pub(super) fn forward(&self, xs: &mut Tensor, factors: &Tensor, rope: &Rope) {
        let [before_attn, behind_attn, before_ffn, behind_ffn] =
            [0, 1, 2, 3].map(|i| factors.get(i));
        let ys = self.attend(&rms_norm(xs, &before_attn, self.eps), rope);
        self.add(xs, ys, &behind_attn);
        let ys = self.feed(&rms_norm(xs, &before_ffn, self.eps));
        self.add(xs, ys, &behind_ffn);
    }

    fn add(&self, xs: &mut Tensor, ys: Tensor, factor: &Tensor) {
        let ys = rms_norm_in_place(bounded(ys), factor, self.eps);
        gated_add(xs, &ys, None);
    }

    /// `(B, l, C)` -> the same
    fn attend(&self, normed: &Tensor, rope: &Rope) -> Tensor {
        let (pictures, tokens, _) = normed.size3().expect("tokens have three dimensions");
        let heads = self.num_heads;
        // b l (k h d) -> b l (k h) d
        let qkv = self.qkv.forward(normed);
        let qkv = qkv.view([pictures, tokens, 3 * heads, -1]);
        self.head_norm
            .forward_rope(&mut qkv.narrow(2, 0, 2 * heads), rope);
        let [q, k, v] = [0, 1, 2].map(|i| qkv.narrow(2, i * heads, heads).transpose(1, 2));
        let ys = attention(&q, &k, &v, None, None);
        self.out.forward(&join_heads(&ys))
    }

    /// `(B, l, C)` -> the same
    fn feed(&self, normed: &Tensor) -> Tensor {
        let [w1, w2, w3] = &self.feed_forward;
        let hidden = silu_times(w1.forward(normed), &w3.forward(normed));
        w2.forward(&bounded(hidden))
    }
}

/// Some numbers of every picture are too large for f16; as in ComfyUI they become the largest there are.
fn bounded(mut xs: Tensor) -> Tensor {
    if xs.kind() == Kind::Half {
        drop(xs.clamp_(-LARGEST_HALF, LARGEST_HALF));
    }
    xs
}
