//! Llama 3 as an encoder of prompts: what its first layers make of every token, as HunyuanVideo and FramePack read it.
//!
//! Fields have the names of `transformers`; `core` says what a file calls them. Gives the hidden states behind a number
//! of layers, and neither loads nor computes what lies behind those; writes no text, so there is no cache.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/llama/modeling_llama.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`, `G` heads of keys and values.

use safelight_core::networks::{LlamaConfig, LlamaKeys};
use safelight_core::tokens::HunyuanPrompt;
use tch::{Device, Kind, Tensor};

use crate::encoder_home;
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{Linear, T5Norm, attention, join_heads, lowest, silu, split_heads};
use crate::weights::{StoredMatrix, Weights, WeightsError};

const LAYER: [&str; 9] = [
    "input_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "post_attention_layernorm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

/// How the numbers of a head lie in queries and keys. Scores are the same as long as both have them alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadOrder {
    /// What turns together is half a head apart (`transformers`).
    Halves,
    /// What turns together lies side by side (llama.cpp, as Meta has it).
    Pairs,
}

/// The position from which a Llama's names count, and how its heads are ordered.
fn at_model(w: &Weights) -> (Weights, HeadOrder) {
    let keys = LlamaKeys::of(&w.keys()).unwrap_or_default();
    if keys.is_llama_cpp {
        let translated = w.translated(move |name| keys.file_key(name));
        return (translated, HeadOrder::Pairs);
    }
    (encoder_home::behind(&keys.prefix, w), HeadOrder::Halves)
}

pub struct LlamaEncoder {
    embed_tokens: StoredMatrix,
    layers: Vec<Layer>,
    /// Of a whole one.
    norm: Option<T5Norm>,
    config: LlamaConfig,
    kind: Kind,
}

impl LlamaEncoder {
    /// Reads all layers and the norm behind them, for records of what nobody else asks for.
    pub fn whole(config: &LlamaConfig, w: &Weights) -> Result<Self, WeightsError> {
        let encoder = Self::new(config, config.num_hidden_layers, w)?;
        let (w, _) = at_model(w);
        let norm = T5Norm::new(config.hidden_size, config.rms_norm_eps, &(&w / "norm"))?;
        Ok(Self {
            norm: Some(norm),
            ..encoder
        })
    }

    /// Reads the first `num_layers` of a Llama, from a file that may hold other components too. `config` has been
    /// read, or is as sound.
    pub fn new(config: &LlamaConfig, num_layers: i64, w: &Weights) -> Result<Self, WeightsError> {
        let (w, order) = &at_model(w);
        let embed_tokens = w.table(
            "embed_tokens.weight",
            [config.vocab_size, config.hidden_size],
        )?;
        let layers = (0..num_layers.min(config.num_hidden_layers))
            .map(|i| Layer::new(config, *order, &(w / "layers" / i)))
            .collect::<Result<_, _>>()?;
        for i in num_layers..config.num_hidden_layers {
            for name in LAYER {
                w.ignore(&format!("layers.{i}.{name}.weight"));
            }
        }
        for name in ["norm.weight", "lm_head.weight"] {
            w.ignore(name);
        }
        Ok(Self {
            embed_tokens,
            layers,
            norm: None,
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// The keys of a file that a Llama should not have; what stands before its names belongs to it alone, so that
    /// the picture's part of a LLaVA does not count.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let keys = LlamaKeys::of(&weights.keys()).unwrap_or_default();
        encoder_home::left_over(&keys.prefix, weights, &["lm_head."])
    }

    /// `ids`: `(B, L)` integers, `mask`: the same, 0 for what nobody may attend to -> the hidden states behind the
    /// layers that were read, without the final norm, `(B, L, C)`; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        self.forward_each(ids, mask, hooks, &mut |_, _| {})
    }

    /// The same, with what each layer gives to `each`: counted from 0 at the table, and of a whole one the last behind
    /// the norm.
    pub fn forward_each(
        &self,
        ids: &Tensor,
        mask: &Tensor,
        hooks: &dyn Hooks,
        each: &mut dyn FnMut(usize, &Tensor),
    ) -> Option<Tensor> {
        let device = self.embed_tokens.device();
        let mut xs = self.embed_tokens.look_up(&ids.to_device(device), self.kind);
        let (_, length) = ids.size2().expect("ids have two dimensions");
        let hidden = hidden_pairs(&mask.to_device(device), xs.kind());
        let turns = Turns::new(length, &self.config, device);
        for (number, layer) in self.layers.iter().enumerate() {
            each(number, &xs);
            hooks.go_on(Site::Text)?;
            xs = layer.forward(&xs, &hidden, &turns);
        }
        if let Some(norm) = &self.norm {
            xs = norm.forward(&xs);
        }
        each(self.layers.len(), &xs);
        Some(xs)
    }
}

/// What is added to the scores: nothing looks ahead, and nothing looks at padding.
///
/// `mask`: `(B, L)` -> `(B, 1, L, L)`
fn hidden_pairs(mask: &Tensor, kind: Kind) -> Tensor {
    let (_, length) = mask.size2().expect("a mask has two dimensions");
    let device = mask.device();
    let ahead = Tensor::ones([length, length], (Kind::Bool, device)).triu(1);
    let padding = mask.eq(0).unsqueeze(1).unsqueeze(1);
    let hidden = ahead.logical_or(&padding);
    Tensor::zeros(hidden.size(), (kind, device)).masked_fill(&hidden, lowest(kind))
}

/// How far each pair of a head's numbers is turned at each position: `(L, D / 2)` in f32.
struct Turns {
    cos: Tensor,
    sin: Tensor,
}

impl Turns {
    fn new(length: i64, config: &LlamaConfig, device: Device) -> Self {
        // In f32 throughout, as the reference has it: the angles of far tokens show the difference.
        let f32s = (Kind::Float, Device::Cpu);
        let dim = config.head_dim();
        let exponents = Tensor::arange_start_step(0, dim, 2, f32s) / dim as f64;
        let freqs = Tensor::pow_scalar(config.rope_theta(), &exponents).reciprocal();
        let angles = Tensor::arange(length, f32s).outer(&freqs);
        Self {
            cos: angles.cos().to_device(device),
            sin: angles.sin().to_device(device),
        }
    }

    /// `xs`: `(B, heads, L, D)` -> the same, as halves
    fn turn(&self, xs: &Tensor, order: HeadOrder) -> Tensor {
        let wide = xs.to_kind(Kind::Float);
        let (a, b) = match order {
            HeadOrder::Halves => {
                let half = wide.size()[3] / 2;
                (wide.narrow(3, 0, half), wide.narrow(3, half, half))
            }
            HeadOrder::Pairs => (wide.slice(3, 0, None, 2), wide.slice(3, 1, None, 2)),
        };
        let turned = [
            &a * &self.cos - &b * &self.sin,
            &b * &self.cos + &a * &self.sin,
        ];
        Tensor::cat(&turned, 3).to_kind(xs.kind())
    }
}

struct Layer {
    input_layernorm: T5Norm,
    self_attn: SelfAttention,
    post_attention_layernorm: T5Norm,
    mlp: GatedFeedForward,
}

impl Layer {
    fn new(config: &LlamaConfig, order: HeadOrder, w: &Weights) -> Result<Self, WeightsError> {
        // It computes the same as T5's.
        let norm = |name| T5Norm::new(config.hidden_size, config.rms_norm_eps, &(w / name));
        Ok(Self {
            input_layernorm: norm("input_layernorm")?,
            self_attn: SelfAttention::new(config, order, &(w / "self_attn"))?,
            post_attention_layernorm: norm("post_attention_layernorm")?,
            mlp: GatedFeedForward::new(config, &(w / "mlp"))?,
        })
    }

    /// `xs`: `(B, L, C)`, `hidden`: `(B, 1, L, L)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, hidden: &Tensor, turns: &Turns) -> Tensor {
        let normal = self.input_layernorm.forward(xs);
        let xs = xs + self.self_attn.forward(&normal, hidden, turns);
        let normal = self.post_attention_layernorm.forward(&xs);
        xs + self.mlp.forward(&normal)
    }
}

struct SelfAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    head_dim: i64,
    order: HeadOrder,
}

impl SelfAttention {
    fn new(config: &LlamaConfig, order: HeadOrder, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, head_dim) = (config.hidden_size, config.head_dim());
        let inner = config.num_attention_heads * head_dim;
        let shared = config.num_key_value_heads() * head_dim;
        Ok(Self {
            q_proj: Linear::without_bias(dim, inner, &(w / "q_proj"))?,
            k_proj: Linear::without_bias(dim, shared, &(w / "k_proj"))?,
            v_proj: Linear::without_bias(dim, shared, &(w / "v_proj"))?,
            o_proj: Linear::without_bias(inner, dim, &(w / "o_proj"))?,
            head_dim,
            order,
        })
    }

    /// `xs`: `(B, L, C)`, `hidden`: `(B, 1, L, L)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, hidden: &Tensor, turns: &Turns) -> Tensor {
        let heads = |linear: &Linear| {
            split_heads(&linear.forward(xs), linear.out_features() / self.head_dim)
        };
        let q = turns.turn(&heads(&self.q_proj), self.order);
        let k = turns.turn(&heads(&self.k_proj), self.order);
        let v = heads(&self.v_proj);
        let sharing = q.size()[1] / k.size()[1];
        // b g l d -> b (g sharing) l d
        let repeated = |xs: &Tensor| {
            let shared = xs.unsqueeze(2).expand([-1, -1, sharing, -1, -1], false);
            shared.flatten(1, 2)
        };
        let attended = attention(&q, &repeated(&k), &repeated(&v), Some(hidden), None);
        self.o_proj.forward(&join_heads(&attended))
    }
}

struct GatedFeedForward {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl GatedFeedForward {
    fn new(config: &LlamaConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        Ok(Self {
            gate_proj: Linear::without_bias(dim, inner, &(w / "gate_proj"))?,
            up_proj: Linear::without_bias(dim, inner, &(w / "up_proj"))?,
            down_proj: Linear::without_bias(inner, dim, &(w / "down_proj"))?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let gated = silu(self.gate_proj.forward(xs)) * self.up_proj.forward(xs);
        self.down_proj.forward(&gated)
    }
}

/// What HunyuanVideo and FramePack read of a prompt, of hidden states `(1, L, C)` or a mask `(1, L)` -> its own 256
/// tokens, padding among them
pub fn of_hunyuan_prompt(xs: &Tensor) -> Tensor {
    let before = HunyuanPrompt::TOKENS_BEFORE as i64;
    xs.narrow(1, before, xs.size()[1] - before)
}
