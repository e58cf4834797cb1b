//! Wan's transformer: one stream of video tokens with self-attention, and cross-attention to the text and, in Wan 2.1's
//! image models, to the images. All published variants are configurations of it; VACE's control blocks run in parallel.
//!
//! After <https://github.com/Wan-Video/Wan2.2/blob/main/wan/modules/model.py> in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_wan.py`). Fields have the original names.
//!
//! Shapes: `B` videos of `L` tokens (1, or 2 if both guidance passes are batched), `f`, `h`, `w` latent frames, rows,
//! columns, `C` width, `H` heads of `D`, `S` text tokens, `U` distinct timesteps.

use std::rc::Rc;

use safelight_core::networks::WanTransformerConfig;
use tch::{Device, Kind, Tensor};

use super::control_blocks::{ControlVideo, VaceBlocks};
use super::measured::signal_is_modulation;
use super::prepare::TokenTimesteps;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, GateArgs, LayerNorm, Linear, Mlp, PatchOrder, Rope, SpreadHeads, TokenRmsNorm,
    TokenRows, angles_of_ids, attention, from_patches, gated_add, gated_add_norm, gelu_tanh,
    join_heads, layer_norm, patches, split_heads, timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::step_cache::{BlockSkipper, SkipOptions};
use crate::{Hooks, Weights, WeightsError};

const ROPE_THETA: f64 = 10000.0;

pub struct WanTransformer {
    patch_embedding: Linear,
    text_embedding: Mlp,
    img_emb: Option<ImageEmbedding>,
    time_embedding: Mlp,
    time_projection: Linear,
    blocks: Vec<WanBlock>,
    control: Option<VaceBlocks>,
    head: Linear,
    /// Shift and scale of the last norm, to which the timestep's embedding is added: `(1, 2, C)` in f32
    head_modulation: Tensor,
    config: WanTransformerConfig,
    kind: Kind,
    device: Device,
}

/// Texts and images as the blocks read them: they are the same in every step.
pub struct WanContext {
    /// `(B, S, C)`
    text: Tensor,
    /// `(1, S, C)`
    image: Option<Tensor>,
    /// Keys and values of each block, if they are cached between steps: on the CPU, where they may cost as much as
    /// everything else. A GPU computes them fast, and has better use for the memory: 0.4 GiB per text in a model of
    /// 14B. The control blocks' follow the others'.
    kept: Option<Vec<Rc<BlockContext>>>,
}

/// Inputs of a call in addition to latents and timesteps.
#[derive(Clone, Copy)]
pub struct CallInputs<'a> {
    pub context: &'a WanContext,
    pub rope: &'a Rope,
    /// In a transformer with control blocks, which are left alone where it is absent.
    pub control: Option<&'a ControlVideo>,
}

/// Keys and values of one block's cross-attention.
pub(super) struct BlockContext {
    text: KeysAndValues,
    image: Option<KeysAndValues>,
}

/// Both `(B, H, S, D)`.
type KeysAndValues = (Tensor, Tensor);

impl WanTransformer {
    /// `w` has the original names, see [`open_transformer`](super::open_transformer).
    pub fn new(config: &WanTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let exact = w.with_kind(Kind::Float);
        // In the order in which a call uses them, which is how they are brought where they stream.
        let patch_embedding = Linear::from_patch_conv(
            config.in_channels,
            dim,
            &config.patch_size,
            &(w / "patch_embedding"),
        )?;
        let mlp = |sizes, w: &Weights| Mlp::new(sizes, ["0", "2"], w);
        let text_embedding = mlp([config.text_dim, dim, dim], &(w / "text_embedding"))?;
        let img_emb = config
            .image_dim
            .map(|_| ImageEmbedding::new(config, &(w / "img_emb")))
            .transpose()?;
        let time_embedding = mlp([config.freq_dim, dim, dim], &(&exact / "time_embedding"))?;
        let time_projection = Linear::new(dim, 6 * dim, &(w / "time_projection" / 1))?;
        let mut control = VaceBlocks::begin(config, w)?;
        let mut blocks = Vec::new();
        for layer in 0..config.num_layers {
            blocks.push(WanBlock::new(config, &(w / "blocks" / layer))?);
            if let Some(control) = &mut control {
                control.read_behind(layer, config, w)?;
            }
        }
        Ok(Self {
            patch_embedding,
            text_embedding,
            img_emb,
            time_embedding,
            time_projection,
            blocks,
            control,
            head: Linear::new(dim, config.token_numbers(), &(w / "head" / "head"))?,
            head_modulation: (&exact / "head").tensor("modulation", &[1, 2, dim])?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Blocks of all lists.
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// `prompt_embeds`: `(B, S, text_dim)`, zero after the end of the text; `image_embeds`: result of the image
    /// encoder, `(N, 257, image_dim)` for `N` images, in models that read it
    pub fn context(&self, prompt_embeds: &Tensor, image_embeds: Option<&Tensor>) -> WanContext {
        let here = |xs: &Tensor| xs.to_device(self.device).to_kind(self.kind);
        let text = here(prompt_embeds);
        let text = self.text_embedding.forward(&text, |xs| xs.gelu("tanh"));
        let images = self.img_emb.as_ref().zip(image_embeds);
        let images = images.map(|(embedding, images)| embedding.forward(&here(images)));
        let of_block = |block: &WanBlock| Rc::new(block.cross_attn.context(&text, images.as_ref()));
        let is_kept = self.device == Device::Cpu;
        let kept = is_kept.then(|| self.all_blocks().map(of_block).collect());
        WanContext {
            text,
            image: images,
            kept,
        }
    }

    /// Those of the first row, then the control blocks.
    fn all_blocks(&self) -> impl Iterator<Item = &WanBlock> {
        let control = self.control.iter().flat_map(VaceBlocks::blocks);
        self.blocks.iter().chain(control)
    }

    /// `latents`: what a control video became, `(1, C_control, f, h, w)`; `None` in models without control blocks
    pub fn control(&self, latents: &Tensor, strength: f64) -> Option<ControlVideo> {
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let blocks = self.control.as_ref()?;
        Some(blocks.control(&self.patches(&latents), strength))
    }

    /// The turns of the tokens of latents of `size`, `(1, C, f, h, w)`; the same in every step.
    pub fn rope(&self, size: [i64; 5]) -> Rope {
        let grid = [0, 1, 2].map(|i| size[i + 2] / self.config.patch_size[i]);
        let axes = grid.map(|count| Tensor::arange(count, (Kind::Int64, Device::Cpu)));
        let ids = Tensor::cartesian_prod(&axes);
        let angles = angles_of_ids(&ids, &self.config.rope_dims(), ROPE_THETA);
        Rope::new(&angles, self.device)
    }

    /// `latents`: `(1, C_in, f, h, w)` -> velocity, `(B, C_out, f, h, w)` in f32, for each of the context's texts;
    /// `None` when cancelled. A step cache is of one text.
    pub fn forward(
        &self,
        latents: &Tensor,
        timesteps: &TokenTimesteps,
        inputs: CallInputs<'_>,
        skip: SkipOptions<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let CallInputs { context, rope, .. } = inputs;
        let xs = self.patches(&latents.to_device(self.device).to_kind(self.kind));
        let shards = TokenShards::new(timesteps.runs.iter().map(|&(_, count)| count));
        let rope = &rope.spread(&shards);
        let mut xs = self.patch_embedding.forward(&shards.own(&xs, 1)); // (1, L, C)
        let batch = context.text.size()[0];
        if batch > 1 {
            xs = xs.repeat([batch, 1, 1]);
        }
        let ranges = shards.ranges();
        let (time, modulation) = self.embed_time(&timesteps.values());
        let control = self.control.as_ref().zip(inputs.control);
        let control_blocks = control.iter().flat_map(|(blocks, _)| blocks.blocks());
        let control_modulations = control_blocks.map(|block| &block.modulation + &modulation);
        let modulations: Vec<Tensor> = self
            .blocks
            .iter()
            .map(|block| &block.modulation + &modulation)
            .chain([&self.head_modulation + time.unsqueeze(1)])
            .chain(control_modulations)
            .collect();
        let rows = |i: usize| TokenRows {
            values: &modulations[i],
            ranges: &ranges,
        };
        let mut normed = layer_norm(&xs, &FusedNorm::modulated(rows(0), 0), self.config.eps);
        let mut skip = BlockSkipper::of(skip);
        // Signal that the calibration was measured on.
        let signal = if signal_is_modulation(&self.config) {
            &modulation
        } else {
            &time
        };
        let mut known = skip.start(&xs, signal);
        let mut control = control.filter(|_| known.is_none()).map(|(blocks, video)| {
            let begin = shards.own(&video.begin, 1);
            (blocks, &xs + begin, video.strength)
        });
        for (i, block) in self.blocks.iter().enumerate() {
            if known.is_some() {
                break;
            }
            hooks.check_cancelled(FaultSite::Block)?;
            // The last pass of a block is also the first of the next one, or of the head.
            let next = FusedNorm::modulated(rows(i + 1), 0);
            // A skipped block adds nothing; the control output after it is added.
            let made = if skip.skips_block(i) {
                None
            } else {
                let looked_at = context.of_block(i, block);
                Some(block.forward(&mut xs, normed, rows(i), &looked_at, rope))
            };
            let gate = Some(GateArgs {
                rows: rows(i),
                index: 5,
            });
            let number = control.as_ref().and_then(|(blocks, ..)| blocks.behind(i));
            normed = match (&mut control, number, made) {
                (Some((blocks, cs, strength)), Some(number), made) => {
                    if let Some(ys) = made {
                        gated_add(&mut xs, &ys, gate);
                    }
                    hooks.check_cancelled(FaultSite::Block)?;
                    let index = self.blocks.len() + number;
                    let looked_at = context.of_block(index, blocks.block(number));
                    let added =
                        blocks.run(number, cs, *strength, rows(index + 1), &looked_at, rope);
                    gated_add_norm(&mut xs, &added, None, &next, self.config.eps)
                }
                (_, _, Some(ys)) => gated_add_norm(&mut xs, &ys, gate, &next, self.config.eps),
                (_, _, None) => layer_norm(&xs, &next, self.config.eps),
            };
            if i == 0 {
                known = skip.first(&xs);
            }
        }
        if let Some(hidden) = known {
            let last = FusedNorm::modulated(rows(self.blocks.len()), 0);
            normed = layer_norm(&hidden, &last, self.config.eps);
        } else {
            skip.end(&xs);
        }
        let xs = shards.gathered(&self.head.forward(&normed));
        let (_, _, f, h, w) = latents.size5().expect("latents have five dimensions");
        let order = PatchOrder::ChannelsLast;
        let velocity = from_patches(&xs, [f, h, w], self.config.patch_size, order);
        Some(velocity.to_kind(Kind::Float))
    }

    /// `values`: `(U)` -> `(U, C)` and `(U, 6, C)`, both in f32
    fn embed_time(&self, values: &Tensor) -> (Tensor, Tensor) {
        let freqs = timestep_embedding(&values.to_device(self.device), self.config.freq_dim);
        let time = self.time_embedding.forward(&freqs, |xs| xs.silu());
        let time = time.to_kind(self.kind);
        let modulation = self.time_projection.forward(&time.silu());
        let modulation = modulation.view([-1, 6, self.config.dim()]);
        (time.to_kind(Kind::Float), modulation.to_kind(Kind::Float))
    }

    fn patches(&self, latents: &Tensor) -> Tensor {
        patches(latents, self.config.patch_size, PatchOrder::ChannelsFirst)
    }
}

impl WanContext {
    /// Keys and values of a block's cross-attention, indexed as in [`WanTransformer::all_blocks`].
    fn of_block(&self, index: usize, block: &WanBlock) -> Rc<BlockContext> {
        match &self.kept {
            Some(kept) => Rc::clone(&kept[index]),
            None => Rc::new(block.cross_attn.context(&self.text, self.image.as_ref())),
        }
    }
}

pub(super) struct WanBlock {
    self_attn: WanAttention,
    cross_attn: CrossAttention,
    norm3: Option<LayerNorm>,
    ffn: (Linear, Linear),
    /// `(1, 6, C)`, to which that of the timestep is added
    pub modulation: Tensor,
    eps: f64,
}

impl WanBlock {
    pub fn new(config: &WanTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let norm3 = || LayerNorm::new(dim, config.eps, &(w / "norm3"));
        let exact = w.with_kind(Kind::Float);
        Ok(Self {
            self_attn: WanAttention::new(config, &(w / "self_attn"))?,
            cross_attn: CrossAttention::new(config, &(w / "cross_attn"))?,
            norm3: config.cross_attn_norm.then(norm3).transpose()?,
            ffn: (
                Linear::new(dim, config.ffn_dim, &(w / "ffn" / 0))?,
                Linear::new(config.ffn_dim, dim, &(w / "ffn" / 2))?,
            ),
            modulation: exact.tensor("modulation", &[1, 6, dim])?,
            eps: config.eps,
        })
    }

    /// Runs the block. `xs`: `(B, L, C)`, changed in place; `normed`: `xs` after this block's first norm; `rows`:
    /// shift, scale and gate of both halves. Returns the last residual, still to be added to `xs` with the last gate.
    ///
    /// Each tensor is freed as soon as it was read: they are the memory that a step needs in addition to the weights.
    pub fn forward(
        &self,
        xs: &mut Tensor,
        normed: Tensor,
        rows: TokenRows<'_>,
        context: &BlockContext,
        rope: &Rope,
    ) -> Tensor {
        let gate = |index| Some(GateArgs { rows, index });
        let normed = {
            let ys = self.self_attn.forward(normed, rope);
            if let Some(norm) = &self.norm3 {
                gated_add_norm(xs, &ys, gate(2), &norm.norm(), self.eps)
            } else {
                gated_add(xs, &ys, gate(2));
                xs.shallow_clone()
            }
        };
        let normed = {
            let ys = self.cross_attn.forward(normed, context);
            gated_add_norm(xs, &ys, None, &FusedNorm::modulated(rows, 3), self.eps)
        };
        let ys = self.ffn.0.forward(&normed);
        drop(normed);
        self.ffn.1.forward(&gelu_tanh(ys))
    }
}

/// Of tokens to themselves, or to others.
struct WanAttention {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm_q: TokenRmsNorm,
    norm_k: TokenRmsNorm,
    num_heads: i64,
}

impl WanAttention {
    fn new(config: &WanTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let linear = |name| Linear::new(dim, dim, &(w / name));
        Ok(Self {
            q: linear("q")?,
            k: linear("k")?,
            v: linear("v")?,
            o: linear("o")?,
            norm_q: TokenRmsNorm::new(dim, config.eps, &(w / "norm_q"))?,
            norm_k: TokenRmsNorm::new(dim, config.eps, &(w / "norm_k"))?,
            num_heads: config.num_attention_heads,
        })
    }

    /// `xs`: `(B, L, C)` to itself -> the same
    fn forward(&self, xs: Tensor, rope: &Rope) -> Tensor {
        let heads_of = |xs: Tensor| xs.unflatten(2, [self.num_heads, -1]);
        let turned = |made: &Linear, norm: &TokenRmsNorm| {
            heads_of(norm.forward_rope(made.forward(&xs), Some(rope)))
        };
        let parts: [&dyn Fn() -> Tensor; 3] = [
            &|| turned(&self.q, &self.norm_q),
            &|| turned(&self.k, &self.norm_k),
            &|| heads_of(self.v.forward(&xs)),
        ];
        let heads = SpreadHeads::start(parts, 1, rope.shards());
        drop(xs);
        self.o.forward(&heads.attend())
    }
}

struct CrossAttention {
    text: WanAttention,
    /// Keys and values of images, and the norm of the keys.
    image: Option<(Linear, Linear, TokenRmsNorm)>,
}

impl CrossAttention {
    fn new(config: &WanTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let image = |_| {
            let linear = |name| Linear::new(dim, dim, &(w / name));
            let [k, v] = [linear("k_img")?, linear("v_img")?];
            let norm = TokenRmsNorm::new(dim, config.eps, &(w / "norm_k_img"))?;
            Ok::<_, WeightsError>((k, v, norm))
        };
        Ok(Self {
            text: WanAttention::new(config, w)?,
            image: config.image_dim.map(image).transpose()?,
        })
    }

    /// `text`: `(B, S, C)`, `image`: `(1, S, C)`, which models that read no images leave alone
    fn context(&self, text: &Tensor, image: Option<&Tensor>) -> BlockContext {
        let own = &self.text;
        let keys_and_values = |keys: &Linear, norm: &TokenRmsNorm, values: &Linear, xs: &Tensor| {
            let k = norm.forward_rope(keys.forward(xs), None);
            (
                split_heads(&k, own.num_heads),
                split_heads(&values.forward(xs), own.num_heads),
            )
        };
        let images = self.image.as_ref().zip(image);
        BlockContext {
            text: keys_and_values(&own.k, &own.norm_k, &own.v, text),
            image: images.map(|((k, v, norm), image)| keys_and_values(k, norm, v, image)),
        }
    }

    /// `xs`: `(B, L, C)` -> the same
    fn forward(&self, xs: Tensor, context: &BlockContext) -> Tensor {
        let own = &self.text;
        let q = own.norm_q.forward_rope(own.q.forward(&xs), None);
        drop(xs);
        let q = split_heads(&q, own.num_heads);
        let (k, v) = &context.text;
        let mut ys = attention(&q, k, v, None, None);
        if let Some((k, v)) = &context.image {
            // All texts share the images.
            let size = [&q.size()[..2], &k.size()[2..]].concat();
            let [k, v] = [k, v].map(|xs| xs.expand(&size, false));
            ys += attention(&q, &k, &v, None, None);
        }
        drop(q);
        own.o.forward(&join_heads(&ys))
    }
}

/// From the image encoder's width to the transformer's, with places where there are two images.
struct ImageEmbedding {
    emb_pos: Option<Tensor>,
    norms: (LayerNorm, LayerNorm),
    proj: Mlp,
}

impl ImageEmbedding {
    /// diffusers leaves these norms at the default of `torch.nn.LayerNorm`.
    const EPS: f64 = 1e-5;

    fn new(config: &WanTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, image_dim) = (config.dim(), config.image_dim.unwrap_or_default());
        let norm = |dim, i: i64| LayerNorm::new(dim, Self::EPS, &(w / "proj" / i));
        Ok(Self {
            emb_pos: config
                .pos_embed_seq_len
                .map(|len| w.tensor("emb_pos", &[1, len, image_dim]))
                .transpose()?,
            norms: (norm(image_dim, 0)?, norm(dim, 4)?),
            proj: Mlp::new([image_dim, image_dim, dim], ["1", "3"], &(w / "proj"))?,
        })
    }

    /// `images`: `(N, S, image_dim)` -> `(1, N * S, C)`
    fn forward(&self, images: &Tensor) -> Tensor {
        let kind = images.kind();
        let xs = images.reshape([1, -1, images.size()[2]]);
        let xs = match &self.emb_pos {
            Some(places) => xs + places,
            None => xs,
        };
        let xs = self.norms.0.forward(&xs).to_kind(kind);
        let xs = self.proj.forward(&xs, |xs| xs.gelu("none"));
        self.norms.1.forward(&xs).to_kind(kind)
    }
}
