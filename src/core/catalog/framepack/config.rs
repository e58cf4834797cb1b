//! The numbers of a FramePack transformer: from diffusers' config or the authors' own, which have the same keys, or
//! from the shapes in a file that has none.
//!
//! What shapes cannot say, the axes of positions, is as published then.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::keys::FramePackTransformerKeys;
use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{matrix, not_a, shape_of};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

/// Width of one head in every published transformer, and how many numbers of it turn with each place of a token.
const HEAD_DIM: u64 = 128;
const AXES: [u64; 3] = [16, 56, 56];

/// `transformer/config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct FramePackConfig {
    pub in_channels: u64,
    pub out_channels: u64,
    pub num_attention_heads: u64,
    pub attention_head_dim: u64,
    pub num_layers: u64,
    pub num_single_layers: u64,
    pub num_refiner_layers: u64,
    pub mlp_ratio: f64,
    pub patch_size: u64,
    pub patch_size_t: u64,
    pub guidance_embeds: bool,
    pub text_embed_dim: u64,
    pub pooled_projection_dim: u64,
    pub rope_axes_dim: Vec<u64>,
    pub image_condition_type: Option<String>,
    pub has_image_proj: bool,
    pub image_proj_dim: u64,
    pub has_clean_x_embedder: bool,
    pub quantization_config: Option<Value>,
}

impl Default for FramePackConfig {
    fn default() -> Self {
        Self {
            in_channels: 16,
            out_channels: 16,
            num_attention_heads: 24,
            attention_head_dim: HEAD_DIM,
            num_layers: 20,
            num_single_layers: 40,
            num_refiner_layers: 2,
            mlp_ratio: 4.0,
            patch_size: 2,
            patch_size_t: 1,
            guidance_embeds: true,
            text_embed_dim: 4096,
            pooled_projection_dim: 768,
            rope_axes_dim: AXES.to_vec(),
            image_condition_type: None,
            // diffusers says no, and every published file has both.
            has_image_proj: true,
            image_proj_dim: 1152,
            has_clean_x_embedder: true,
            quantization_config: None,
        }
    }
}

impl FramePackConfig {
    /// The config of a component's folder or file.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) =
            read_component(Family::FramePack, Component::Transformer, place, None)?;
        if cfg.quantization_config.is_some() {
            return Err(CatalogError::Unsupported {
                what: "a quantised FramePack model".to_owned(),
                path: place.to_owned(),
            });
        }
        check_numbers(
            &[
                ("in_channels", cfg.in_channels),
                ("out_channels", cfg.out_channels),
                ("num_attention_heads", cfg.num_attention_heads),
                ("attention_head_dim", cfg.attention_head_dim),
                ("num_layers", cfg.num_layers),
                ("num_single_layers", cfg.num_single_layers),
                ("num_refiner_layers", cfg.num_refiner_layers),
                ("text_embed_dim", cfg.text_embed_dim),
                ("pooled_projection_dim", cfg.pooled_projection_dim),
                ("image_proj_dim", cfg.image_proj_dim),
            ],
            &path,
        )?;
        match cfg.objection() {
            None => Ok(cfg),
            Some(reason) => Err(CatalogError::Config { reason, path }),
        }
    }

    /// What is wrong with it, as a sentence.
    fn objection(&self) -> Option<String> {
        let axes = &self.rope_axes_dim;
        let fills_head = axes.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n))
            == Some(self.attention_head_dim);
        Some(if (self.patch_size, self.patch_size_t) != (2, 1) {
            format!(
                "expected a patch_size of 2 and a patch_size_t of 1, found {} and {}",
                self.patch_size, self.patch_size_t
            )
        } else if axes.len() != 3 || axes.iter().any(|n| n % 2 != 0) || !fills_head {
            format!(
                "expected rope_axes_dim of three even numbers that are {} together, found {axes:?}",
                self.attention_head_dim
            )
        } else if self.in_channels != self.out_channels {
            format!(
                "expected as many in_channels as out_channels, found {} and {}",
                self.in_channels, self.out_channels
            )
        } else if !(self.has_image_proj && self.has_clean_x_embedder) {
            "expected an image_proj and a clean_x_embedder, found a config without".to_owned()
        } else if let Some(kind) = &self.image_condition_type {
            format!("expected no image_condition_type, found {kind}")
        } else if !(self.mlp_ratio >= 1.0 && self.mlp_ratio <= 16.0) {
            format!(
                "expected a mlp_ratio between 1 and 16, found {}",
                self.mlp_ratio
            )
        } else {
            return None;
        })
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> u64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// Width within the feed-forward layers.
    pub fn mlp_dim(&self) -> u64 {
        (self.dim() as f64 * self.mlp_ratio) as u64
    }
}

/// `transformer/config.json`.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = FramePackTransformerKeys::detect(|key| weights.has(key))
        .ok_or_else(|| not_a("FramePack transformer", weights))?;
    let size = |name: &str| matrix(weights, &keys.file_key(name));
    let input = shape_of(weights, &keys.file_key("img_in.proj.weight"), 5)?;
    let (dim, in_channels) = (input[0], input[1]);
    let head_dim = shape_of(
        weights,
        &keys.file_key("double_blocks.0.img_attn.norm.query_norm.scale"),
        1,
    )?[0];
    if head_dim != HEAD_DIM || dim % HEAD_DIM != 0 {
        return Err(format!(
            "expected heads of {HEAD_DIM}, as no config.json says how the places of others turn, found {head_dim} of a width of {dim}"
        ));
    }
    let [outputs, _] = size("final_layer.linear.weight")?;
    let [_, text_embed_dim] = size("txt_in.input_embedder.weight")?;
    let [_, pooled_projection_dim] = size("vector_in.in_layer.weight")?;
    let [_, image_proj_dim] = size("image_projection.up.weight")?;
    let [mlp, _] = size("double_blocks.0.img_mlp.0.weight")?;
    let names: Vec<&str> = weights.tensors.keys().map(String::as_str).collect();
    let blocks = keys.count_blocks(&names);
    Ok(json!({
        "_class_name": "HunyuanVideoFramepackTransformer3DModel",
        "in_channels": in_channels,
        "out_channels": outputs / (input[2] * input[3] * input[4]).max(1),
        "num_attention_heads": dim / HEAD_DIM,
        "attention_head_dim": HEAD_DIM,
        "num_layers": blocks.double,
        "num_single_layers": blocks.single,
        "num_refiner_layers": blocks.refiner,
        "mlp_ratio": mlp as f64 / dim as f64,
        "patch_size": input[3],
        "patch_size_t": input[2],
        "qk_norm": "rms_norm",
        "guidance_embeds": weights.has(&keys.file_key("guidance_in.in_layer.weight")),
        "text_embed_dim": text_embed_dim,
        "pooled_projection_dim": pooled_projection_dim,
        "rope_theta": 256.0,
        "rope_axes_dim": AXES,
        "image_condition_type": null,
        "has_image_proj": true,
        "image_proj_dim": image_proj_dim,
        "has_clean_x_embedder": true,
    }))
}
