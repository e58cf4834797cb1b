//! CLIP's text transformer, in the names of `transformers` behind whatever stands before them.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, matrix, not_a, prefix_before};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

const TOKENS: &str = "embeddings.token_embedding.weight";
const FIRST_LAYER: &str = "encoder.layers.0.mlp.fc1.weight";
/// Width of one head in every published CLIP.
const HEAD_DIM: u64 = 64;
/// The `eos_token_id` of old configs, by which readers know that a text ends at its largest id.
const EOS_AT_LARGEST: u64 = 2;

/// What stands before the names of a file's text transformer, `text_model.` too; `None` where there is none.
pub(in crate::catalog) fn prefix(weights: &WeightSet) -> Option<&str> {
    let keys = weights.tensors.keys().map(String::as_str);
    let prefix = prefix_before(keys, &[TOKENS])?;
    weights
        .has(&format!("{prefix}{FIRST_LAYER}"))
        .then_some(prefix)
}

/// `text_encoder/config.json`, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ClipTextConfig {
    pub model_type: String,
    pub vocab_size: u64,
    pub hidden_size: u64,
    pub intermediate_size: u64,
    pub num_hidden_layers: u64,
    pub num_attention_heads: u64,
    pub max_position_embeddings: u64,
}

impl Default for ClipTextConfig {
    fn default() -> Self {
        Self {
            model_type: String::new(),
            vocab_size: 49408,
            hidden_size: 512,
            intermediate_size: 2048,
            num_hidden_layers: 12,
            num_attention_heads: 8,
            max_position_embeddings: 77,
        }
    }
}

impl ClipTextConfig {
    /// The config of a component's folder or file.
    pub fn read(family: Family, component: Component, place: &Path) -> Result<Self, CatalogError> {
        // The config of a whole CLIP has that of its text transformer inside.
        let (cfg, path): (Self, _) = read_component(family, component, place, Some("text_config"))?;
        check_numbers(
            &[
                ("vocab_size", cfg.vocab_size),
                ("hidden_size", cfg.hidden_size),
                ("intermediate_size", cfg.intermediate_size),
                ("num_hidden_layers", cfg.num_hidden_layers),
                ("num_attention_heads", cfg.num_attention_heads),
                ("max_position_embeddings", cfg.max_position_embeddings),
            ],
            &path,
        )?;
        let is_clip = cfg.model_type.is_empty() || cfg.model_type.starts_with("clip");
        let reason = if !is_clip {
            format!(
                "expected the model_type clip_text_model, found {}",
                cfg.model_type
            )
        } else if cfg.hidden_size % cfg.num_attention_heads != 0 {
            "expected heads of one width, found a hidden_size that num_attention_heads does not divide"
                .to_owned()
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }
}

/// The config that the shapes in a file show; the rest is as in CLIP-L.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let prefix = prefix(weights).ok_or_else(|| not_a("CLIP text encoder", weights))?;
    let size = |name: &str| matrix(weights, &format!("{prefix}{name}"));
    let [vocab_size, hidden_size] = size(TOKENS)?;
    let [places, _] = size("embeddings.position_embedding.weight")?;
    let [intermediate_size, _] = size(FIRST_LAYER)?;
    if hidden_size % HEAD_DIM != 0 {
        return Err(format!(
            "expected a width that is a multiple of {HEAD_DIM}, as no config.json says how wide a head is, found {hidden_size}"
        ));
    }
    let layers = count(weights, |n| {
        format!("{prefix}encoder.layers.{n}.mlp.fc1.weight")
    });
    Ok(json!({
        "architectures": ["CLIPTextModel"],
        "model_type": "clip_text_model",
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden_size / HEAD_DIM,
        "max_position_embeddings": places,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "eos_token_id": EOS_AT_LARGEST,
    }))
}

/// Every tensor that is read, behind the names' prefix.
pub(in crate::catalog) fn tensors(cfg: &ClipTextConfig) -> Vec<(String, Vec<u64>)> {
    let hidden = cfg.hidden_size;
    let mut tensors = vec![
        (TOKENS.to_owned(), vec![cfg.vocab_size, hidden]),
        (
            "embeddings.position_embedding.weight".to_owned(),
            vec![cfg.max_position_embeddings, hidden],
        ),
    ];
    let mut add = |name: String, shape: Vec<u64>| {
        tensors.push((format!("{name}.bias"), vec![shape[0]]));
        tensors.push((format!("{name}.weight"), shape));
    };
    for layer in 0..cfg.num_hidden_layers {
        let layer = format!("encoder.layers.{layer}");
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            add(format!("{layer}.self_attn.{part}"), vec![hidden, hidden]);
        }
        add(
            format!("{layer}.mlp.fc1"),
            vec![cfg.intermediate_size, hidden],
        );
        add(
            format!("{layer}.mlp.fc2"),
            vec![hidden, cfg.intermediate_size],
        );
        add(format!("{layer}.layer_norm1"), vec![hidden]);
        add(format!("{layer}.layer_norm2"), vec![hidden]);
    }
    add("final_layer_norm".to_owned(), vec![hidden]);
    tensors
}

/// Checks that all of a text transformer is there, in the shapes that its config says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &ClipTextConfig,
) -> Result<(), CatalogError> {
    let prefix = prefix(weights).unwrap_or("text_model.");
    for (name, shape) in tensors(cfg) {
        weights.expect(&format!("{prefix}{name}"), &shape)?;
    }
    let next = format!("{prefix}encoder.layers.{}.", cfg.num_hidden_layers);
    weights.no_more_layers(&next, cfg.num_hidden_layers)
}
