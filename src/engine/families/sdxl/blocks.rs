//! Blocks of the U-Net: residual block, spatial transformer, and the layers of both. Fields have diffusers' names.
//!
//! Shapes: `B` images of `H` × `W` latents, channels innermost; `C` width, `L` tokens of a text, `h` heads of `D`.

use safelight_core::networks::SdxlUnetConfig;
use tch::Tensor;

use crate::fault::FaultSite;
use crate::nn::{
    ImageConv, LayerNorm, Linear, attention, gated_add, gated_add_norm, gelu_times, join_heads,
    layer_norm, qkv_attention, split_heads,
};
use crate::step_cache::BlockSkipper;
use crate::vae::GroupNorm;
use crate::{Hooks, Weights, WeightsError};

/// Epsilon of the norm before a spatial transformer.
const SPATIAL_EPS: f64 = 1e-6;
/// Epsilon of layer norms.
const LAYER_EPS: f64 = 1e-5;

/// norm, SiLU, convolution, twice, with the time between them, around a shortcut.
pub(super) struct ResidualBlock {
    norm1: GroupNorm,
    conv1: ImageConv,
    time_emb_proj: Linear,
    norm2: GroupNorm,
    conv2: ImageConv,
    conv_shortcut: Option<ImageConv>,
}

impl ResidualBlock {
    pub(super) fn new(
        config: &SdxlUnetConfig,
        [input, output]: [i64; 2],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let norm = |name, dim| {
            GroupNorm::with_eps(&(w / name), dim, config.norm_num_groups, config.norm_eps)
        };
        let shortcut = || ImageConv::new(&(w / "conv_shortcut"), [input, output], 1, 1);
        let time = &(w.seldom() / "time_emb_proj");
        Ok(Self {
            norm1: norm("norm1", input)?,
            conv1: ImageConv::new(&(w / "conv1"), [input, output], 3, 1)?,
            time_emb_proj: Linear::new(config.time_width(), output, time)?,
            norm2: norm("norm2", output)?,
            conv2: ImageConv::new(&(w / "conv2"), [output, output], 3, 1)?,
            conv_shortcut: (input != output).then(shortcut).transpose()?,
        })
    }

    /// `time`: `(N, time_dim)`, activated → the block's own part of it, `(N, C)`
    pub(super) fn modulation(&self, time: &Tensor) -> Tensor {
        self.time_emb_proj.forward(time)
    }

    /// `xs`: `(B, H, W, C)`, `time`: `(O)` in f32 → `(B, H, W, O)`
    pub(super) fn forward(&self, xs: &Tensor, time: &Tensor) -> Tensor {
        let ys = self
            .conv1
            .forward_bare(&self.norm1.activate(xs, None, None));
        let shift = match self.conv1.lacking() {
            Some(bias) => time + bias,
            None => time.shallow_clone(),
        };
        let ys = self.norm2.activate(&ys, None, Some(&shift));
        let mut ys = self.conv2.forward_bare(&ys);
        let shortcut = self.conv_shortcut.as_ref().map(|conv| conv.forward(xs));
        self.conv2
            .complete(&mut ys, Some(shortcut.as_ref().unwrap_or(xs)));
        ys
    }
}

/// Transformer over the latents of an image, which sees the text.
pub(super) struct SpatialTransformer {
    norm: GroupNorm,
    proj_in: Linear,
    transformer_blocks: Vec<TransformerBlock>,
    proj_out: Linear,
}

/// Keys and values of a text in one block: `(1, h, L, D)`
pub(super) type TextStates = [Tensor; 2];

impl SpatialTransformer {
    pub(super) fn new(
        config: &SdxlUnetConfig,
        level: usize,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let [dim, heads] =
            [&config.block_out_channels, &config.attention_head_dim].map(|all| all[level]);
        let blocks = (0..config.depth(level)).map(|i| {
            let w = &(w / "transformer_blocks" / i);
            TransformerBlock::new([dim, heads, config.cross_attention_dim], w)
        });
        let groups = config.norm_num_groups;
        Ok(Self {
            norm: GroupNorm::with_eps(&(w / "norm"), dim, groups, SPATIAL_EPS)?,
            proj_in: Linear::new(dim, dim, &(w / "proj_in"))?,
            transformer_blocks: blocks.collect::<Result<_, _>>()?,
            proj_out: Linear::new(dim, dim, &(w / "proj_out"))?,
        })
    }

    /// Keys and values of `text`, `(1, L, text width)`, in each block.
    pub(super) fn text_states(&self, text: &Tensor) -> impl Iterator<Item = TextStates> {
        let blocks = self.transformer_blocks.iter();
        blocks.map(|block| block.attn2.states(text))
    }

    pub(super) fn depth(&self) -> usize {
        self.transformer_blocks.len()
    }

    /// `xs`: `(B, H, W, C)` → the same; `None` when cancelled. `first`: number of its first block in the network; `texts`: of
    /// all blocks there.
    pub(super) fn forward(
        &self,
        xs: &Tensor,
        first: usize,
        texts: &[TextStates],
        skip: &BlockSkipper<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let size = xs.size();
        let flat = |xs: &Tensor| xs.view([size[0], size[1] * size[2], size[3]]);
        let mut ys = self.proj_in.forward(&flat(&self.norm.forward(xs, None)));
        for (block, number) in self.transformer_blocks.iter().zip(first..) {
            hooks.check_cancelled(FaultSite::Block)?;
            if !skip.skips_block(number) {
                block.forward(&mut ys, &texts[number]);
            }
        }
        let mut ys = self.proj_out.forward(&ys);
        gated_add(&mut ys, &flat(xs), None);
        Some(ys.view(&size[..]))
    }
}

/// Attention among the latents, attention to the text, feed-forward, each after a norm.
struct TransformerBlock {
    norm1: LayerNorm,
    attn1: UnetSelfAttention,
    norm2: LayerNorm,
    attn2: UnetCrossAttention,
    norm3: LayerNorm,
    ff: [Linear; 2],
}

impl TransformerBlock {
    fn new([dim, heads, text]: [i64; 3], w: &Weights) -> Result<Self, WeightsError> {
        let norm = |name| LayerNorm::new(dim, LAYER_EPS, &(w / name));
        let net = &(w / "ff" / "net");
        Ok(Self {
            norm1: norm("norm1")?,
            attn1: UnetSelfAttention::new([dim, heads], &(w / "attn1"))?,
            norm2: norm("norm2")?,
            attn2: UnetCrossAttention::new([dim, heads, text], &(w / "attn2"))?,
            norm3: norm("norm3")?,
            ff: [
                Linear::new(dim, 8 * dim, &(net / 0 / "proj"))?,
                Linear::new(4 * dim, dim, &(net / 2))?,
            ],
        })
    }

    /// `xs`: `(B, H W, C)`, changed in place
    fn forward(&self, xs: &mut Tensor, text: &TextStates) {
        let ys = layer_norm(xs, &self.norm1.norm(), LAYER_EPS);
        let ys = self.attn1.forward(&ys);
        let ys = gated_add_norm(xs, &ys, None, &self.norm2.norm(), LAYER_EPS);
        let ys = self.attn2.forward(&ys, text);
        let ys = gated_add_norm(xs, &ys, None, &self.norm3.norm(), LAYER_EPS);
        let [first, second] = &self.ff;
        let ys = first.forward(&ys).chunk(2, -1);
        let ys = second.forward(&gelu_times(ys[1].shallow_clone(), &ys[0]));
        gated_add(xs, &ys, None);
    }
}

struct UnetSelfAttention {
    to_qkv: Linear,
    to_out: Linear,
    heads: i64,
}

impl UnetSelfAttention {
    fn new([dim, heads]: [i64; 2], w: &Weights) -> Result<Self, WeightsError> {
        let parts = [("to_q", dim), ("to_k", dim), ("to_v", dim)];
        Ok(Self {
            to_qkv: Linear::fused(false, dim, &parts, w)?,
            to_out: Linear::new(dim, dim, &(w / "to_out" / 0))?,
            heads,
        })
    }

    /// `(B, H W, C)` → the same
    fn forward(&self, xs: &Tensor) -> Tensor {
        let size = xs.size();
        let qkv = self.to_qkv.forward(xs);
        let qkv = qkv.view([size[0], size[1], 3 * self.heads, -1]);
        self.to_out.forward(&qkv_attention(&qkv, None))
    }
}

struct UnetCrossAttention {
    to_q: Linear,
    /// Run once for each text.
    to_kv: [Linear; 2],
    to_out: Linear,
    heads: i64,
}

impl UnetCrossAttention {
    fn new([dim, heads, text]: [i64; 3], w: &Weights) -> Result<Self, WeightsError> {
        let seldom = &w.seldom();
        let of_text = |name| Linear::without_bias(text, dim, &(seldom / name));
        Ok(Self {
            to_q: Linear::without_bias(dim, dim, &(w / "to_q"))?,
            to_kv: [of_text("to_k")?, of_text("to_v")?],
            to_out: Linear::new(dim, dim, &(w / "to_out" / 0))?,
            heads,
        })
    }

    fn states(&self, text: &Tensor) -> TextStates {
        let heads = |linear: &Linear| split_heads(&linear.forward(text), self.heads);
        [heads(&self.to_kv[0]), heads(&self.to_kv[1])]
    }

    /// `xs`: `(B, H W, C)` → the same
    fn forward(&self, xs: &Tensor, text: &TextStates) -> Tensor {
        let q = split_heads(&self.to_q.forward(xs), self.heads);
        let [k, v] = text
            .each_ref()
            .map(|xs| xs.expand([q.size()[0], -1, -1, -1], false));
        self.to_out
            .forward(&join_heads(&attention(&q, &k, &v, None, None)))
    }
}
