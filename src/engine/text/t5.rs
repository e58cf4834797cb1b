//! T5 1.1's encoder: Flux reads T5-XXL, and UMT5 is the same with a table of relative positions in every block.
//!
//! Reads the names of `transformers`, whatever stands before them, and those of GGUF files. Has no decoder, no dropout, no cache, and the
//! gated GELU only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/t5/modeling_t5.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use std::path::Path;

use safelight_core::catalog::llama_cpp_from_t5;
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::encoder_home;
use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::json;
use crate::nn::{Linear, T5Norm, attention, gelu_tanh, lowest};
use crate::weights::{StoredMatrix, Weights, WeightsError};

/// A table of relative positions, by which a file is known and its numbers are counted.
const POSITIONS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

/// What `text_encoder_2/config.json` says, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct T5Config {
    pub model_type: String,
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

impl Default for T5Config {
    fn default() -> Self {
        Self {
            model_type: "t5".to_owned(),
            vocab_size: 32128,
            d_model: 512,
            d_kv: 64,
            d_ff: 2048,
            num_layers: 6,
            num_heads: 8,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "relu".to_owned(),
        }
    }
}

impl T5Config {
    /// Reads and checks the numbers of Flux's second text encoder, which lies in a folder or in one file.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config = match encoder_home::own_config(place, "t5", "text_config")? {
            Some(config) => config,
            None => Self::from_header(place)?,
        };
        let reason = match config.model_type.as_str() {
            "t5" => config.objection("T5 1.1"),
            other => Some(format!("it is the text encoder '{other}', not a T5")),
        };
        match reason {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    /// The numbers that the shapes in a file show; the rest is as in every published T5 1.1.
    fn from_header(path: &Path) -> Result<Self, EngineError> {
        let bad = |reason: String| EngineError::Config {
            reason,
            path: path.to_owned(),
        };
        let weights = Weights::open(path, Kind::Float, Device::Cpu)?;
        let w = at_encoder(&weights);
        let size = |name: &str| encoder_home::matrix(&w, name, "T5");
        let (buckets, num_heads) = size(POSITIONS)?;
        if w.has(&POSITIONS.replace("block.0", "block.1")) {
            return Err(bad("it is a UMT5, not a T5".to_owned()));
        }
        let (vocab_size, d_model) = size(table_names(&w)[0])?;
        let (inner, _) = size("encoder.block.0.layer.0.SelfAttention.q.weight")?;
        let (d_ff, _) = size("encoder.block.0.layer.1.DenseReluDense.wi_0.weight")?;
        if inner % num_heads != 0 {
            let reason =
                format!("its {inner} query rows cannot be split between {num_heads} heads");
            return Err(bad(reason));
        }
        let layer = |i: i64| format!("encoder.block.{i}.layer.0.SelfAttention.q.weight");
        Ok(Self {
            vocab_size,
            d_model,
            d_kv: inner / num_heads,
            d_ff,
            num_layers: encoder_home::num_layers(&w, layer),
            num_heads,
            relative_attention_num_buckets: buckets,
            feed_forward_proj: "gated-gelu".to_owned(),
            ..Self::default()
        })
    }

    /// What is wrong with the numbers of a `model`, if anything is.
    pub(super) fn objection(&self, model: &str) -> Option<String> {
        let sizes = [
            self.vocab_size,
            self.d_model,
            self.d_kv,
            self.d_ff,
            self.num_layers,
            self.num_heads,
        ];
        if sizes.iter().any(|&n| n < 1 || n > 1 << 24) {
            Some("its sizes make no sense".to_owned())
        } else if self.relative_attention_num_buckets < 4
            || self.relative_attention_max_distance <= self.relative_attention_num_buckets / 4
        {
            Some("its relative positions make no sense".to_owned())
        } else if self.feed_forward_proj != "gated-gelu" {
            let activation = &self.feed_forward_proj;
            Some(format!("its activation '{activation}' is not {model}'s"))
        } else {
            None
        }
    }
}

/// Which blocks have a table of relative positions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tables {
    /// Every block its own (UMT5).
    Each,
    /// The first, and all use it (T5).
    First,
}

pub struct T5Encoder {
    /// The table of the tokens.
    shared: StoredMatrix,
    block: Vec<Block>,
    final_layer_norm: T5Norm,
    config: T5Config,
    kind: Kind,
}

impl T5Encoder {
    /// Reads a T5, from a file that may hold other components too.
    pub fn new(config: &T5Config, w: &Weights) -> Result<Self, WeightsError> {
        let w = &at_encoder(w);
        Self::with_tables(config, Tables::First, w)
    }

    pub(super) fn with_tables(
        config: &T5Config,
        tables: Tables,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let encoder = &(w / "encoder");
        let [table, twin] = table_names(w);
        let shared = w.table(table, [config.vocab_size, config.d_model])?;
        w.ignore(twin);
        let has_table = |i: i64| tables == Tables::Each || i == 0;
        Ok(Self {
            shared,
            block: (0..config.num_layers)
                .map(|i| Block::new(config, has_table(i), &(encoder / "block" / i)))
                .collect::<Result<_, _>>()?,
            final_layer_norm: T5Norm::new(
                config.d_model,
                config.layer_norm_epsilon,
                &(encoder / "final_layer_norm"),
            )?,
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// The keys of a file that a T5 should not have; what stands before its names belongs to it alone.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = ["decoder.", "lm_head.", "dec.", "output."];
        encoder_home::left_over(weights, &[POSITIONS], &others)
    }

    /// `ids`: `(B, L)` integers, `mask`: the same, 0 for what nobody may attend to; Flux gives none and attends to
    /// padding -> `(B, L, C)`; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(
        &self,
        ids: &Tensor,
        mask: Option<&Tensor>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let device = self.shared.device();
        let mut xs = self.shared.look_up(&ids.to_device(device), self.kind);
        let mask = mask.map(|mask| {
            let hidden = mask.to_device(device).eq(0);
            // (B, 1, 1, L): as far below every score as the type allows
            Tensor::zeros(mask.size(), (xs.kind(), device))
                .masked_fill(&hidden, lowest(xs.kind()))
                .unsqueeze(1)
                .unsqueeze(1)
        });
        let buckets = position_buckets(ids.size()[1], &self.config).to_device(device);
        let mut bias = None;
        for block in &self.block {
            if hooks.cancelled() {
                return None;
            }
            fault::at(Site::Text);
            let own = block.attention.bias(&buckets, mask.as_ref());
            bias = own.or(bias);
            xs = block.forward(&xs, bias.as_ref());
        }
        Some(self.final_layer_norm.forward(&xs))
    }
}

/// Where the names of `transformers` begin, which GGUF files have under others.
fn at_encoder(w: &Weights) -> Weights {
    if w.has(&llama_cpp_from_t5(POSITIONS)) {
        return w.translated(llama_cpp_from_t5);
    }
    encoder_home::at_key(w, &[POSITIONS])
}

/// The table of the tokens and its twin: some files repeat it under the encoder, some have it only there.
fn table_names(w: &Weights) -> [&'static str; 2] {
    let (own, other) = ("shared.weight", "encoder.embed_tokens.weight");
    if w.has(other) && !w.has(own) {
        [other, own]
    } else {
        [own, other]
    }
}

struct Block {
    attention: SelfAttention,
    attention_norm: T5Norm,
    feed_forward: GatedFeedForward,
    feed_forward_norm: T5Norm,
}

impl Block {
    fn new(config: &T5Config, has_table: bool, w: &Weights) -> Result<Self, WeightsError> {
        let layer = &(w / "layer");
        let norm = |w: &Weights| T5Norm::new(config.d_model, config.layer_norm_epsilon, w);
        Ok(Self {
            attention: SelfAttention::new(config, has_table, &(layer / 0 / "SelfAttention"))?,
            attention_norm: norm(&(layer / 0 / "layer_norm"))?,
            feed_forward: GatedFeedForward::new(config, &(layer / 1 / "DenseReluDense"))?,
            feed_forward_norm: norm(&(layer / 1 / "layer_norm"))?,
        })
    }

    /// `xs`: `(B, L, C)`, `bias`: broadcast to `(B, H, L, L)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let normal = self.attention_norm.forward(xs);
        let attended = self.attention.forward(&normal, bias);
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
    relative_attention_bias: Option<Tensor>,
    num_heads: i64,
}

impl SelfAttention {
    fn new(config: &T5Config, has_table: bool, w: &Weights) -> Result<Self, WeightsError> {
        let inner = config.num_heads * config.d_kv;
        let table = [config.relative_attention_num_buckets, config.num_heads];
        let table = || w.tensor("relative_attention_bias.weight", &table);
        let project = |name| Linear::without_bias(config.d_model, inner, &(w / name));
        Ok(Self {
            q: project("q")?,
            k: project("k")?,
            v: project("v")?,
            o: Linear::without_bias(inner, config.d_model, &(w / "o"))?,
            relative_attention_bias: has_table.then(table).transpose()?,
            num_heads: config.num_heads,
        })
    }

    /// What is added to the scores of this block, and of those without a table behind it.
    ///
    /// `buckets`: `(L, L)`, `mask`: `(B, 1, 1, L)` -> broadcast to `(B, H, L, L)`
    fn bias(&self, buckets: &Tensor, mask: Option<&Tensor>) -> Option<Tensor> {
        let table = self.relative_attention_bias.as_ref()?;
        // q k h -> 1 h q k
        let positions = Tensor::embedding(table, buckets, -1, false, false)
            .permute([2, 0, 1])
            .unsqueeze(0);
        Some(match mask {
            Some(mask) => positions + mask,
            None => positions.contiguous(),
        })
    }

    /// `xs`: `(B, L, C)`, `bias`: broadcast to `(B, H, L, L)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let (b, l, _) = xs.size3().expect("hidden states have three dimensions");
        let heads = |linear: &Linear| {
            // b l (h d) -> b h l d
            let xs = linear.forward(xs).view([b, l, self.num_heads, -1]);
            xs.transpose(1, 2)
        };
        let (q, k, v) = (heads(&self.q), heads(&self.k), heads(&self.v));
        // T5 does not scale its scores.
        let attended = attention(&q, &k, &v, bias, Some(1.0));
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
    fn new(config: &T5Config, w: &Weights) -> Result<Self, WeightsError> {
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
        let gated = gelu_tanh(self.wi_0.forward(xs)) * self.wi_1.forward(xs);
        let wide = self.wo.forward(&gated.to_kind(self.wo.kind()));
        wide.to_kind(xs.kind())
    }
}

/// Which row of the table each pair of positions reads: `(L, L)`, query first.
fn position_buckets(len: i64, config: &T5Config) -> Tensor {
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
