//! FLUX.1's transformer: text and picture in one sequence, first with weights of their own (double blocks), then with
//! common ones (single blocks). dev, schnell and Fill are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux/blob/main/src/flux/model.py> in the arithmetic of diffusers
//! 0.42.1 (`models/transformers/transformer_flux.py`). Fields have the original names.
//!
//! The hidden states of pictures and of their text lie in one tensor all the way, the texts first, so that every pass
//! over memory serves both and, for one picture, nothing is joined or cut for the attention. Queries, keys and values
//! are views of one product, changed in place.
//!
//! The blocks are HunyuanVideo's too, whose models use them from here.
//!
//! Shapes: `B` pictures of one text; `L` tokens, `B` × `T` of text and then `B` × `I` of pictures; `C` width, `H` heads
//! of `D`, `M` = 4 `C`.

use safelight_core::networks::stream_blocks::{BlockWidths, SINUSOIDS};
use safelight_core::networks::{FluxTransformerConfig, FluxTransformerKeys};
use tch::{Device, Kind, Tensor};

use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::nn::{
    Gate, Linear, Norm, QkNorm, Rope, TokenRows, attention, axis_angles, gated_add, gated_add_norm,
    gelu_tanh, layer_norm, timestep_embedding,
};
use crate::weights::{Weights, WeightsError};

const ROPE_THETA: f64 = 10000.0;
const EPS: f64 = 1e-6;

/// What the model multiplies timesteps and guidance with, which come divided by it.
const TIME_FACTOR: f32 = 1000.0;

/// The largest number in f16, which the model's sums leave.
const LARGEST_HALF: f64 = 65504.0;

pub struct FluxTransformer {
    img_in: Linear,
    txt_in: Linear,
    time_in: MlpEmbedder,
    vector_in: MlpEmbedder,
    guidance_in: Option<MlpEmbedder>,
    double_blocks: Vec<DoubleBlock>,
    single_blocks: Vec<SingleBlock>,
    final_layer: FinalLayer,
    config: FluxTransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text as the blocks read it, and a guidance: they are the same in every step.
pub struct Context {
    /// `(1, T, C)`
    txt: Tensor,
    /// What pooled text and guidance add to the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

/// Shifts, scales and gates of one timestep.
pub struct Modulations {
    /// Of each block in their order: the double blocks' `(2, 6, C)`, text first, and the single blocks' `(1, 3, C)`
    blocks: Vec<Tensor>,
    /// `(1, 2, C)`
    final_layer: Tensor,
}

impl FluxTransformer {
    /// `w`: the file's own names, in any dialect of [`FluxTransformerKeys`].
    pub fn new(config: &FluxTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = FluxTransformerKeys::of(|key| w.has(key));
        let w = &w.translated(move |name| keys.file_key(name));
        let dim = config.dim();
        let exact = w.with_kind(Kind::Float);
        let guidance = || MlpEmbedder::new(SINUSOIDS, dim, &(&exact / "guidance_in"));
        Ok(Self {
            img_in: Linear::new(config.in_channels, dim, &(w / "img_in"))?,
            txt_in: Linear::new(config.joint_attention_dim, dim, &(w / "txt_in"))?,
            time_in: MlpEmbedder::new(SINUSOIDS, dim, &(&exact / "time_in"))?,
            vector_in: MlpEmbedder::new(
                config.pooled_projection_dim,
                dim,
                &(&exact / "vector_in"),
            )?,
            guidance_in: config.guidance_embeds.then(guidance).transpose()?,
            double_blocks: (0..config.num_layers)
                .map(|i| DoubleBlock::new(&config.widths(), &(w / "double_blocks" / i)))
                .collect::<Result<_, _>>()?,
            single_blocks: (0..config.num_single_layers)
                .map(|i| SingleBlock::new(&config.widths(), &(w / "single_blocks" / i)))
                .collect::<Result<_, _>>()?,
            final_layer: FinalLayer::new(config, keys, &(w / "final_layer"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// The transformer's tensors that nobody has asked for; those of other components are not meant.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish_behind(FluxTransformerKeys::of(|key| w.has(key)).prefix)
    }

    pub fn config(&self) -> &FluxTransformerConfig {
        &self.config
    }

    /// What it computes in.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`, `pooled`: `(1, pooled_projection_dim)`, `distilled_guidance`:
    /// as the user sets it; models that are told none leave it alone
    pub fn context(
        &self,
        prompt_embeds: &Tensor,
        pooled: &Tensor,
        distilled_guidance: f64,
    ) -> Context {
        let here = |xs: &Tensor, kind| xs.to_device(self.device).to_kind(kind);
        let mut vec = self.vector_in.forward(&here(pooled, Kind::Float));
        if let Some(guidance_in) = &self.guidance_in {
            let guidance = self.sinusoids(&[distilled_guidance as f32 * TIME_FACTOR]);
            vec = guidance_in.forward(&guidance) + vec;
        }
        Context {
            txt: self
                .txt_in
                .forward(&here(prompt_embeds, self.kind).contiguous()),
            vec,
        }
    }

    /// The turns of all tokens of `pictures`, in their order: `txt_ids`: `(T, 3)`, `img_ids`: `(I, 3)`, those of one
    /// picture, whole numbers from 0.
    pub fn rope(&self, txt_ids: &Tensor, img_ids: &Tensor, pictures: i64) -> Rope {
        let [txt_ids, img_ids] = [txt_ids, img_ids].map(|ids| ids.repeat([pictures, 1]));
        let ids = Tensor::cat(&[txt_ids, img_ids], 0).to_kind(Kind::Int64);
        let axes = (0..).zip(self.config.axes_dims_rope).map(|(axis, dim)| {
            let ids = ids.select(1, axis);
            let positions = ids.max().int64_value(&[]) + 1;
            axis_angles(positions, dim, ROPE_THETA).index_select(0, &ids)
        });
        Rope::new(&Tensor::cat(&axes.collect::<Vec<_>>(), 1), self.device)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    ///
    /// A quarter of the model is the matrices that this takes. Many timesteps at once read them no more often than
    /// one does.
    pub fn modulations(&self, timesteps: &[f32], context: &Context) -> Vec<Modulations> {
        let vec = &self.embed_times(timesteps, context);
        let double = self.double_blocks.iter().map(|block| block.modulation(vec));
        let single = self.single_blocks.iter();
        let single = single.map(|block| block.modulation.forward(vec));
        let blocks: Vec<Tensor> = double.chain(single).collect();
        let final_layer = self.final_layer.modulation.forward(vec);
        let of = |all: &Tensor, i: usize| {
            // u n (m c) -> u m c
            let values = all.select(1, i as i64);
            values.view([all.size()[0], -1, self.config.dim()])
        };
        (0..timesteps.len())
            .map(|i| Modulations {
                blocks: blocks.iter().map(|all| of(all, i)).collect(),
                final_layer: of(&final_layer, i),
            })
            .collect()
    }

    /// `img`: `(B, I, in_channels)`, `modulations`: the timestep's, made with the same context, `rope`: what
    /// [`rope`](Self::rope) gave for as many -> velocity, `(B, I, out_channels)` in f32; `None` when cancelled
    pub fn forward(
        &self,
        img: &Tensor,
        modulations: &Modulations,
        context: &Context,
        rope: &Rope,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let pictures = img.size()[0];
        let txt_len = pictures * context.txt.size()[1];
        let tokens = Tokens {
            txt: (0, txt_len),
            img: (txt_len, pictures * img.size()[1]),
            pictures,
        };
        let mut xs = self.embed(img, context, &tokens);
        let (streams, whole) = (tokens.streams(), [(0, tokens.len())]);
        let num_double = self.double_blocks.len();
        let rows = |i: usize| TokenRows {
            values: &modulations.blocks[i],
            ranges: if i < num_double { &streams } else { &whole },
        };
        let mut normed = layer_norm(&xs, &modulated(rows(0), 0), EPS);
        for (i, block) in self.double_blocks.iter().enumerate() {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Block);
            // The last pass of a block is also the first of the next one.
            let next = modulated(rows(i + 1), 0);
            normed = block.forward(&mut xs, normed, rows(i), &next, &tokens, rope);
        }
        let (last, others) = self.single_blocks.split_last()?;
        for (block, i) in others.iter().zip(num_double..) {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Block);
            let ys = block.linear2.forward(&block.attend(normed, &tokens, rope));
            let next = modulated(rows(i + 1), 0);
            normed = add_norm(&mut xs, &ys, rows(i), 2, &next);
        }
        // Nobody reads the text behind its last attention.
        let ys = last
            .linear2
            .forward(&tokens.of_img(&last.attend(normed, &tokens, rope)));
        let velocity = self.finish(tokens.of_img(&xs), &ys, modulations);
        Some(velocity.view([pictures, -1, self.config.out_channels()]))
    }

    /// The pictures' hidden states and what the last block adds to them, both `(1, B I, C)`
    /// -> `(1, B I, out_channels)` in f32
    fn finish(&self, mut img: Tensor, ys: &Tensor, modulations: &Modulations) -> Tensor {
        let ranges = [(0, img.size()[1])];
        let rows = |values| TokenRows {
            values,
            ranges: &ranges,
        };
        let norm = self.final_layer.norm(rows(&modulations.final_layer));
        let last = rows(&modulations.blocks[modulations.blocks.len() - 1]);
        let normed = add_norm(&mut img, ys, last, 2, &norm);
        let velocity = self.final_layer.linear.forward(&normed);
        velocity.to_kind(Kind::Float)
    }

    /// Texts and pictures one behind the other: `(1, L, C)`
    fn embed(&self, img: &Tensor, context: &Context, tokens: &Tokens) -> Tensor {
        let img = img.to_device(self.device).to_kind(self.kind);
        let size = [1, tokens.len(), self.config.dim()];
        let xs = Tensor::empty(size, (self.kind, self.device));
        let mut txt = tokens
            .of_txt(&xs)
            .view([tokens.pictures, -1, self.config.dim()]);
        txt.copy_(&context.txt.expand_as(&txt));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }

    /// What the modulations are made of: `(timesteps, C)`
    fn embed_times(&self, timesteps: &[f32], context: &Context) -> Tensor {
        // Divided and multiplied again, as the pipeline and the model do.
        let times = timesteps.iter();
        let times: Vec<f32> = times.map(|t| t / TIME_FACTOR * TIME_FACTOR).collect();
        let vec = self.time_in.forward(&self.sinusoids(&times)) + &context.vec;
        vec.silu().to_kind(self.kind)
    }

    /// `(values, 256)` in f32
    fn sinusoids(&self, values: &[f32]) -> Tensor {
        timestep_embedding(
            &Tensor::from_slice(values).to_device(self.device),
            SINUSOIDS,
        )
    }
}

/// Where the tokens of all texts and of all pictures lie: start and number.
pub(crate) struct Tokens {
    pub(crate) txt: (i64, i64),
    pub(crate) img: (i64, i64),
    pub(crate) pictures: i64,
}

impl Tokens {
    pub(crate) fn len(&self) -> i64 {
        self.txt.1 + self.img.1
    }

    pub(crate) fn streams(&self) -> [(i64, i64); 2] {
        [self.txt, self.img]
    }

    /// The same of one picture and its text.
    fn of_picture(&self, index: i64) -> [(i64, i64); 2] {
        self.streams().map(|(start, len)| {
            let own = len / self.pictures;
            (start + index * own, own)
        })
    }

    /// `(1, L, ..)` -> a view, `(1, T, ..)`
    pub(crate) fn of_txt(&self, xs: &Tensor) -> Tensor {
        xs.narrow(1, self.txt.0, self.txt.1)
    }

    /// `(1, L, ..)` -> a view, `(1, I, ..)`
    pub(crate) fn of_img(&self, xs: &Tensor) -> Tensor {
        xs.narrow(1, self.img.0, self.img.1)
    }

    /// Each half through a layer of its own: `(1, L, ..)` -> the same with the layers' width
    fn forward(&self, txt: &Linear, img: &Linear, xs: &Tensor) -> Tensor {
        let size = [1, self.len(), img.out_features()];
        let out = Tensor::empty(size, (xs.kind(), xs.device()));
        txt.forward_into(&self.of_txt(xs), &self.of_txt(&out));
        img.forward_into(&self.of_img(xs), &self.of_img(&out));
        out
    }
}

/// Layer norm with the vectors `first` and `first + 1` of a modulation as shift and scale.
pub(crate) fn modulated(rows: TokenRows<'_>, first: i64) -> Norm<'_> {
    Norm::Modulated {
        rows,
        shift: first,
        scale: first + 1,
    }
}

/// `xs += ys * gate` in place, the gate being vector `gate` of `rows` -> `xs` behind the norm `next`
pub(crate) fn add_norm(
    xs: &mut Tensor,
    ys: &Tensor,
    rows: TokenRows<'_>,
    gate: i64,
    next: &Norm<'_>,
) -> Tensor {
    let gate = Some(Gate { rows, index: gate });
    if xs.kind() != Kind::Half {
        return gated_add_norm(xs, ys, gate, next, EPS);
    }
    // As diffusers does: with f16 some numbers are too large in every picture.
    gated_add(xs, ys, gate);
    drop(xs.clamp_(-LARGEST_HALF, LARGEST_HALF));
    layer_norm(xs, next, EPS)
}

/// A vector to the network's width, in f32.
pub(crate) struct MlpEmbedder {
    in_layer: Linear,
    out_layer: Linear,
}

impl MlpEmbedder {
    pub(crate) fn new(in_dim: i64, dim: i64, w: &Weights) -> Result<Self, WeightsError> {
        Ok(Self {
            in_layer: Linear::new(in_dim, dim, &(w / "in_layer"))?,
            out_layer: Linear::new(dim, dim, &(w / "out_layer"))?,
        })
    }

    /// `(N, in_dim)` -> `(N, C)`
    pub(crate) fn forward(&self, xs: &Tensor) -> Tensor {
        self.out_layer.forward(&self.in_layer.forward(xs).silu())
    }
}

/// Shifts, scales and gates from the vector of timestep, guidance and pooled text.
pub(crate) struct Modulation {
    lin: Linear,
}

impl Modulation {
    /// `name`: `lin` in the blocks.
    pub(crate) fn new(dim: i64, count: i64, name: &str, w: &Weights) -> Result<Self, WeightsError> {
        Ok(Self {
            // All steps' are made at once.
            lin: Linear::new(dim, count * dim, &(w / name).seldom())?,
        })
    }

    /// `vec`: `(N, C)` -> `(1, N, count * C)`
    pub(crate) fn forward(&self, vec: &Tensor) -> Tensor {
        self.lin.forward(vec).unsqueeze(0)
    }
}

pub(crate) struct DoubleBlock {
    img_mod: Modulation,
    img_attn: SelfAttention,
    img_mlp: (Linear, Linear),
    txt_mod: Modulation,
    txt_attn: SelfAttention,
    txt_mlp: (Linear, Linear),
}

struct SelfAttention {
    qkv: Linear,
    norm: QkNorm,
    proj: Linear,
}

impl SelfAttention {
    fn new(widths: &BlockWidths, w: &Weights) -> Result<Self, WeightsError> {
        let dim = widths.dim;
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        Ok(Self {
            qkv: Linear::fused(dim, &parts, &(w / "qkv"))?,
            norm: QkNorm::new(widths.head_dim, EPS, &(w / "norm"))?,
            proj: Linear::new(dim, dim, &(w / "proj"))?,
        })
    }
}

impl DoubleBlock {
    pub(crate) fn new(widths: &BlockWidths, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, mlp_dim) = (widths.dim, widths.mlp_dim);
        let mlp = |name: &str| {
            let first = Linear::new(dim, mlp_dim, &(w / name / 0))?;
            Ok((first, Linear::new(mlp_dim, dim, &(w / name / 2))?))
        };
        Ok(Self {
            img_mod: Modulation::new(dim, 6, "lin", &(w / "img_mod"))?,
            img_attn: SelfAttention::new(widths, &(w / "img_attn"))?,
            img_mlp: mlp("img_mlp")?,
            txt_mod: Modulation::new(dim, 6, "lin", &(w / "txt_mod"))?,
            txt_attn: SelfAttention::new(widths, &(w / "txt_attn"))?,
            txt_mlp: mlp("txt_mlp")?,
        })
    }

    /// `vec`: `(N, C)` -> the text's vectors, then the picture's: `(2, N, 6 C)`
    pub(crate) fn modulation(&self, vec: &Tensor) -> Tensor {
        let (txt, img) = (&self.txt_mod.lin, &self.img_mod.lin);
        let size = [2, vec.size()[0], img.out_features()];
        let values = Tensor::empty(size, (vec.kind(), vec.device()));
        txt.forward_into(vec, &values.get(0));
        img.forward_into(vec, &values.get(1));
        values
    }

    /// `xs`: `(1, L, C)`, changed in place; `normed`: `xs` behind this block's first norm; `rows`: shift, scale and
    /// gate of both halves, `next`: the first norm of the next block -> `xs` behind that norm
    pub(crate) fn forward(
        &self,
        xs: &mut Tensor,
        normed: Tensor,
        rows: TokenRows<'_>,
        next: &Norm<'_>,
        tokens: &Tokens,
        rope: &Rope,
    ) -> Tensor {
        let (txt, img) = (&self.txt_attn, &self.img_attn);
        let normed = {
            let qkv = tokens.forward(&txt.qkv, &img.qkv, &normed);
            drop(normed);
            let heads = Heads::of(&qkv, xs.size()[2], img.norm.head_dim());
            for (norm, (start, len)) in [(&txt.norm, tokens.txt), (&img.norm, tokens.img)] {
                let mut qk = heads.queries_and_keys().narrow(1, start, len);
                norm.forward_rope(&mut qk, &rope.narrow(start, len));
            }
            let ys = tokens.forward(&txt.proj, &img.proj, &heads.attend(tokens));
            add_norm(xs, &ys, rows, 2, &modulated(rows, 3))
        };
        let ys = tokens.forward(&self.txt_mlp.0, &self.img_mlp.0, &normed);
        drop(normed);
        let ys = tokens.forward(&self.txt_mlp.1, &self.img_mlp.1, &gelu_tanh(ys));
        add_norm(xs, &ys, rows, 5, next)
    }
}

pub(crate) struct SingleBlock {
    /// Queries, keys and values, and the first layer of the feed-forward part.
    linear1: Linear,
    /// Of attention and feed-forward part together.
    pub(crate) linear2: Linear,
    norm: QkNorm,
    pub(crate) modulation: Modulation,
    dim: i64,
}

impl SingleBlock {
    pub(crate) fn new(widths: &BlockWidths, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, mlp_dim) = (widths.dim, widths.mlp_dim);
        let parts = [("q", dim), ("k", dim), ("v", dim), ("mlp", mlp_dim)];
        Ok(Self {
            linear1: Linear::fused(dim, &parts, &(w / "linear1"))?,
            linear2: Linear::new(dim + mlp_dim, dim, &(w / "linear2"))?,
            norm: QkNorm::new(widths.head_dim, EPS, &(w / "norm"))?,
            modulation: Modulation::new(dim, 3, "lin", &(w / "modulation"))?,
            dim,
        })
    }

    /// `normed`: `(1, L, C)` -> what `linear2` reads, a view of `(1, L, C + M)`
    pub(crate) fn attend(&self, normed: Tensor, tokens: &Tokens, rope: &Rope) -> Tensor {
        let dim = self.dim;
        let products = self.linear1.forward(&normed); // (1, L, 3 C + M)
        drop(normed);
        let heads = Heads::of(&products.narrow(-1, 0, 3 * dim), dim, self.norm.head_dim());
        self.norm.forward_rope(&mut heads.queries_and_keys(), rope);
        // The values have been read: what the attention gives takes their place, beside the rest.
        products
            .narrow(-1, 2 * dim, dim)
            .copy_(&heads.attend(tokens));
        let mlp_dim = products.size()[2] - 3 * dim;
        drop(gelu_tanh(products.narrow(-1, 3 * dim, mlp_dim)));
        products.narrow(-1, 2 * dim, dim + mlp_dim)
    }
}

/// Queries, keys and values as views of one product.
struct Heads {
    /// `(1, L, 3 H, D)`
    qkv: Tensor,
    num_heads: i64,
}

impl Heads {
    /// `qkv`: `(1, L, 3 C)`, its rows at any one distance
    fn of(qkv: &Tensor, dim: i64, head_dim: i64) -> Self {
        let num_heads = dim / head_dim;
        let len = qkv.size()[1];
        Self {
            // b l (k h d) -> b l (k h) d
            qkv: qkv.view([1, len, 3 * num_heads, head_dim]),
            num_heads,
        }
    }

    /// `(1, L, 2 H, D)`
    fn queries_and_keys(&self) -> Tensor {
        self.qkv.narrow(2, 0, 2 * self.num_heads)
    }

    /// Each picture with its text alone: `(1, L, C)`
    fn attend(&self, tokens: &Tokens) -> Tensor {
        if tokens.pictures == 1 {
            return self.attend_to(&self.qkv);
        }
        let size = self.qkv.size();
        let size = [1, size[1], self.num_heads * size[3]];
        let out = Tensor::empty(size, (self.qkv.kind(), self.qkv.device()));
        for index in 0..tokens.pictures {
            let own = tokens.of_picture(index);
            let parts = own.map(|(start, len)| self.qkv.narrow(1, start, len));
            let ys = self.attend_to(&Tensor::cat(&parts, 1));
            let mut done = 0;
            for (start, len) in own {
                out.narrow(1, start, len).copy_(&ys.narrow(1, done, len));
                done += len;
            }
        }
        out
    }

    /// `qkv`: `(1, l, 3 H, D)` -> `(1, l, C)`
    fn attend_to(&self, qkv: &Tensor) -> Tensor {
        let [q, k, v] = [0, 1, 2].map(|i| {
            let part = qkv.narrow(2, i * self.num_heads, self.num_heads);
            part.transpose(1, 2) // (1, H, l, D)
        });
        // b h l d -> b l (h d)
        attention(&q, &k, &v, None, None)
            .transpose(1, 2)
            .flatten(2, 3)
    }
}

struct FinalLayer {
    linear: Linear,
    /// `adaLN_modulation.1`
    modulation: Modulation,
    /// Which of its vectors they are.
    shift_and_scale: (i64, i64),
}

impl FinalLayer {
    fn new(
        config: &FluxTransformerConfig,
        keys: FluxTransformerKeys,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            linear: Linear::new(config.dim(), config.out_channels(), &(w / "linear"))?,
            modulation: Modulation::new(config.dim(), 2, "adaLN_modulation.1", w)?,
            shift_and_scale: keys.final_shift_and_scale(),
        })
    }

    fn norm<'a>(&self, rows: TokenRows<'a>) -> Norm<'a> {
        let (shift, scale) = self.shift_and_scale;
        Norm::Modulated { rows, shift, scale }
    }
}
