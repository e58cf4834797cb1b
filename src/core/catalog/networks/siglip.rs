//! SigLIP's vision tower, in the names of `transformers` behind whatever stands before them.
//!
//! Its pooling head is not read: every token is.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, matrix, not_a, prefix_before, shape_of};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

const PATCHES: &str = "embeddings.patch_embedding.weight";
const PLACES: &str = "embeddings.position_embedding.weight";
/// Width of one head of the shape-optimised tower with 400 million parameters.
const HEAD_DIM: u64 = 72;
/// The edge of pictures whose patches of 14 pixels are 27 along each side: the rest is cut off.
const PUBLISHED: (u64, u64, u64) = (14, 27, 384);

/// What stands before the names of a file's tower; `None` where there is none, and in CLIP, which has a class token.
pub(in crate::catalog) fn prefix(weights: &WeightSet) -> Option<&str> {
    let keys = weights.tensors.keys().map(String::as_str);
    let prefix = prefix_before(keys, &[PATCHES])?;
    let has = |name: &str| weights.has(&format!("{prefix}{name}"));
    let is_clip = has("embeddings.class_embedding") || has("pre_layrnorm.weight");
    (has("embeddings.patch_embedding.bias") && !is_clip).then_some(prefix)
}

/// `image_encoder/config.json`, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct SiglipConfig {
    pub model_type: String,
    pub hidden_size: u64,
    pub intermediate_size: u64,
    pub num_hidden_layers: u64,
    pub num_attention_heads: u64,
    pub num_channels: u64,
    pub image_size: u64,
    pub patch_size: u64,
}

impl Default for SiglipConfig {
    fn default() -> Self {
        Self {
            model_type: String::new(),
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 224,
            patch_size: 16,
        }
    }
}

impl SiglipConfig {
    /// The config of a component's folder or file. That of a whole SigLIP has its tower's inside.
    pub fn read(family: Family, place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) = read_component(
            family,
            Component::ImageEncoder,
            place,
            Some("vision_config"),
        )?;
        check_numbers(
            &[
                ("hidden_size", cfg.hidden_size),
                ("intermediate_size", cfg.intermediate_size),
                ("num_hidden_layers", cfg.num_hidden_layers),
                ("num_attention_heads", cfg.num_attention_heads),
                ("num_channels", cfg.num_channels),
                ("image_size", cfg.image_size),
                ("patch_size", cfg.patch_size),
            ],
            &path,
        )?;
        let is_siglip = cfg.model_type.is_empty() || cfg.model_type.starts_with("siglip");
        let reason = if !is_siglip {
            format!(
                "expected the model_type siglip_vision_model, found {}",
                cfg.model_type
            )
        } else if cfg.hidden_size % cfg.num_attention_heads != 0 {
            "expected heads of one width, found a hidden_size that num_attention_heads does not divide"
                .to_owned()
        } else if cfg.patch_size > cfg.image_size {
            "expected a patch_size within the image_size, found a larger one".to_owned()
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }

    /// Tokens of one picture: its patches.
    pub fn num_tokens(&self) -> u64 {
        let grid = self.image_size / self.patch_size;
        grid * grid
    }
}

/// The config that the shapes in a file show; the rest is as in so400m.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let prefix = prefix(weights).ok_or_else(|| not_a("SigLIP image encoder", weights))?;
    let key = |name: &str| format!("{prefix}{name}");
    let patches = shape_of(weights, &key(PATCHES), 4)?;
    let [places, hidden_size] = matrix(weights, &key(PLACES))?;
    let [intermediate_size, _] = matrix(weights, &key("encoder.layers.0.mlp.fc1.weight"))?;
    let grid = places.isqrt();
    if hidden_size % HEAD_DIM != 0 || grid * grid != places {
        return Err(format!(
            "expected a square of patches and a width that is a multiple of {HEAD_DIM}, as no config.json says more, found {places} and {hidden_size}"
        ));
    }
    let (patch, published_grid, published_edge) = PUBLISHED;
    let image_size = if (patches[3], grid) == (patch, published_grid) {
        published_edge
    } else {
        grid * patches[3]
    };
    let layers = count(weights, |n| {
        key(&format!("encoder.layers.{n}.mlp.fc1.weight"))
    });
    Ok(json!({
        "architectures": ["SiglipVisionModel"],
        "model_type": "siglip_vision_model",
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden_size / HEAD_DIM,
        "num_channels": patches[1],
        "image_size": image_size,
        "patch_size": patches[3],
        "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6,
    }))
}

/// Every tensor that is read, behind the names' prefix.
pub(in crate::catalog) fn tensors(cfg: &SiglipConfig) -> Vec<(String, Vec<u64>)> {
    let (hidden, inner) = (cfg.hidden_size, cfg.intermediate_size);
    let (patch, channels) = (cfg.patch_size, cfg.num_channels);
    let mut tensors = vec![(PLACES.to_owned(), vec![cfg.num_tokens(), hidden])];
    let mut add = |name: &str, shape: &[u64]| {
        tensors.push((format!("{name}.bias"), vec![shape[0]]));
        tensors.push((format!("{name}.weight"), shape.to_vec()));
    };
    add(
        "embeddings.patch_embedding",
        &[hidden, channels, patch, patch],
    );
    for layer in 0..cfg.num_hidden_layers {
        let name = |part: &str| format!("encoder.layers.{layer}.{part}");
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            add(&name(&format!("self_attn.{part}")), &[hidden, hidden]);
        }
        add(&name("mlp.fc1"), &[inner, hidden]);
        add(&name("mlp.fc2"), &[hidden, inner]);
        add(&name("layer_norm1"), &[hidden]);
        add(&name("layer_norm2"), &[hidden]);
    }
    add("post_layernorm", &[hidden]);
    tensors
}

/// Checks that all of a tower is there, in the shapes that its config says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &SiglipConfig,
) -> Result<(), CatalogError> {
    let prefix = prefix(weights).unwrap_or("vision_model.");
    for (name, shape) in tensors(cfg) {
        weights.expect(&format!("{prefix}{name}"), &shape)?;
    }
    let next = format!("{prefix}encoder.layers.{}.", cfg.num_hidden_layers);
    weights.no_more_layers(&next, cfg.num_hidden_layers)
}
