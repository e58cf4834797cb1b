//! UMT5's encoder: T5 1.1 with a table of relative positions in every block.
//!
//! Reads the names of `transformers`, and those of Wan's own file through the catalogue. Has no decoder, no dropout, no cache.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/umt5/modeling_umt5.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use std::path::Path;

use safelight_core::catalog::{Component, TextEncoderKeys};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::spiece::SPIECE_TENSOR;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::json;
use crate::nn::{Linear, T5Norm, attention};
use crate::weights::{Weights, WeightsError};

/// What `text_encoder/config.json` says, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Umt5Config {
    pub vocab_size: i64,
    pub d_model: i64,
    pub d_kv: i64,
    pub d_ff: i64,
    pub num_layers: i64,
    pub num_heads: i64,
    pub relative_attention_num_buckets: i64,
    pub relative_attention_max_distance: i64,
    pub layer_norm_epsilon: f64,
    pub feed_forward_proj: String,
}

impl Default for Umt5Config {
    fn default() -> Self {
        Self {
            vocab_size: 250112,
            d_model: 512,
            d_kv: 64,
            d_ff: 1024,
            num_layers: 8,
            num_heads: 6,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "gated-gelu".to_owned(),
        }
    }
}

impl Umt5Config {
    /// Reads and checks the numbers of a text encoder, which lies in a folder or in one file.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config: Self = json::read_component(Component::TextEncoder, None, place)?;
        let sizes = [
            config.vocab_size,
            config.d_model,
            config.d_kv,
            config.d_ff,
            config.num_layers,
            config.num_heads,
        ];
        let reason = if sizes.iter().any(|&n| n < 1 || n > 1 << 24) {
            "its sizes make no sense".to_owned()
        } else if config.relative_attention_num_buckets < 4
            || config.relative_attention_max_distance <= config.relative_attention_num_buckets / 4
        {
            "its relative positions make no sense".to_owned()
        } else if config.feed_forward_proj != "gated-gelu" {
            format!(
                "its activation '{}' is not UMT5's",
                config.feed_forward_proj
            )
        } else {
            return Ok(config);
        };
        let path = json::config_path(place);
        Err(EngineError::Config { reason, path })
    }
}

pub struct Umt5Encoder {
    shared: Tensor,
    block: Vec<Block>,
    final_layer_norm: T5Norm,
    config: Umt5Config,
}

impl Umt5Encoder {
    pub fn new(config: &Umt5Config, w: &Weights) -> Result<Self, WeightsError> {
        // A tokenizer in the same file is read by whoever wants it.
        w.ignore(SPIECE_TENSOR);
        // Fields have the names of `transformers`; what is no UMT5 at all is named by the first key asked for.
        let w = &match TextEncoderKeys::detect(|key| w.has(key)) {
            Some(keys) => w.translated(move |name| keys.file_key(name)),
            None => w.clone(),
        };
        let encoder = &(w / "encoder");
        // Some files repeat the table under the encoder, some have it only there.
        let (own, other) = ("shared.weight", "encoder.embed_tokens.weight");
        let (table, twin) = if w.has(own) {
            (own, other)
        } else {
            (other, own)
        };
        let shape = [config.vocab_size, config.d_model];
        let shared = w.tensor(table, &shape)?;
        w.ignore(twin);
        Ok(Self {
            shared,
            block: (0..config.num_layers)
                .map(|i| Block::new(config, &(encoder / "block" / i)))
                .collect::<Result<_, _>>()?,
            final_layer_norm: T5Norm::new(
                config.d_model,
                config.layer_norm_epsilon,
                &(encoder / "final_layer_norm"),
            )?,
            config: config.clone(),
        })
    }

    /// `ids`, `mask`: `(B, L)` integers -> `(B, L, C)`; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let device = self.shared.device();
        let mut xs = Tensor::embedding(&self.shared, &ids.to_device(device), -1, false, false);
        let hidden = mask.to_device(device).eq(0);
        // (B, 1, 1, L): as far below every score as the type allows
        let mask = Tensor::zeros(mask.size(), (xs.kind(), device))
            .masked_fill(&hidden, lowest(xs.kind()))
            .unsqueeze(1)
            .unsqueeze(1);
        let buckets = position_buckets(ids.size()[1], &self.config).to_device(device);
        for block in &self.block {
            if hooks.cancelled() {
                return None;
            }
            xs = block.forward(&xs, &buckets, &mask);
        }
        Some(self.final_layer_norm.forward(&xs))
    }
}

struct Block {
    attention: SelfAttention,
    attention_norm: T5Norm,
    feed_forward: GatedFeedForward,
    feed_forward_norm: T5Norm,
}

impl Block {
    fn new(config: &Umt5Config, w: &Weights) -> Result<Self, WeightsError> {
        let layer = &(w / "layer");
        let norm = |w: &Weights| T5Norm::new(config.d_model, config.layer_norm_epsilon, w);
        Ok(Self {
            attention: SelfAttention::new(config, &(layer / 0 / "SelfAttention"))?,
            attention_norm: norm(&(layer / 0 / "layer_norm"))?,
            feed_forward: GatedFeedForward::new(config, &(layer / 1 / "DenseReluDense"))?,
            feed_forward_norm: norm(&(layer / 1 / "layer_norm"))?,
        })
    }

    /// `xs`: `(B, L, C)`, `buckets`: `(L, L)`, `mask`: `(B, 1, 1, L)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, buckets: &Tensor, mask: &Tensor) -> Tensor {
        let attended = self
            .attention
            .forward(&self.attention_norm.forward(xs), buckets, mask);
        let xs = finite(xs + attended);
        let fed = self
            .feed_forward
            .forward(&self.feed_forward_norm.forward(&xs));
        finite(xs + fed)
    }
}

struct SelfAttention {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    relative_attention_bias: Tensor,
    num_heads: i64,
}

impl SelfAttention {
    fn new(config: &Umt5Config, w: &Weights) -> Result<Self, WeightsError> {
        let inner = config.num_heads * config.d_kv;
        let project = |name| Linear::without_bias(config.d_model, inner, &(w / name));
        Ok(Self {
            q: project("q")?,
            k: project("k")?,
            v: project("v")?,
            o: Linear::without_bias(inner, config.d_model, &(w / "o"))?,
            relative_attention_bias: w.tensor(
                "relative_attention_bias.weight",
                &[config.relative_attention_num_buckets, config.num_heads],
            )?,
            num_heads: config.num_heads,
        })
    }

    fn forward(&self, xs: &Tensor, buckets: &Tensor, mask: &Tensor) -> Tensor {
        let (b, l, _) = xs.size3().expect("hidden states have three dimensions");
        let heads = |linear: &Linear| {
            // b l (h d) -> b h l d
            let xs = linear.forward(xs).view([b, l, self.num_heads, -1]);
            xs.transpose(1, 2)
        };
        // q k h -> 1 h q k
        let positions = Tensor::embedding(&self.relative_attention_bias, buckets, -1, false, false)
            .permute([2, 0, 1])
            .unsqueeze(0);
        let (q, k, v) = (heads(&self.q), heads(&self.k), heads(&self.v));
        // T5 does not scale its scores.
        let attended = attention(&q, &k, &v, Some(&(positions + mask)), Some(1.0));
        let attended = attended.transpose(1, 2).reshape([b, l, -1]);
        self.o.forward(&attended)
    }
}

struct GatedFeedForward {
    wi_0: Linear,
    wi_1: Linear,
    wo: Linear,
}

impl GatedFeedForward {
    fn new(config: &Umt5Config, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, inner) = (config.d_model, config.d_ff);
        // `wo` overflows f16: `transformers` keeps it in f32 there.
        let exact = match w.kind() {
            Kind::Half => w.with_kind(Kind::Float),
            _ => w.clone(),
        };
        Ok(Self {
            wi_0: Linear::without_bias(dim, inner, &(w / "wi_0"))?,
            wi_1: Linear::without_bias(dim, inner, &(w / "wi_1"))?,
            wo: Linear::without_bias(inner, dim, &(&exact / "wo"))?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let gated = self.wi_0.forward(xs).gelu("tanh") * self.wi_1.forward(xs);
        let wide = self.wo.forward(&gated.to_kind(self.wo.kind()));
        wide.to_kind(xs.kind())
    }
}

/// Which row of the table each pair of positions reads: `(L, L)`, query first.
fn position_buckets(len: i64, config: &Umt5Config) -> Tensor {
    let ints = (Kind::Int64, Device::Cpu);
    let positions = Tensor::arange(len, ints);
    let relative = positions.unsqueeze(0) - positions.unsqueeze(1);
    // Half of the buckets look back, half ahead; of each half, one half is exact and the rest grows as the logarithm.
    let half = config.relative_attention_num_buckets / 2;
    let exact = half / 2;
    let ahead = relative.gt(0).to_kind(Kind::Int64) * half;
    let distance = relative.abs();
    let range = (config.relative_attention_max_distance as f64 / exact as f64).ln();
    let log_ratio = (distance.to_kind(Kind::Float) / exact as f64).log() / range;
    let far = (log_ratio * (half - exact) as f64)
        .clamp_min(0.0)
        .to_kind(Kind::Int64)
        + exact;
    let far = far.clamp_max(half - 1);
    ahead + distance.where_self(&distance.lt(exact), &far)
}

/// f16 overflows in these networks; `transformers` clamps it.
fn finite(xs: Tensor) -> Tensor {
    if xs.kind() == Kind::Half {
        xs.clamp(-65504.0 + 1000.0, 65504.0 - 1000.0)
    } else {
        xs
    }
}

fn lowest(kind: Kind) -> f64 {
    match kind {
        Kind::Half => -65504.0,
        Kind::BFloat16 => -3.3895313892515355e38,
        _ => f64::from(f32::MIN),
    }
}
