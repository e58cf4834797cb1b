//! Llama, as a text encoder: that of LLaVA in HunyuanVideo and FramePack.
//!
//! In the names of `transformers` behind whatever stands before them, or in those of GGUF files. The last norm and
//! the head are not read, since the hidden states before them are.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::with_start_replaced;
use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, matrix, not_a, prefix_before};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

const TOKENS: &str = "embed_tokens.weight";
const FIRST_NORM: &str = "layers.0.input_layernorm.weight";
const GGUF_FIRST_NORM: &str = "blk.0.attn_norm.weight";
/// Width of one head in every Llama 3.
const HEAD_DIM: u64 = 128;

/// How one file names the tensors of a Llama.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::catalog) struct LlamaKeys {
    prefix: String,
    /// The names of GGUF files; those of `transformers` otherwise.
    is_llama_cpp: bool,
}

impl LlamaKeys {
    /// `None` where there is no Llama.
    pub(in crate::catalog) fn of(weights: &WeightSet) -> Option<Self> {
        let keys = weights.tensors.keys().map(String::as_str);
        if let Some(prefix) = prefix_before(keys, &[FIRST_NORM]) {
            return Some(Self {
                prefix: prefix.to_owned(),
                is_llama_cpp: false,
            });
        }
        let is_llama_cpp = weights.has(GGUF_FIRST_NORM) && weights.has("token_embd.weight");
        is_llama_cpp.then(|| Self {
            prefix: String::new(),
            is_llama_cpp,
        })
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub(in crate::catalog) fn file_key(&self, name: &str) -> String {
        if self.is_llama_cpp {
            llama_cpp_from_llama(name)
        } else {
            format!("{}{name}", self.prefix)
        }
    }
}

/// A name of `transformers` as GGUF files have it: `layers.3.mlp.down_proj.weight` -> `blk.3.ffn_down.weight`. What has
/// none stays as it is.
pub fn llama_cpp_from_llama(name: &str) -> String {
    match name {
        TOKENS => return "token_embd.weight".to_owned(),
        "norm.weight" => return "output_norm.weight".to_owned(),
        "lm_head.weight" => return "output.weight".to_owned(),
        _ => {}
    }
    let parts = [
        ("input_layernorm.", "attn_norm."),
        ("self_attn.q_proj.", "attn_q."),
        ("self_attn.k_proj.", "attn_k."),
        ("self_attn.v_proj.", "attn_v."),
        ("self_attn.o_proj.", "attn_output."),
        ("post_attention_layernorm.", "ffn_norm."),
        ("mlp.gate_proj.", "ffn_gate."),
        ("mlp.up_proj.", "ffn_up."),
        ("mlp.down_proj.", "ffn_down."),
    ];
    name.strip_prefix("layers.")
        .and_then(|rest| rest.split_once('.'))
        .and_then(|(number, rest)| {
            let rest = with_start_replaced(rest, &parts)?;
            Some(format!("blk.{number}.{rest}"))
        })
        .unwrap_or_else(|| name.to_owned())
}

/// `text_encoder/config.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct LlamaConfig {
    #[serde(default)]
    pub model_type: String,
    pub vocab_size: u64,
    pub hidden_size: u64,
    pub intermediate_size: u64,
    pub num_hidden_layers: u64,
    pub num_attention_heads: u64,
    #[serde(default)]
    pub num_key_value_heads: Option<u64>,
    #[serde(default)]
    pub head_dim: Option<u64>,
}

impl LlamaConfig {
    /// The config of a component's folder or file. LLaVA's has that of its Llama inside.
    pub fn read(family: Family, component: Component, place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) = read_component(family, component, place, Some("text_config"))?;
        check_numbers(
            &[
                ("vocab_size", cfg.vocab_size),
                ("hidden_size", cfg.hidden_size),
                ("intermediate_size", cfg.intermediate_size),
                ("num_hidden_layers", cfg.num_hidden_layers),
                ("num_attention_heads", cfg.num_attention_heads),
                ("num_key_value_heads", cfg.num_key_value_heads()),
                ("head_dim", cfg.head_dim()),
            ],
            &path,
        )?;
        let is_llama = cfg.model_type.is_empty() || cfg.model_type == "llama";
        let reason = if !is_llama {
            format!("expected the model_type llama, found {}", cfg.model_type)
        } else if cfg.num_hidden_layers < 3 {
            format!(
                "expected at least 3 num_hidden_layers, as the last two are not read, found {}",
                cfg.num_hidden_layers
            )
        } else if cfg.num_attention_heads % cfg.num_key_value_heads() != 0 {
            "expected num_attention_heads that num_key_value_heads divides, found others".to_owned()
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }

    pub fn num_key_value_heads(&self) -> u64 {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    pub fn head_dim(&self) -> u64 {
        self.head_dim
            .unwrap_or_else(|| self.hidden_size / self.num_attention_heads.max(1))
    }
}

/// The config that the shapes in a file show; the rest is as in Llama 3.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = LlamaKeys::of(weights).ok_or_else(|| not_a("Llama text encoder", weights))?;
    let size = |name: &str| matrix(weights, &keys.file_key(name));
    let [vocab_size, hidden_size] = size(TOKENS)?;
    let [queries, _] = size("layers.0.self_attn.q_proj.weight")?;
    let [values, _] = size("layers.0.self_attn.k_proj.weight")?;
    let [intermediate_size, _] = size("layers.0.mlp.up_proj.weight")?;
    if queries % HEAD_DIM != 0 || values % HEAD_DIM != 0 {
        return Err(format!(
            "expected queries and keys of heads of {HEAD_DIM}, as no config.json says how wide a head is, found {queries} and {values} rows"
        ));
    }
    let layers = count(weights, |n| {
        keys.file_key(&format!("layers.{n}.mlp.up_proj.weight"))
    });
    Ok(json!({
        "architectures": ["LlamaModel"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": layers,
        "num_attention_heads": queries / HEAD_DIM,
        "num_key_value_heads": values / HEAD_DIM,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "hidden_act": "silu",
    }))
}

/// Every tensor that is read, in the names of `transformers`: of all layers but the last two.
pub(in crate::catalog) fn tensors(cfg: &LlamaConfig) -> Vec<(String, Vec<u64>)> {
    let (hidden, inner) = (cfg.hidden_size, cfg.intermediate_size);
    let queries = cfg.num_attention_heads * cfg.head_dim();
    let values = cfg.num_key_value_heads() * cfg.head_dim();
    let mut tensors = vec![(TOKENS.to_owned(), vec![cfg.vocab_size, hidden])];
    for layer in 0..cfg.num_hidden_layers - 2 {
        let mut add = |name: &str, shape: &[u64]| {
            tensors.push((format!("layers.{layer}.{name}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[hidden]);
        add("self_attn.q_proj", &[queries, hidden]);
        add("self_attn.k_proj", &[values, hidden]);
        add("self_attn.v_proj", &[values, hidden]);
        add("self_attn.o_proj", &[hidden, queries]);
        add("post_attention_layernorm", &[hidden]);
        add("mlp.gate_proj", &[inner, hidden]);
        add("mlp.up_proj", &[inner, hidden]);
        add("mlp.down_proj", &[hidden, inner]);
    }
    tensors
}

/// Checks that all that is read is there, in the shapes that the config says, and no more layers than it says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &LlamaConfig,
) -> Result<(), CatalogError> {
    let Some(keys) = LlamaKeys::of(weights) else {
        return weights.expect(TOKENS, &[cfg.vocab_size, cfg.hidden_size]);
    };
    for (name, shape) in tensors(cfg) {
        weights.expect(&keys.file_key(&name), &shape)?;
    }
    let last = keys.file_key(&format!(
        "layers.{}.mlp.up_proj.weight",
        cfg.num_hidden_layers
    ));
    weights.no_more_layers(&last, cfg.num_hidden_layers)
}
