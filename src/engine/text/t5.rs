//! T5 1.1's encoder, which Flux reads, and UMT5's, Wan's: the same with a table of relative positions in every block.
//!
//! Fields have the names of `transformers`; `core` says what a file calls them. Has no decoder, no dropout, no cache,
//! and the gated GELU only.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/t5/modeling_t5.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`.

use safelight_core::networks::{T5Config, T5Keys};
use safelight_core::tokens::spiece::SPIECE_TENSOR;
use tch::{Device, Kind, Tensor};

use crate::encoder_prefix;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{Linear, T5Norm, attention, gelu_tanh, join_heads, lowest, split_heads};
use crate::weights::{StoredMatrix, Weights, WeightsError};

pub struct T5Encoder {
    shared: StoredMatrix,
    block: Vec<T5Block>,
    final_layer_norm: T5Norm,
    config: T5Config,
    kind: Kind,
}

impl T5Encoder {
    /// Reads a T5 or UMT5, from a file that may hold other components too. `config` has been read by
    /// [`T5Config::read_as`], or is as sound.
    pub fn new(config: &T5Config, w: &Weights) -> Result<Self, WeightsError> {
        // A tokenizer in the same file is read by whoever wants it.
        w.ignore(SPIECE_TENSOR);
        // A file of neither kind is reported by the first missing key.
        let keys = T5Keys::of(&w.keys()).unwrap_or_default();
        let [table, twin] = keys.tokens();
        let w = &w.translated(move |name| keys.file_key(name));
        let encoder = &(w / "encoder");
        let shared = w.table(table, [config.vocab_size, config.d_model])?;
        w.ignore(twin);
        Ok(Self {
            shared,
            block: (0..config.num_layers)
                .map(|i| T5Block::new(config, config.has_positions(i), &(encoder / "block" / i)))
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

    /// Keys of the file that a T5 does not have; anything outside its prefix is ignored.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let others = ["decoder.", "lm_head.", "dec.", "output."];
        let keys = T5Keys::of(&weights.keys()).unwrap_or_default();
        encoder_prefix::left_over(&keys.prefix, weights, &others)
    }

    /// `ids`: `(B, L)` integers, `mask`: `(B, L)`, 0 for masked tokens; Flux passes none and attends to padding.
    /// Returns `(B, L, C)`; `None` when cancelled.
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
            hooks.check_cancelled(FaultSite::Text)?;
            let own = block.attention.bias(&buckets, mask.as_ref());
            bias = own.or(bias);
            xs = block.forward(&xs, bias.as_ref());
        }
        Some(self.final_layer_norm.forward(&xs))
    }
}

struct T5Block {
    attention: T5Attention,
    attention_norm: T5Norm,
    feed_forward: GatedFeedForward,
    feed_forward_norm: T5Norm,
}

impl T5Block {
    fn new(config: &T5Config, has_table: bool, w: &Weights) -> Result<Self, WeightsError> {
        let layer = &(w / "layer");
        let norm = |w: &Weights| T5Norm::new(config.d_model, config.layer_norm_epsilon, w);
        Ok(Self {
            attention: T5Attention::new(config, has_table, &(layer / 0 / "SelfAttention"))?,
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

struct T5Attention {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    relative_attention_bias: Option<Tensor>,
    num_heads: i64,
}

impl T5Attention {
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

    /// Additive bias of this block's scores, also used by later blocks without a table.
    ///
    /// `buckets`: `(L, L)`, `mask`: `(B, 1, 1, L)`. Returns a tensor that broadcasts to `(B, H, L, L)`.
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
        let heads = |linear: &Linear| split_heads(&linear.forward(xs), self.num_heads);
        let (q, k, v) = (heads(&self.q), heads(&self.k), heads(&self.v));
        // T5 does not scale its scores.
        let attended = attention(&q, &k, &v, bias, Some(1.0));
        self.o.forward(&join_heads(&attended))
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

/// Table row of each pair of positions: `(L, L)`, query first.
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
