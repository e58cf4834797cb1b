//! Token refiner: a small transformer for the text, conditioned on the timestep.
//!
//! After HunyuanVideo's `modules/token_refiner.py` in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_hunyuan_video.py`). Fields have ComfyUI's names. Padding was removed before, so no
//! token is masked.

use safelight_core::networks::FramePackTransformerConfig;
use safelight_core::networks::stream_blocks::SINUSOIDS;
use tch::{Kind, Tensor};

use crate::nn::{
    GateArgs, LayerNorm, Linear, Mlp, TokenRows, gated_add, gated_add_norm, qkv_attention, silu,
};
use crate::streams::embedder;
use crate::weights::{Weights, WeightsError};

const EPS: f64 = 1e-6;

pub(super) struct TokenRefiner {
    input_embedder: Linear,
    t_embedder: Mlp,
    c_embedder: Mlp,
    blocks: Vec<RefinerBlock>,
}

/// A text as the blocks read it.
pub(super) struct EmbeddedText {
    /// `(1, T, C)`
    tokens: Tensor,
    /// Term of the text's mean in the timestep's embedding: `(1, C)` in f32
    vec: Tensor,
}

impl TokenRefiner {
    pub(super) fn new(
        config: &FramePackTransformerConfig,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (text, dim) = (config.text_embed_dim, config.dim());
        let exact = w.with_kind(Kind::Float);
        let blocks = w / "individual_token_refiner" / "blocks";
        Ok(Self {
            input_embedder: Linear::new(text, dim, &(w / "input_embedder"))?,
            t_embedder: embedder(true, SINUSOIDS, dim, &(&exact / "t_embedder"))?,
            c_embedder: embedder(true, text, dim, &(&exact / "c_embedder"))?,
            blocks: (0..config.num_refiner_layers)
                .map(|i| RefinerBlock::new(config, &(&blocks / i)))
                .collect::<Result<_, _>>()?,
        })
    }

    /// `text`: `(1, T, text_embed_dim)`, without padding
    pub(super) fn embed(&self, text: &Tensor) -> EmbeddedText {
        let mean = text.mean_dim([1_i64].as_slice(), false, Kind::Float);
        EmbeddedText {
            tokens: self.input_embedder.forward(&text.contiguous()),
            vec: self.c_embedder.forward(&mean, |xs| xs.silu()),
        }
    }

    /// `sinusoids`: of `N` timesteps, `(N, 256)` -> the gates of each block, `(N, 2, C)`
    pub(super) fn gates(&self, sinusoids: &Tensor, text: &EmbeddedText) -> Vec<Tensor> {
        let vec = self.t_embedder.forward(sinusoids, |xs| xs.silu());
        let vec = (vec + &text.vec).silu();
        let vec = vec.to_kind(text.tokens.kind());
        let dim = text.tokens.size()[2];
        self.blocks
            .iter()
            .map(|block| block.modulation.forward(&vec).view([-1, 2, dim]))
            .collect()
    }

    /// `gates`: of each block for one timestep, `(2, C)` -> `(1, T, C)`
    pub(super) fn forward(&self, text: &EmbeddedText, gates: &[Tensor]) -> Tensor {
        let mut xs = text.tokens.copy();
        if xs.numel() > 0 {
            for (block, gates) in self.blocks.iter().zip(gates) {
                block.forward(&mut xs, &gates.unsqueeze(0));
            }
        }
        xs
    }
}

impl EmbeddedText {
    pub(super) fn len(&self) -> i64 {
        self.tokens.size()[1]
    }
}

struct RefinerBlock {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    mlp: Mlp,
    /// `adaLN_modulation.1`: gates alone.
    modulation: Linear,
    num_heads: i64,
}

impl RefinerBlock {
    fn new(config: &FramePackTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let mlp_dim = config.refiner_mlp_dim();
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        let attn = w / "self_attn";
        Ok(Self {
            norm1: LayerNorm::new(dim, EPS, &(w / "norm1"))?,
            qkv: Linear::fused(true, dim, &parts, &(&attn / "qkv"))?,
            proj: Linear::new(dim, dim, &(&attn / "proj"))?,
            norm2: LayerNorm::new(dim, EPS, &(w / "norm2"))?,
            mlp: Mlp::new([dim, mlp_dim, dim], ["0", "2"], &(w / "mlp"))?,
            // All steps' are made at once.
            modulation: Linear::new(dim, 2 * dim, &(w / "adaLN_modulation" / 1).seldom())?,
            num_heads: config.num_attention_heads,
        })
    }

    /// `xs`: `(1, T, C)`, changed in place; `gates`: `(1, 2, C)`
    fn forward(&self, xs: &mut Tensor, gates: &Tensor) {
        let ranges = [(0, xs.size()[1])];
        let rows = TokenRows {
            values: gates,
            ranges: &ranges,
        };
        let gate = |index| Some(GateArgs { rows, index });
        let ys = self.attend(&self.norm1.forward_as_kind(xs));
        let normed = gated_add_norm(xs, &ys, gate(0), &self.norm2.norm(), EPS);
        let ys = self.mlp.forward(&normed, silu);
        gated_add(xs, &ys, gate(1));
    }

    /// `(1, T, C)` -> the same
    fn attend(&self, xs: &Tensor) -> Tensor {
        let size = xs.size();
        let qkv = self.qkv.forward(xs);
        // b l (k h d) -> b l (k h) d
        let qkv = qkv.view([1, size[1], 3 * self.num_heads, -1]);
        self.proj.forward(&qkv_attention(&qkv, None))
    }
}
