//! Language models as prompt encoders: hidden states of selected layers for every token.
//!
//! Fields have the names of `transformers`; `core` defines the key names, the hidden states that are read, and the
//! differences between Llama 3, Mistral Small 3, Gemma 3, Qwen 2.5 and Qwen 3. Layers after the last state that is read are neither loaded nor
//! computed; nothing is generated, so there is no KV cache.
//! After <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/llama/modeling_llama.py>
//! and <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/qwen3/modeling_qwen3.py>.
//!
//! Shapes: `B` prompts, `L` tokens, `C` width, `H` heads of `D`, `G` heads of keys and values.

use safelight_core::networks::{LanguageConfig, LanguageKeys, LanguageKind, LanguageTap};
use tch::{Device, Kind, Tensor};

use crate::encoder_prefix;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{
    Linear, Rope, RopePairing, SwiGlu, T5Norm, angles_at, join_heads, lowest, rms_norm,
    shared_attention,
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
    /// Added to the image tokens after each of the first layers (DeepStack): each `(n, C)`
    pub deepstack: &'a [Tensor],
}

pub struct LanguageEncoder {
    embed_tokens: StoredMatrix,
    layers: Vec<LanguageLayer>,
    /// Final norm, if the state after it is read.
    norm: Option<LanguageNorm>,
    config: LanguageConfig,
    kind: Kind,
}

impl LanguageEncoder {
    /// Loads all layers and the final norm, for captures of states that no family reads.
    pub fn whole(config: &LanguageConfig, w: &Weights) -> Result<Self, WeightsError> {
        // It has all layers, and its last state is the one before the norm.
        if config.tap == LanguageTap::BeforeLast(0) {
            return Self::new(config, w);
        }
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
        let norm = || LanguageNorm::new(config, &(w / "norm"));
        let norm = config.tap.has_norm().then(norm).transpose()?;
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
        self.forward_seeing(ids, mask, None, None, hooks, each)
    }

    /// Like [`Self::forward`], for one text with images in it. `places`: order, row and column of every token, `(3, L)` in
    /// f32, where they do not just count.
    pub fn forward_seeing(
        &self,
        ids: &Tensor,
        mask: &Tensor,
        places: Option<&Tensor>,
        seen: Option<&SeenImages<'_>>,
        hooks: &dyn Hooks,
        each: &mut dyn FnMut(usize, &Tensor),
    ) -> Option<(Tensor, Tensor)> {
        let device = self.embed_tokens.device();
        let ids = ids.to_device(device);
        let mut xs = self.embed_tokens.look_up(&ids, self.kind);
        let is_gemma = self.config.kind() == LanguageKind::Gemma3;
        if is_gemma {
            // Rounded as the embeddings are.
            let factor = Tensor::from((self.config.hidden_size as f32).sqrt());
            xs *= factor.to_kind(self.kind).to_device(device);
        }
        let (_, length) = ids.size2().expect("ids have two dimensions");
        let hidden = HiddenTokens::new(mask, device, xs.kind());
        let local_rope = is_gemma.then(|| local_turns(length, &self.config, device));
        let placed = |xs: &Tensor, are: &Tensor, tokens: &Tensor| {
            // l -> 1 l 1
            let are = are.to_device(device).view([1, -1, 1]);
            xs.masked_scatter(&are, &tokens.to_device(device).to_kind(self.kind))
        };
        if let Some(seen) = seen {
            xs = placed(&xs, seen.are, seen.tokens);
        }
        let rope = match places {
            None => turns(length, &self.config, device),
            Some(places) => turns_in_space(places, &self.config, device),
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
            let local_rope = local_rope.as_ref();
            let is_local = (number + 1) % LAYERS_PER_GLOBAL != 0;
            let rope = local_rope.filter(|_| is_local).unwrap_or(&rope);
            xs = layer.forward(&xs, &hidden, rope);
            if let Some(seen) = seen
                && let Some(more) = seen.deepstack.get(number)
            {
                xs += placed(&xs.zeros_like(), seen.are, more);
            }
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

/// One of six layers of Gemma sees all tokens before it; the others see the last 1024, which are all of a prompt.
const LAYERS_PER_GLOBAL: usize = 6;
/// Divisor of the positions in global layers.
const GLOBAL_DIVISOR: f64 = 8.0;
/// Base of the frequencies in local layers.
const LOCAL_THETA: f64 = 10_000.0;

/// RoPE table of Gemma's local layers.
fn local_turns(length: i64, config: &LanguageConfig, device: Device) -> Rope {
    let places = Tensor::arange(length, (Kind::Float, Device::Cpu));
    Rope::new(&angles_at(&places, config.head_dim(), LOCAL_THETA), device)
}

fn turns(length: i64, config: &LanguageConfig, device: Device) -> Rope {
    // In f32 throughout, as the reference has it: the angles of far tokens show the difference.
    let mut places = Tensor::arange(length, (Kind::Float, Device::Cpu));
    if config.kind() == LanguageKind::Gemma3 {
        places /= GLOBAL_DIVISOR;
    }
    let angles = angles_at(&places, config.head_dim(), config.rope_theta());
    Rope::new(&angles, device)
}

/// RoPE table with three position axes, `places`: `(3, L)` in f32, each for a section of a head's pairs (M-RoPE). In Qwen 3
/// the pairs of rows and columns alternate with those of the order.
fn turns_in_space(places: &Tensor, config: &LanguageConfig, device: Device) -> Rope {
    if config.kind() == LanguageKind::Qwen3 {
        let of = |axis| angles_at(&places.get(axis), config.head_dim(), config.rope_theta());
        let angles = of(0);
        for (axis, count) in (0..).zip(config.sections()).skip(1) {
            let pairs = |angles: &Tensor| angles.slice(1, axis, 3 * count, 3);
            pairs(&angles).copy_(&pairs(&of(axis)));
        }
        return Rope::new(&angles, device);
    }
    let mut start = 0;
    let axes = (0..).zip(config.sections()).map(|(axis, count)| {
        let angles = angles_at(&places.get(axis), config.head_dim(), config.rope_theta());
        start += count;
        angles.narrow(1, start - count, count)
    });
    Rope::new(&Tensor::cat(&axes.collect::<Vec<_>>(), 1), device)
}

/// Root mean square of a token.
enum LanguageNorm {
    Rounded(T5Norm),
    /// Weights stored as offsets from 1: their factors, `(C)` in f32, and epsilon
    Offset(Tensor, f64),
}

impl LanguageNorm {
    fn new(config: &LanguageConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, eps) = (config.hidden_size, config.rms_norm_eps);
        if config.kind().has_norms_around() {
            return Ok(Self::Offset(offset_weight(dim, "weight", w)?, eps));
        }
        // It computes the same as T5's.
        T5Norm::new(dim, eps, w).map(Self::Rounded)
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        match self {
            Self::Rounded(norm) => norm.forward(xs),
            Self::Offset(weight, eps) => rms_norm(xs, weight, *eps),
        }
    }
}

/// Factors of weights that are stored as offsets from 1: `(dim)` in f32
fn offset_weight(dim: i64, name: &str, w: &Weights) -> Result<Tensor, WeightsError> {
    Ok(w.with_kind(Kind::Float).tensor(name, &[dim])? + 1.0)
}

struct LanguageLayer {
    input_layernorm: LanguageNorm,
    self_attn: LanguageAttention,
    /// Before the feed-forward part, or in Gemma only after attention.
    post_attention_layernorm: LanguageNorm,
    /// Gemma's norms before and after the feed-forward part.
    feedforward_layernorms: Option<[LanguageNorm; 2]>,
    mlp: SwiGlu,
}

impl LanguageLayer {
    fn new(config: &LanguageConfig, pairs: RopePairing, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, inner) = (config.hidden_size, config.intermediate_size);
        let norm = |name| LanguageNorm::new(config, &(w / name));
        let around = || {
            Ok::<_, WeightsError>([
                norm("pre_feedforward_layernorm")?,
                norm("post_feedforward_layernorm")?,
            ])
        };
        let has_around = config.kind().has_norms_around();
        let names = ["gate_proj", "up_proj", "down_proj"];
        Ok(Self {
            input_layernorm: norm("input_layernorm")?,
            self_attn: LanguageAttention::new(config, pairs, &(w / "self_attn"))?,
            post_attention_layernorm: norm("post_attention_layernorm")?,
            feedforward_layernorms: has_around.then(around).transpose()?,
            mlp: SwiGlu::new(names, dim, inner, &(w / "mlp"))?,
        })
    }

    /// `xs`: `(B, L, C)` -> `(B, L, C)`
    fn forward(&self, xs: &Tensor, hidden: &HiddenTokens, rope: &Rope) -> Tensor {
        let normal = self.input_layernorm.forward(xs);
        let attended = self.self_attn.forward(&normal, hidden, rope);
        if let Some([before, after]) = &self.feedforward_layernorms {
            let xs = xs + self.post_attention_layernorm.forward(&attended);
            let ys = self.mlp.forward_gelu(&before.forward(&xs));
            return xs + after.forward(&ys);
        }
        let xs = xs + attended;
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
        let norm = |name| {
            if kind.has_norms_around() {
                offset_weight(head_dim, name, w)
            } else {
                w.tensor(name, &[head_dim])
            }
        };
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
