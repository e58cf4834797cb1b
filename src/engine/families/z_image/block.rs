//! A block of Z-Image: attention and a gated feed-forward layer, each between two norms.
//!
//! Shapes: as in [`z_image`](super).

use safelight_core::networks::ZImageTransformerConfig;
use tch::{Kind, Tensor};

use crate::nn::{
    Linear, QkNorm, Rope, SwiGlu, TokenRmsNorm, gated_add, rms_norm, rms_norm_in_place,
    spread_qkv_attention,
};
use crate::{Weights, WeightsError};

/// Epsilon of the norms of queries and keys, which the config lacks.
const HEAD_EPS: f64 = 1e-5;
/// Largest number in f16, which activations exceed.
const LARGEST_HALF: f64 = 65504.0;

pub(super) struct ZImageBlock {
    qkv: Linear,
    head_norm: QkNorm,
    out: Linear,
    feed_forward: SwiGlu,
    /// Weights of the norms before and after attention, and before and after feed-forward layers: `(4, C)` in f32
    norms: Tensor,
    /// `adaLN_modulation.0`, in blocks that depend on the timestep.
    modulation: Option<Linear>,
    num_heads: i64,
    eps: f64,
}

impl ZImageBlock {
    pub(super) fn new(
        config: &ZImageTransformerConfig,
        is_modulated: bool,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, wide) = (config.dim, config.ffn_dim());
        let attn = w / "attention";
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        let norm =
            |name| TokenRmsNorm::new(dim, config.norm_eps, &(w / name)).map(|norm| norm.weight());
        let norms = [
            norm("attention_norm1")?,
            norm("attention_norm2")?,
            norm("ffn_norm1")?,
            norm("ffn_norm2")?,
        ];
        let names = ["q_norm.weight", "k_norm.weight"];
        let modulation = || {
            let w = (w / "adaLN_modulation" / 0).seldom();
            Linear::new(config.modulation_dim(), 4 * dim, &w)
        };
        Ok(Self {
            qkv: Linear::fused(false, dim, &parts, &(&attn / "qkv"))?,
            head_norm: QkNorm::named(names, config.head_dim(), HEAD_EPS, &attn)?,
            out: Linear::without_bias(dim, dim, &(&attn / "out"))?,
            feed_forward: SwiGlu::new(["w1", "w3", "w2"], dim, wide, &(w / "feed_forward"))?,
            norms: Tensor::stack(&norms, 0),
            modulation: is_modulated.then(modulation).transpose()?,
            num_heads: config.n_heads,
            eps: config.norm_eps,
        })
    }

    /// Factors of blocks that do not depend on the timestep: `(4, C)` in f32
    pub(super) fn norms(&self) -> &Tensor {
        &self.norms
    }

    /// `time`: embedded timesteps, `(N, time_dim)` -> norm weights times scales and gates: `(N, 4, C)` in f32
    pub(super) fn factors(&self, time: &Tensor) -> Tensor {
        let Some(modulation) = &self.modulation else {
            return self.norms.unsqueeze(0);
        };
        let values = modulation.forward(time).to_kind(Kind::Float);
        let values = values.view([time.size()[0], 4, -1]);
        let part = |i: i64| values.select(1, i);
        let parts = [part(0) + 1.0, part(1).tanh(), part(2) + 1.0, part(3).tanh()];
        Tensor::stack(&parts, 1) * &self.norms
    }

    /// `xs`: `(B, l, C)`, changed in place; `factors`: of the norms before and after attention and feed-forward layers,
    /// `(4, C)`; `rope`: of `l` tokens
    pub(super) fn forward(&self, xs: &mut Tensor, factors: &Tensor, rope: &Rope) {
        let [before_attn, after_attn, before_ffn, after_ffn] = [0, 1, 2, 3].map(|i| factors.get(i));
        let ys = self.attend(&rms_norm(xs, &before_attn, self.eps), rope);
        self.add(xs, ys, &after_attn);
        let hidden = self
            .feed_forward
            .hidden(&rms_norm(xs, &before_ffn, self.eps));
        let ys = self.feed_forward.down(&bounded(hidden));
        self.add(xs, ys, &after_ffn);
    }

    fn add(&self, xs: &mut Tensor, ys: Tensor, factor: &Tensor) {
        let ys = rms_norm_in_place(bounded(ys), factor, self.eps);
        gated_add(xs, &ys, None);
    }

    /// `(B, l, C)` -> the same
    fn attend(&self, normed: &Tensor, rope: &Rope) -> Tensor {
        let (num_images, tokens, _) = normed.size3().expect("tokens have three dimensions");
        let heads = self.num_heads;
        // b l (k h d) -> b l (k h) d
        let qkv = self.qkv.forward(normed);
        let qkv = qkv.view([num_images, tokens, 3 * heads, -1]);
        self.head_norm
            .forward_rope(&mut qkv.narrow(2, 0, 2 * heads), rope);
        self.out
            .forward(&spread_qkv_attention(&qkv, None, rope.shards(), || ()))
    }
}

/// Clamps to the range of f16, which some activations of every image exceed, as in ComfyUI.
fn bounded(mut xs: Tensor) -> Tensor {
    if xs.kind() == Kind::Half {
        drop(xs.clamp_(-LARGEST_HALF, LARGEST_HALF));
    }
    xs
}
