//! The numbers of a Flux transformer: from diffusers' config, or from the shapes in a file that has none.
//!
//! What shapes cannot say, the size of a head and the axes of positions, is as published then.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::FluxTransformerKeys;
use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{matrix, not_a};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

/// Width of one head in every published Flux transformer.
const HEAD_DIM: u64 = 128;
/// How many numbers of a head turn with each of a token's places there.
const AXES: [u64; 3] = [16, 56, 56];

/// `transformer/config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct FluxTransformerConfig {
    pub patch_size: u64,
    /// Of a token: noise, and in models that fill, picture and mask beside it.
    pub in_channels: u64,
    pub out_channels: Option<u64>,
    /// Double blocks.
    pub num_layers: u64,
    pub num_single_layers: u64,
    pub attention_head_dim: u64,
    pub num_attention_heads: u64,
    pub joint_attention_dim: u64,
    pub pooled_projection_dim: u64,
    pub guidance_embeds: bool,
    pub axes_dims_rope: Vec<u64>,
    pub quantization_config: Option<Value>,
}

impl Default for FluxTransformerConfig {
    fn default() -> Self {
        Self {
            patch_size: 1,
            in_channels: 64,
            out_channels: None,
            num_layers: 19,
            num_single_layers: 38,
            attention_head_dim: HEAD_DIM,
            num_attention_heads: 24,
            joint_attention_dim: 4096,
            pooled_projection_dim: 768,
            guidance_embeds: false,
            axes_dims_rope: AXES.to_vec(),
            quantization_config: None,
        }
    }
}

impl FluxTransformerConfig {
    /// The config of a component's folder or file.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) =
            read_component(Family::Flux, Component::Transformer, place, None)?;
        if cfg.quantization_config.is_some() {
            return Err(CatalogError::Unsupported {
                what: "a quantised Flux model".to_owned(),
                path: place.to_owned(),
            });
        }
        check_numbers(
            &[
                ("in_channels", cfg.in_channels),
                ("out_channels", cfg.out_channels()),
                ("num_layers", cfg.num_layers),
                ("num_single_layers", cfg.num_single_layers),
                ("attention_head_dim", cfg.attention_head_dim),
                ("num_attention_heads", cfg.num_attention_heads),
                ("joint_attention_dim", cfg.joint_attention_dim),
                ("pooled_projection_dim", cfg.pooled_projection_dim),
            ],
            &path,
        )?;
        let axes = &cfg.axes_dims_rope;
        let fills_head = axes.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n))
            == Some(cfg.attention_head_dim);
        let reason = if cfg.patch_size != 1 {
            format!("expected a patch_size of 1, found {}", cfg.patch_size)
        } else if axes.len() != 3 || axes.iter().any(|n| n % 2 != 0) || !fills_head {
            format!(
                "expected axes_dims_rope of three even numbers that are {} together, found {axes:?}",
                cfg.attention_head_dim
            )
        } else if cfg.out_channels() > cfg.in_channels || cfg.out_channels() % 4 != 0 {
            format!(
                "expected out_channels of at most {} that are a multiple of 4, found {}",
                cfg.in_channels,
                cfg.out_channels()
            )
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> u64 {
        self.num_attention_heads * self.attention_head_dim
    }

    pub fn out_channels(&self) -> u64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Channels of latents, of which a token has two by two.
    pub fn latent_channels(&self) -> u64 {
        self.out_channels() / 4
    }
}

/// `transformer/config.json`.
pub(super) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = FluxTransformerKeys::detect(|key| weights.has(key))
        .ok_or_else(|| not_a("Flux transformer", weights))?;
    let size = |name: &str| matrix(weights, &keys.file_key(name));
    let [dim, in_channels] = size("img_in.weight")?;
    let [out_channels, _] = size("final_layer.linear.weight")?;
    let [_, joint_attention_dim] = size("txt_in.weight")?;
    let [_, pooled_projection_dim] = size("vector_in.in_layer.weight")?;
    if dim % HEAD_DIM != 0 {
        return Err(format!(
            "expected a width that is a multiple of {HEAD_DIM}, as no config.json says how wide a head is, found {dim}"
        ));
    }
    let (double, single) = keys.count_blocks(weights.tensors.keys().map(String::as_str));
    Ok(json!({
        "_class_name": "FluxTransformer2DModel",
        "patch_size": 1,
        "in_channels": in_channels,
        "out_channels": out_channels,
        "num_layers": double,
        "num_single_layers": single,
        "attention_head_dim": HEAD_DIM,
        "num_attention_heads": dim / HEAD_DIM,
        "joint_attention_dim": joint_attention_dim,
        "pooled_projection_dim": pooled_projection_dim,
        "guidance_embeds": weights.has(&keys.file_key("guidance_in.in_layer.weight")),
        "axes_dims_rope": AXES,
    }))
}
