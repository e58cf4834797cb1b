//! Layers of CLIP's text and vision transformers, with the names of `transformers`.
//!
//! The encoders add what comes before and after the layers.
//!
//! Shapes: `B` texts or images, `L` tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::{ClipActivation, ClipLayers};
use tch::Tensor;

use super::{LayerNorm, Linear, attention, join_heads, split_heads};
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::weights::{Weights, WeightsError};

pub struct ClipTower(Vec<ClipLayer>);

impl ClipTower {
    /// `w`: where the encoder's own names begin.
    pub fn new(config: &ClipLayers, w: &Weights) -> Result<Self, WeightsError> {
        let layers = (0..config.num_hidden_layers)
            .map(|i| ClipLayer::new(config, &(w / "encoder" / "layers" / i)));
        layers.collect::<Result<_, _>>().map(Self)
    }

    /// `xs`: `(B, L, C)` through all layers but the last `left`, `mask`: added to the scores, `(L, L)` -> the same as
    /// `xs`; `None` when cancelled
    pub fn forward(
        &self,
        mut xs: Tensor,
        left: usize,
        mask: Option<&Tensor>,
        site: FaultSite,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        for layer in &self.0[..self.0.len().saturating_sub(left)] {
            hooks.check_cancelled(site)?;
            xs = layer.forward(&xs, mask);
        }
        Some(xs)
    }

    /// The last `left` layers alone, which [`Self::forward`] leaves out.
    pub fn last(&self, xs: &Tensor, left: usize, mask: Option<&Tensor>) -> Tensor {
        let last = self.0.iter().rev().take(left).rev();
        last.fold(xs.shallow_clone(), |xs, layer| layer.forward(&xs, mask))
    }
}

/// Attention and feed-forward, each after a norm.
struct ClipLayer {
    layer_norm1: LayerNorm,
    self_attn: ClipAttention,
    layer_norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    activation: ClipActivation,
}

impl ClipLayer {
    fn new(config: &ClipLayers, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        let norm = |name| LayerNorm::new(dim, config.layer_norm_eps, &(w / name));
        let mlp = &(w / "mlp");
        Ok(Self {
            layer_norm1: norm("layer_norm1")?,
            self_attn: ClipAttention::new(config, &(w / "self_attn"))?,
            layer_norm2: norm("layer_norm2")?,
            fc1: Linear::new(dim, inner, &(mlp / "fc1"))?,
            fc2: Linear::new(inner, dim, &(mlp / "fc2"))?,
            activation: config.hidden_act,
        })
    }

    /// `xs`: `(B, L, C)`, `mask`: added to the scores, `(L, L)` -> the same as `xs`
    fn forward(&self, xs: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let normal = self.layer_norm1.forward_as_kind(xs);
        let xs = xs + self.self_attn.forward(&normal, mask);
        let normal = self.layer_norm2.forward_as_kind(&xs);
        let inner = activated(self.activation, &self.fc1.forward(&normal));
        xs + self.fc2.forward(&inner)
    }
}

fn activated(activation: ClipActivation, xs: &Tensor) -> Tensor {
    match activation {
        ClipActivation::Gelu => xs.gelu("none"),
        ClipActivation::GeluTanh => xs.gelu("tanh"),
        ClipActivation::QuickGelu => xs * (xs * 1.702).sigmoid_(),
    }
}

struct ClipAttention {
    /// Queries, keys and values.
    qkv: Linear,
    out_proj: Linear,
    num_heads: i64,
}

impl ClipAttention {
    fn new(config: &ClipLayers, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.hidden_size;
        let parts = ["q_proj", "k_proj", "v_proj"].map(|part| (part, dim));
        Ok(Self {
            qkv: Linear::fused(true, dim, &parts, w)?,
            out_proj: Linear::new(dim, dim, &(w / "out_proj"))?,
            num_heads: config.num_attention_heads,
        })
    }

    /// `xs`: `(B, L, C)` -> the same
    fn forward(&self, xs: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let qkv = self.qkv.forward(xs).chunk(3, -1);
        let heads = |part: &Tensor| split_heads(part, self.num_heads);
        let attended = attention(
            &heads(&qkv[0]),
            &heads(&qkv[1]),
            &heads(&qkv[2]),
            mask,
            None,
        );
        self.out_proj.forward(&join_heads(&attended))
    }
}
