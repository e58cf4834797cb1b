//! The numbers of a packed HunyuanVideo transformer: from diffusers' configuration, or from the shapes in a file that
//! has none.
//!
//! What shapes cannot say, the size of a head and the axes of positions, is as published then.

use std::path::Path;

use serde::Deserialize;

use super::keys::TransformerKeys;
use crate::error::EngineError;
use crate::flux::transformer::BlockWidths;
use crate::json;
use crate::weights::Weights;

/// Width of the sinusoids of timestep and guidance.
pub const SINUSOIDS: i64 = 256;

/// Latents along an edge of a token; in time it is one.
pub const PATCH: i64 = 2;

const LARGEST_NUMBER: i64 = 1 << 20;

/// What `transformer/config.json` says, with the defaults of diffusers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct TransformerConfig {
    pub in_channels: i64,
    out_channels: Option<i64>,
    pub num_attention_heads: i64,
    pub attention_head_dim: i64,
    pub num_layers: i64,
    pub num_single_layers: i64,
    pub num_refiner_layers: i64,
    mlp_ratio: f64,
    patch_size: i64,
    patch_size_t: i64,
    qk_norm: Option<String>,
    /// Whether the model is told a guidance.
    pub guidance_embeds: bool,
    /// Width of the text's embeddings.
    pub text_embed_dim: i64,
    /// Width of the pooled text.
    pub pooled_projection_dim: i64,
    pub rope_theta: f64,
    /// How many numbers of a head turn with frame, row and column.
    pub rope_axes_dim: [i64; 3],
    image_condition_type: Option<String>,
    has_image_proj: bool,
    /// Width of the picture's embeddings.
    pub image_proj_dim: i64,
    has_clean_x_embedder: bool,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self {
            in_channels: 16,
            out_channels: Some(16),
            num_attention_heads: 24,
            attention_head_dim: 128,
            num_layers: 20,
            num_single_layers: 40,
            num_refiner_layers: 2,
            mlp_ratio: 4.0,
            patch_size: 2,
            patch_size_t: 1,
            qk_norm: Some("rms_norm".to_owned()),
            guidance_embeds: true,
            text_embed_dim: 4096,
            pooled_projection_dim: 768,
            rope_theta: 256.0,
            rope_axes_dim: [16, 56, 56],
            image_condition_type: None,
            has_image_proj: false,
            image_proj_dim: 1152,
            has_clean_x_embedder: false,
        }
    }
}

impl TransformerConfig {
    /// The published models' own.
    pub fn published() -> Self {
        Self {
            has_image_proj: true,
            has_clean_x_embedder: true,
            ..Self::default()
        }
    }

    /// Reads a folder's `config.json`, or where there is none, the shapes of `w`, which is what lies at `place`.
    pub fn read(place: &Path, w: &Weights) -> Result<Self, EngineError> {
        let path = place.join("config.json");
        if path.is_file() {
            Self::read_json(&path)
        } else {
            Self::of_weights(w)
        }
    }

    /// Reads and checks a `config.json`.
    pub fn read_json(path: &Path) -> Result<Self, EngineError> {
        let config: Self = json::read(path)?;
        config.checked(path)
    }

    /// From names and shapes alone, in any of the dialects of [`TransformerKeys`].
    pub fn of_weights(w: &Weights) -> Result<Self, EngineError> {
        let keys = TransformerKeys::detect(w);
        let named = keys.translate(w);
        let edge = |name: &str, axis: usize| {
            let shape = named.shape_of(name);
            shape
                .and_then(|shape| shape.get(axis).copied())
                .ok_or_else(|| EngineError::Config {
                    reason: format!(
                        "it has no tensor '{}' of a FramePack transformer",
                        keys.file_key(name)
                    ),
                    path: w.path().to_owned(),
                })
        };
        let published = Self::published();
        let dim = edge("img_in.proj.weight", 0)?;
        let head_dim = published.attention_head_dim;
        if dim % head_dim != 0 {
            return Err(EngineError::Config {
                reason: format!(
                    "its width of {dim} is no multiple of {head_dim}, and there is no config.json that says how \
                     large its heads are"
                ),
                path: w.path().to_owned(),
            });
        }
        let blocks = keys.count_blocks(w);
        let config = Self {
            in_channels: edge("img_in.proj.weight", 1)?,
            out_channels: Some(edge("final_layer.linear.weight", 0)? / (PATCH * PATCH)),
            num_attention_heads: dim / head_dim,
            num_layers: blocks.double as i64,
            num_single_layers: blocks.single as i64,
            num_refiner_layers: blocks.refiner as i64,
            guidance_embeds: named.has("guidance_in.in_layer.weight"),
            text_embed_dim: edge("txt_in.input_embedder.weight", 1)?,
            pooled_projection_dim: edge("vector_in.in_layer.weight", 1)?,
            image_proj_dim: edge("image_projection.up.weight", 1)?,
            ..published
        };
        config.checked(w.path())
    }

    fn checked(self, path: &Path) -> Result<Self, EngineError> {
        let sizes = [
            self.in_channels,
            self.out_channels(),
            self.num_layers,
            self.num_single_layers,
            self.num_refiner_layers,
            self.attention_head_dim,
            self.num_attention_heads,
            self.text_embed_dim,
            self.pooled_projection_dim,
            self.image_proj_dim,
        ];
        let are_sound =
            |numbers: &[i64], least| numbers.iter().all(|n| (least..=LARGEST_NUMBER).contains(n));
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let are_sizes_sound = are_sound(&sizes, 1)
            && [self.patch_size, self.patch_size_t] == [PATCH, 1]
            && is_positive(self.mlp_ratio)
            && self.mlp_ratio < 64.0
            && is_positive(self.rope_theta);
        let axes = self.rope_axes_dim;
        let reason = if !(self.has_clean_x_embedder && self.has_image_proj) {
            "it takes no history and no picture: it is HunyuanVideo's, not FramePack's"
        } else if !are_sizes_sound {
            "its sizes make no sense"
        } else if !are_sound(&axes, 0)
            || axes.iter().any(|n| n % 2 != 0)
            || axes.iter().sum::<i64>() != self.attention_head_dim
        {
            "its axes of positions do not fill its heads"
        } else if self.out_channels() != self.in_channels {
            "its channels do not fit together"
        } else if self.qk_norm.as_deref() != Some("rms_norm") || self.image_condition_type.is_some()
        {
            "it is of a kind that no published FramePack model is"
        } else {
            return Ok(self);
        };
        Err(EngineError::Config {
            reason: reason.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// Channels of the latents that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Width inside the feed-forward layers of the text's refiner.
    pub(super) fn refiner_mlp_dim(&self) -> i64 {
        4 * self.dim()
    }

    pub(super) fn widths(&self) -> BlockWidths {
        BlockWidths {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            mlp_dim: (self.dim() as f64 * self.mlp_ratio) as i64,
        }
    }
}
