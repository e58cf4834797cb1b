//! Llama 3 as a text encoder: that of LLaVA in HunyuanVideo and FramePack.
//!
//! Speaks in the names of `transformers`; [`LlamaKeys`] says what a file calls the same tensors. The last layers, the
//! last norm and the head are not read, as the hidden states before them are. Llamas of other generations are refused.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{Renaming, count, not_a, prefix_before, sizes};
use super::known::{KindRule, PartKind};
use super::{
    NetworkConfig, Role, Schema, TensorSpec, check_epsilon, check_layers, check_sizes, model_type,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

const TOKENS: &str = "embed_tokens.weight";
/// By which a file is known: the table alone could be any model's.
const FIRST_NORM: &str = "layers.0.input_layernorm.weight";
/// By which its files are known, those of llama.cpp too.
pub(super) const KINDS: &[KindRule] = &[
    llama(&[TOKENS, FIRST_NORM]),
    llama(&["token_embd.weight", "blk.0.attn_norm.weight"]),
];

const fn llama(ends: &'static [&'static str]) -> KindRule {
    KindRule::new("llama", "text_encoder", "a Llama text encoder", ends).of(PartKind::Llama)
}
/// Behind these layers the hidden states are no longer read.
const LAYERS_SKIPPED: i64 = 2;

/// Width of one head in every Llama 3 that a picture or video model reads.
const HEAD_DIM: i64 = 128;
/// Of every Llama 3; files without a config do not say it.
const ROPE_THETA: f64 = 500_000.0;
const RMS_NORM_EPS: f64 = 1e-5;

/// `text_encoder/config.json`, with the defaults of `transformers`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LlamaConfig {
    #[serde(default)]
    pub model_type: String,
    pub vocab_size: i64,
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    /// As many as there are heads where it is not said.
    #[serde(default)]
    pub num_key_value_heads: Option<i64>,
    /// The heads' share of the width where it is not said.
    #[serde(default)]
    pub head_dim: Option<i64>,
    #[serde(default = "default_epsilon")]
    pub rms_norm_eps: f64,
    #[serde(default = "silu")]
    pub hidden_act: String,
    #[serde(default)]
    pub attention_bias: bool,
    #[serde(default)]
    pub mlp_bias: bool,
    #[serde(default)]
    pub rope_theta: Option<f64>,
    /// Where new configs have the base, and how positions are scaled.
    #[serde(default)]
    pub rope_parameters: Option<RopeParameters>,
    /// The same in old configs.
    #[serde(default)]
    pub rope_scaling: Option<RopeParameters>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RopeParameters {
    pub rope_theta: Option<f64>,
    #[serde(alias = "type")]
    pub rope_type: Option<String>,
}

pub(super) fn default_epsilon() -> f64 {
    1e-6
}

fn silu() -> String {
    "silu".to_owned()
}

impl NetworkConfig for LlamaConfig {
    const PART: Option<&'static str> = Some("text_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config)
            .is_some_and(|name| name.starts_with("llama") || name.starts_with("llava"))
    }

    /// What shapes do not show is as in Llama 3.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys =
            LlamaKeys::of(&weights.names()).ok_or_else(|| not_a("Llama text encoder", weights))?;
        let key = |name: &str| keys.file_key(name);
        let [vocab_size, hidden_size] = sizes(weights, &key(TOKENS))?;
        let [queries, _] = sizes(weights, &key("layers.0.self_attn.q_proj.weight"))?;
        let [values, _] = sizes(weights, &key("layers.0.self_attn.k_proj.weight"))?;
        let wide = |layer| format!("layers.{layer}.mlp.up_proj.weight");
        let [intermediate_size, _] = sizes(weights, &key(&wide(0)))?;
        let [heads, shared] =
            heads_in_notes(weights).unwrap_or([queries / HEAD_DIM, values / HEAD_DIM]);
        let is_split = |rows: i64, heads: i64| heads > 0 && rows % heads == 0;
        if !is_split(queries, heads)
            || !is_split(values, shared)
            || queries / heads != values / shared
        {
            return Err(format!(
                "expected heads of {HEAD_DIM}, as no config.json says how wide a head is, found {queries} query rows and {values} key rows"
            ));
        }
        Ok(Self {
            model_type: "llama".to_owned(),
            vocab_size,
            hidden_size,
            intermediate_size,
            num_hidden_layers: count(weights, |layer| key(&wide(layer))),
            num_attention_heads: heads,
            num_key_value_heads: Some(shared),
            head_dim: Some(queries / heads),
            rms_norm_eps: RMS_NORM_EPS,
            hidden_act: silu(),
            attention_bias: false,
            mlp_bias: false,
            rope_theta: Some(ROPE_THETA),
            rope_parameters: None,
            rope_scaling: None,
        })
    }

    fn check(&self) -> Result<(), String> {
        if !(self.model_type.is_empty() || self.model_type == "llama") {
            return Err(format!(
                "expected the model_type llama, found {}",
                self.model_type
            ));
        }
        check_sizes(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads()),
            ("head_dim", self.head_dim()),
        ])?;
        check_layers(&[("num_hidden_layers", self.num_hidden_layers)])?;
        check_epsilon("rms_norm_eps", self.rms_norm_eps)?;
        let (heads, shared) = (self.num_attention_heads, self.num_key_value_heads());
        let (head_dim, theta) = (self.head_dim(), self.rope_theta());
        let scaling = [&self.rope_parameters, &self.rope_scaling].into_iter();
        let mut scaling = scaling.flatten().filter_map(|rope| rope.rope_type.as_ref());
        Err(if self.num_hidden_layers <= LAYERS_SKIPPED {
            format!(
                "expected more than {LAYERS_SKIPPED} num_hidden_layers, as the last {LAYERS_SKIPPED} are not read, found {}",
                self.num_hidden_layers
            )
        } else if heads % shared != 0 {
            format!(
                "expected num_attention_heads that num_key_value_heads divides, found {heads} and {shared}"
            )
        } else if head_dim % 2 != 0 {
            format!("expected an even head_dim, found {head_dim}")
        } else if !(theta.is_finite() && theta >= 1.0) {
            format!("expected a rope_theta of at least 1, found {theta}")
        } else if let Some(kind) = scaling.find(|kind| *kind != "default") {
            format!(
                "expected the positions of Llama 3, found scaled ones ({kind}), as Llama 3.1 and later have them"
            )
        } else if self.attention_bias || self.mlp_bias {
            "expected layers without biases, as in every Llama 3, found attention_bias or mlp_bias"
                .to_owned()
        } else if self.hidden_act != "silu" {
            format!("expected the hidden_act silu, found {}", self.hidden_act)
        } else {
            return Ok(());
        })
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(&LlamaKeys::of(&weights.names()).unwrap_or_default())
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = LlamaKeys::of(&weights.names()).unwrap_or_default();
        let next = format!("layers.{}.mlp.up_proj.weight", self.num_hidden_layers);
        weights.no_more_layers(&keys.file_key(&next), self.num_hidden_layers)
    }
}

impl LlamaConfig {
    /// The published Llama 3 of 8 billion numbers, with LLaVA's words.
    pub(crate) fn llama3() -> Self {
        Self {
            model_type: "llama".to_owned(),
            vocab_size: 128_320,
            hidden_size: 4096,
            intermediate_size: 14_336,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: Some(8),
            head_dim: None,
            rms_norm_eps: 1e-5,
            hidden_act: silu(),
            attention_bias: false,
            mlp_bias: false,
            rope_theta: Some(500_000.0),
            rope_parameters: None,
            rope_scaling: None,
        }
    }

    /// Heads of keys and values; several heads of queries share one.
    pub fn num_key_value_heads(&self) -> i64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    pub fn head_dim(&self) -> i64 {
        self.head_dim
            .unwrap_or_else(|| self.hidden_size / self.num_attention_heads.max(1))
    }

    /// The base of the positions' frequencies.
    pub fn rope_theta(&self) -> f64 {
        let new = self.rope_parameters.as_ref();
        new.and_then(|new| new.rope_theta)
            .or(self.rope_theta)
            .unwrap_or(10_000.0)
    }

    /// Layers up to the hidden states that HunyuanVideo and FramePack read.
    pub fn num_read_layers(&self) -> i64 {
        (self.num_hidden_layers - LAYERS_SKIPPED).max(0)
    }

    pub fn schema(&self, keys: &LlamaKeys) -> Vec<TensorSpec> {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let queries = self.num_attention_heads * self.head_dim();
        let values = self.num_key_value_heads() * self.head_dim();
        let mut schema = Schema::default();
        schema.add(TOKENS, &[self.vocab_size, hidden], Role::Table);
        for layer in 0..self.num_read_layers() {
            let name = |part: &str| format!("layers.{layer}.{part}");
            schema.vector(&name("input_layernorm.weight"), hidden);
            schema.matrix(&name("self_attn.q_proj"), queries, hidden);
            schema.matrix(&name("self_attn.k_proj"), values, hidden);
            schema.matrix(&name("self_attn.v_proj"), values, hidden);
            schema.matrix(&name("self_attn.o_proj"), hidden, queries);
            schema.vector(&name("post_attention_layernorm.weight"), hidden);
            schema.matrix(&name("mlp.gate_proj"), inner, hidden);
            schema.matrix(&name("mlp.up_proj"), inner, hidden);
            schema.matrix(&name("mlp.down_proj"), hidden, inner);
        }
        schema.renamed(|name| keys.file_key(name))
    }
}

/// Heads of queries, and of keys and values, as a GGUF file says it.
fn heads_in_notes(weights: &WeightSet) -> Option<[i64; 2]> {
    let model = weights.notes.get("general.architecture")?;
    let number = |name: &str| {
        let note = weights.notes.get(&format!("{model}.attention.{name}"))?;
        note.parse::<i64>().ok()
    };
    let heads = number("head_count").filter(|_| weights.is_gguf)?;
    Some([heads, number("head_count_kv").unwrap_or(heads)])
}

/// How one file names the tensors of a Llama.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LlamaKeys {
    pub prefix: String,
    /// The names of GGUF files, which also order the numbers of heads in another way; those of `transformers` otherwise.
    pub is_llama_cpp: bool,
}

impl LlamaKeys {
    /// `None` where no file key is that of a Llama.
    pub fn of<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        if let Some(prefix) = prefix_before(keys.clone(), &[FIRST_NORM]) {
            return Some(Self {
                prefix: prefix.to_owned(),
                is_llama_cpp: false,
            });
        }
        let llama_cpp = Self {
            prefix: String::new(),
            is_llama_cpp: true,
        };
        let has = |name: &str| {
            let name = llama_cpp.file_key(name);
            keys.clone().any(|key| key == name)
        };
        // Other models have the first alone.
        (has(FIRST_NORM) && has(TOKENS)).then_some(llama_cpp)
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub fn file_key(&self, name: &str) -> String {
        if self.is_llama_cpp {
            LLAMA_CPP.apply(name)
        } else {
            format!("{}{name}", self.prefix)
        }
    }
}

/// `layers.3.mlp.down_proj.weight` -> `blk.3.ffn_down.weight`
const LLAMA_CPP: Renaming = Renaming {
    outside: &[
        ("embed_tokens.", "token_embd."),
        ("norm.", "output_norm."),
        ("lm_head.", "output."),
    ],
    list: ("layers", "blk"),
    inside: &[
        ("input_layernorm.", "attn_norm."),
        ("self_attn.q_proj.", "attn_q."),
        ("self_attn.k_proj.", "attn_k."),
        ("self_attn.v_proj.", "attn_v."),
        ("self_attn.o_proj.", "attn_output."),
        ("post_attention_layernorm.", "ffn_norm."),
        ("mlp.gate_proj.", "ffn_gate."),
        ("mlp.up_proj.", "ffn_up."),
        ("mlp.down_proj.", "ffn_down."),
    ],
};
