//! The encoder of T5 1.1, and of UMT5, which has a table of relative positions in every block.
//!
//! In the names of `transformers`; what a file calls them its family says.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::with_start_replaced;
use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, matrix, not_a, prefix_before};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

/// The table of relative positions, which every such encoder has in its first block.
const POSITIONS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

/// Which blocks have a table of relative positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catalog) enum Tables {
    /// Every block its own (UMT5).
    Each,
    /// The first, and all use it (T5).
    First,
}

/// How one file names the tensors of a T5 encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::catalog) struct T5Keys {
    /// What comes before every name of `transformers`.
    prefix: String,
    /// The names of GGUF files; those of `transformers` otherwise.
    is_llama_cpp: bool,
}

impl T5Keys {
    /// `None` where there is no T5, and in a UMT5.
    pub(in crate::catalog) fn of(weights: &WeightSet) -> Option<Self> {
        let names = weights.tensors.keys().map(String::as_str);
        let prefix = prefix_before(names, &[POSITIONS]);
        let is_llama_cpp = prefix.is_none();
        let keys = Self {
            prefix: prefix.unwrap_or_default().to_owned(),
            is_llama_cpp,
        };
        let has_table = |block: &str| {
            let name = POSITIONS.replace("block.0", block);
            weights.has(&keys.file_key(&name))
        };
        (has_table("block.0") && !has_table("block.1")).then_some(keys)
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub(in crate::catalog) fn file_key(&self, name: &str) -> String {
        if self.is_llama_cpp {
            llama_cpp_from_t5(name)
        } else {
            format!("{}{name}", self.prefix)
        }
    }
}

/// `encoder.block.3.layer.1.DenseReluDense.wo.weight` -> `enc.blk.3.ffn_down.weight`: the names that GGUF files of
/// T5 and UMT5 have.
pub fn llama_cpp_from_t5(key: &str) -> String {
    let whole = [
        ("shared.", "token_embd."),
        ("encoder.embed_tokens.", "token_embd."),
        ("encoder.final_layer_norm.", "enc.output_norm."),
    ];
    if let Some(renamed) = with_start_replaced(key, &whole) {
        return renamed;
    }
    let parts = [
        ("layer.0.layer_norm.", "attn_norm."),
        ("layer.1.layer_norm.", "ffn_norm."),
        (
            "layer.0.SelfAttention.relative_attention_bias.",
            "attn_rel_b.",
        ),
        ("layer.0.SelfAttention.", "attn_"),
        ("layer.1.DenseReluDense.wi_0.", "ffn_gate."),
        ("layer.1.DenseReluDense.wi_1.", "ffn_up."),
        ("layer.1.DenseReluDense.wo.", "ffn_down."),
    ];
    key.strip_prefix("encoder.block.")
        .and_then(|rest| rest.split_once('.'))
        .and_then(|(number, rest)| {
            let rest = with_start_replaced(rest, &parts)?;
            Some(format!("enc.blk.{number}.{rest}"))
        })
        .unwrap_or_else(|| key.to_owned())
}

/// `text_encoder/config.json` of a UMT5, `text_encoder_2/config.json` of a T5.
#[derive(Clone, Debug, Deserialize)]
pub struct T5Config {
    #[serde(default)]
    pub model_type: String,
    pub d_model: u64,
    pub d_kv: u64,
    pub d_ff: u64,
    pub num_layers: u64,
    pub num_heads: u64,
    pub vocab_size: u64,
    #[serde(default = "default_buckets")]
    pub relative_attention_num_buckets: u64,
    #[serde(default)]
    pub feed_forward_proj: String,
    #[serde(default)]
    pub quantization_config: Option<Value>,
}

fn default_buckets() -> u64 {
    32
}

impl T5Config {
    /// The config of a component's folder or file.
    pub fn read(family: Family, component: Component, place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) = read_component(family, component, place, None)?;
        let buckets = cfg.relative_attention_num_buckets;
        check_numbers(
            &[
                ("d_model", cfg.d_model),
                ("d_kv", cfg.d_kv),
                ("d_ff", cfg.d_ff),
                ("num_layers", cfg.num_layers),
                ("num_heads", cfg.num_heads),
                ("vocab_size", cfg.vocab_size),
                ("relative_attention_num_buckets", buckets),
            ],
            &path,
        )?;
        Ok(cfg)
    }

    /// What is wrong with the config of a `model_type`, if anything is. What is left out is what all have.
    pub(in crate::catalog) fn objection(&self, model_type: &str) -> Option<String> {
        for (name, expected, found) in [
            ("model_type", model_type, &self.model_type),
            ("feed_forward_proj", "gated-gelu", &self.feed_forward_proj),
        ] {
            if !found.is_empty() && found != expected {
                return Some(format!("expected the {name} {expected}, found {found}"));
            }
        }
        None
    }
}

/// The config of a T5 that the shapes in a file show.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = T5Keys::of(weights).ok_or_else(|| not_a("T5 text encoder", weights))?;
    config_of_shapes(weights, "t5", |name| keys.file_key(name))
}

/// As [`config_of_header`], where `file_key` says what the file calls a tensor.
pub(in crate::catalog) fn config_of_shapes(
    weights: &WeightSet,
    model_type: &str,
    file_key: impl Fn(&str) -> String,
) -> Result<Value, String> {
    let size = |name: &str| matrix(weights, &file_key(name));
    let [vocab_size, d_model] =
        size("shared.weight").or_else(|_| size("encoder.embed_tokens.weight"))?;
    let [inner, _] = size("encoder.block.0.layer.0.SelfAttention.q.weight")?;
    let [buckets, heads] = size(POSITIONS)?;
    if inner % heads != 0 {
        return Err(format!(
            "expected queries for {heads} heads of one width, found {inner} rows"
        ));
    }
    let [d_ff, _] = size("encoder.block.0.layer.1.DenseReluDense.wi_0.weight")?;
    let layers = count(weights, |n| {
        file_key(&format!("encoder.block.{n}.layer.0.SelfAttention.q.weight"))
    });
    Ok(json!({
        "model_type": model_type,
        "vocab_size": vocab_size,
        "d_model": d_model,
        "d_kv": inner / heads,
        "d_ff": d_ff,
        "num_layers": layers,
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "gated-gelu",
    }))
}

/// Every tensor that is read but the tokens', which have two names.
pub(in crate::catalog) fn tensors(cfg: &T5Config, tables: Tables) -> Vec<(String, Vec<u64>)> {
    let inner = cfg.num_heads * cfg.d_kv;
    let mut tensors = vec![(
        "encoder.final_layer_norm.weight".to_owned(),
        vec![cfg.d_model],
    )];
    for layer in 0..cfg.num_layers {
        let block = format!("encoder.block.{layer}.layer");
        if layer == 0 || tables == Tables::Each {
            tensors.push((
                format!("{block}.0.SelfAttention.relative_attention_bias.weight"),
                vec![cfg.relative_attention_num_buckets, cfg.num_heads],
            ));
        }
        for (name, shape) in [
            ("0.layer_norm", vec![cfg.d_model]),
            ("0.SelfAttention.q", vec![inner, cfg.d_model]),
            ("0.SelfAttention.k", vec![inner, cfg.d_model]),
            ("0.SelfAttention.v", vec![inner, cfg.d_model]),
            ("0.SelfAttention.o", vec![cfg.d_model, inner]),
            ("1.layer_norm", vec![cfg.d_model]),
            ("1.DenseReluDense.wi_0", vec![cfg.d_ff, cfg.d_model]),
            ("1.DenseReluDense.wi_1", vec![cfg.d_ff, cfg.d_model]),
            ("1.DenseReluDense.wo", vec![cfg.d_model, cfg.d_ff]),
        ] {
            tensors.push((format!("{block}.{name}.weight"), shape));
        }
    }
    tensors
}

/// Checks that all of an encoder is there, in the shapes that its config says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &T5Config,
    tables: Tables,
    file_key: impl Fn(&str) -> String,
) -> Result<(), CatalogError> {
    // Both names hold the same tensor; which of them a file keeps depends on who wrote it.
    let tokens = ["shared.weight", "encoder.embed_tokens.weight"]
        .map(&file_key)
        .into_iter()
        .find(|key| weights.has(key))
        .unwrap_or_else(|| file_key("shared.weight"));
    weights.expect(&tokens, &[cfg.vocab_size, cfg.d_model])?;
    for (name, shape) in tensors(cfg, tables) {
        weights.expect(&file_key(&name), &shape)?;
    }
    // The part of a block is only there for the translation.
    let next = format!("encoder.block.{}.layer.0.layer_norm.", cfg.num_layers);
    weights.no_more_layers(&file_key(&next), cfg.num_layers)
}
