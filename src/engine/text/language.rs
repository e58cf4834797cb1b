//! Language models as prompt encoders: hidden states of selected layers for every token.
//!
//! Fields have the names of `transformers`; `core` defines the key names, the hidden states that are read, and the
//! differences between Llama 3, Mistral Small 3, Qwen 2.5 and Qwen 3. Layers after the last state that is read are neither loaded nor
//! computed; nothing is generated, so there is no KV cache.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/llama/modeling_llama.py>
//! and <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/qwen3/modeling_qwen3.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`, `G` heads of keys and values.

use safelight_core::networks::{LanguageConfig, LanguageKeys, LanguageTap};
use tch::{Device, Kind, Tensor};

use crate::encoder_prefix;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{
    Linear, Rope, RopePairing, SwiGlu, T5Norm, angles_at, join_heads, lowest, shared_attention,
};
use crate::weights::{StoredMatrix, Weights, WeightsError};

/// The position from which a model's names count, and what turns together in its heads: numbers half a head apart
/// (`transformers`), or side by side (llama.cpp's Llama, as Meta has it). Scores are the same as long as queries and keys
/// have them alike.
fn at_model(w: &Weights) -> (Weights, RopePairing) {
    let keys = LanguageKeys::of(&w.keys()).unwrap_or_default();
    let pairs = if keys.has_paired_heads() {
        RopePairing::Neighbours
    } else {
        RopePairing::Halves
    };
    if keys.is_llama_cpp {
        let translated = w.translated(move |name| keys.file_key(name));
        return (translated, pairs);
    }
    (encoder_prefix::behind(&keys.prefix, w), pairs)
}

/// Image embeddings that replace the image tokens of a text, for vision-language models.
pub struct SeenImages<'a> {
    /// Mask of the image tokens: `(L)`, boolean.
    pub are: &'a Tensor,
    /// `(n, C)`, one row for each of them
    pub tokens: &'a Tensor,
    /// Order, row and column of every token of the text: `(3, L)` in f32
    pub places: &'a Tensor,
}

pub struct LanguageEncoder {
    embed_tokens: StoredMatrix,
    layers: Vec<LanguageLayer>,
    /// Final norm, if the state after it is read.
    norm: Option<T5Norm>,
    config: LanguageConfig,
    kind: Kind,
}

impl LanguageEncoder {
    /// Loads all layers and the final norm, for captures of states that no family reads.
    pub fn whole(config: &LanguageConfig, w: &Weights) -> Result<Self, WeightsError> {
        Ok(Self {
            config: config.clone(),
            ..Self::new(&whole(config), w)?
        })
    }

    /// Reads what the config's hidden states need, from a file that may hold other components too. `config` has been
    /// read, or is as sound.
    pub fn new(config: &LanguageConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (w, pairs) = &at_model(w);
        let embed_tokens = w.table(
            "embed_tokens.weight",
            [config.vocab_size, config.hidden_size],
        )?;
        let layers = (0..config.num_read_layers())
            .map(|i| LanguageLayer::new(config, *pairs, &(w / "layers" / i)))
            .collect::<Result<_, _>>()?;
        let has_norm = config.tap == LanguageTap::Last;
        let norm = || T5Norm::new(config.hidden_size, config.rms_norm_eps, &(w / "norm"));
        let norm = has_norm.then(norm).transpose()?;
        w.ignore("lm_head.weight");
        let own = LanguageKeys::default();
        let (read, all) = (config.schema(&own), whole(config).schema(&own));
        for tensor in all.iter().filter(|tensor| !read.contains(tensor)) {
            w.ignore(&tensor.name);
        }
        Ok(Self {
            embed_tokens,
            layers,
            norm,
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// Keys of the file that such a model does not have; anything outside its prefix, such as the vision tower of a
    /// larger model, is ignored.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let keys = LanguageKeys::of(&weights.keys()).unwrap_or_default();
        encoder_prefix::left_over(&keys.prefix, weights, &["lm_head.", "visual."])
    }

    /// `ids`: `(B, L)` integers, `mask`: `(B, L)`, 0 for masked tokens. Returns the hidden states that the config
    /// selects, concatenated, `(B, L, n C)`; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        Some(self.forward_each(ids, mask, hooks, &mut |_, _| {})?.0)
    }

    /// Like [`Self::forward`], also returns the last computed state and passes each layer's output to `each`, counted
    /// from 0 at the embedding; a whole model's last output is taken after the final norm.
    pub fn forward_each(
        &self,
        ids: &Tensor,
        mask: &Tensor,
        hooks: &dyn Hooks,
        each: &mut dyn FnMut(usize, &Tensor),
    ) -> Option<(Tensor, Tensor)> {
        self.forward_seeing(ids, mask, None, hooks, each)
    }

    /// Like [`Self::forward`], for one text with images in it.
    pub fn forward_seeing(
        &self,
        ids: &Tensor,
        mask: &Tensor,
        seen: Option<&SeenImages<'_>>,
        hooks: &dyn Hooks,
        each: &mut dyn FnMut(usize, &Tensor),
    ) -> Option<(Tensor, Tensor)> {
        let device = self.embed_tokens.device();
        let ids = ids.to_device(device);
        let mut xs = self.embed_tokens.look_up(&ids, self.kind);
        let (_, length) = ids.size2().expect("ids have two dimensions");
        let hidden = HiddenTokens::new(mask, device, xs.kind());
        let rope = match seen {
            None => turns(length, &self.config, device),
            Some(seen) => {
                // l -> 1 l 1
                let are = seen.are.to_device(device).view([1, -1, 1]);
                let tokens = seen.tokens.to_device(device).to_kind(self.kind);
                xs = xs.masked_scatter(&are, &tokens);
                turns_in_space(seen.places, &self.config, device)
            }
        };
        let wanted = self.config.tap.states(self.config.num_hidden_layers);
        let mut read = Vec::with_capacity(wanted.len());
        let mut take = |number: usize, xs: &Tensor| {
            each(number, xs);
            if wanted.contains(&(number as i64)) {
                read.push(xs.shallow_clone());
            }
        };
        for (number, layer) in self.layers.iter().enumerate() {
            take(number, &xs);
            hooks.check_cancelled(FaultSite::Text)?;
            xs = layer.forward(&xs, &hidden, &rope);
        }
        if let Some(norm) = &self.norm {
            xs = norm.forward(&xs);
        }
        take(self.layers.len(), &xs);
        let states = match read.as_slice() {
            [only] => only.shallow_clone(),
            several => Tensor::cat(several, -1),
        };
        Some((states, xs))
    }
}

/// Config of the same model with all layers.
fn whole(config: &LanguageConfig) -> LanguageConfig {
    LanguageConfig {
        tap: LanguageTap::Last,
        ..config.clone()
    }
}

/// Tokens that others do not see: those after them, and padding.
struct HiddenTokens {
    /// Additive attention mask: `(B, 1, L, L)`
    pairs: Tensor,
    /// Mask of the tokens that see none, padding before a text: `(B, 1, L, 1)`, boolean.
    blind: Option<Tensor>,
}

impl HiddenTokens {
    /// `mask`: `(B, L)`, 0 for padding
    fn new(mask: &Tensor, device: Device, kind: Kind) -> Self {
        let (_, length) = mask.size2().expect("a mask has two dimensions");
        let ahead = Tensor::ones([length, length], (Kind::Bool, device)).triu(1);
        let padding = mask.to_device(device).eq(0).unsqueeze(1).unsqueeze(1);
        let hidden = ahead.logical_or(&padding);
        let pairs = Tensor::zeros(hidden.size(), (kind, device));
        let blind = mask.cumsum(1, Kind::Int64).eq(0);
        let has_blind = blind.any().int64_value(&[]) != 0;
        // b l -> b 1 l 1
        let blind = has_blind.then(|| blind.to_device(device).unsqueeze(1).unsqueeze(-1));
        Self {
            pairs: pairs.masked_fill(&hidden, lowest(kind)),
            blind,
        }
    }
}

fn turns(length: i64, config: &LanguageConfig, device: Device) -> Rope {
    // In f32 throughout, as the reference has it: the angles of far tokens show the difference.
    let places = Tensor::arange(length, (Kind::Float, Device::Cpu));
    let angles = angles_at(&places, config.head_dim(), config.rope_theta());
    Rope::new(&angles, device)
}

/// RoPE table with three position axes, `places`: `(3, L)` in f32, each for a section of a head's pairs (M-RoPE).
fn turns_in_space(places: &Tensor, config: &LanguageConfig, device: Device) -> Rope {
    let mut start = 0;
    let axes = (0..).zip(config.sections()).map(|(axis, count)| {
        let angles = angles_at(&places.get(axis), config.head_dim(), config.rope_theta());
        start += count;
        angles.narrow(1, start - count, count)
    });
    Rope::new(&Tensor::cat(&axes.collect::<Vec<_>>(), 1), device)
}

struct LanguageLayer {
    input_layernorm: T5Norm,
    self_attn: LanguageAttention,
    post_attention_layernorm: T5Norm,
    mlp: SwiGlu,
}

impl LanguageLayer {
    fn new(config: &LanguageConfig, pairs: RopePairing, w: &Weights) -> Result<Self, WeightsError> {
        // It computes the same as T5's.
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        let norm = |name| T5Norm::new(dim, config.rms_norm_eps, &(w / name));
        let names = ["gate_proj", "up_proj", "down_proj"];
        Ok(Self {
            input_layernorm: norm("input_layernorm")?,
            self_attn: LanguageAttention::new(config, pairs, &(w / "self_attn"))?,
            post_attention_layernorm: norm("post_attention_layernorm")?,
            mlp: SwiGlu::new(names, dim, inner, &(w / "mlp"))?,
        })
    }

    /// `xs`: `(B, L, C)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, hidden: &HiddenTokens, rope: &Rope) -> Tensor {
        let normal = self.input_layernorm.forward(xs);
        let xs = xs + self.self_attn.forward(&normal, hidden, rope);
        let normal = self.post_attention_layernorm.forward(&xs);
        xs + self.mlp.forward(&normal)
    }
}

struct LanguageAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    /// Of queries and keys, `(D)` each, and what keeps from a division by zero.
    norms: Option<([Tensor; 2], f64)>,
    head_dim: i64,
    pairs: RopePairing,
}

impl LanguageAttention {
    fn new(config: &LanguageConfig, pairs: RopePairing, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, head_dim) = (config.hidden_size, config.head_dim());
        let inner = config.num_attention_heads * head_dim;
        let shared = config.num_key_value_heads() * head_dim;
        let kind = config.kind();
        let projection = |rows, name| {
            if kind.has_biases() {
                Linear::new(dim, rows, &(w / name))
            } else {
                Linear::without_bias(dim, rows, &(w / name))
            }
        };
        let norm = |name| w.tensor(name, &[head_dim]);
        let norms = || {
            let weights = [norm("q_norm.weight")?, norm("k_norm.weight")?];
            Ok::<_, WeightsError>((weights, config.rms_norm_eps))
        };
        Ok(Self {
            q_proj: projection(inner, "q_proj")?,
            k_proj: projection(shared, "k_proj")?,
            v_proj: projection(shared, "v_proj")?,
            o_proj: Linear::without_bias(inner, dim, &(w / "o_proj"))?,
            norms: kind.has_head_norms().then(norms).transpose()?,
            head_dim,
            pairs,
        })
    }

    /// `xs`: `(B, L, C)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, hidden: &HiddenTokens, rope: &Rope) -> Tensor {
        // b l (h d) -> b l h d
        let heads = |linear: &Linear| {
            let ys = linear.forward(xs);
            let size = ys.size();
            ys.view([size[0], size[1], -1, self.head_dim])
        };
        let turned = |linear: &Linear, which: usize| {
            let norm = self.norms.as_ref();
            let norm = norm.map(|(weights, eps)| (&weights[which], *eps));
            rope.turn_heads(&heads(linear), norm, self.pairs)
                .transpose(1, 2)
        };
        let (q, k) = (turned(&self.q_proj, 0), turned(&self.k_proj, 1));
        let v = heads(&self.v_proj).transpose(1, 2);
        let mut attended = shared_attention(&q, &k, &v, Some(&hidden.pairs));
        if let Some(blind) = &hidden.blind {
            // As PyTorch's fused attention gives it; the eager one of transformers sees all tokens alike.
            attended = attended.masked_fill(blind, 0.0);
        }
        self.o_proj.forward(&join_heads(&attended))
    }
}
