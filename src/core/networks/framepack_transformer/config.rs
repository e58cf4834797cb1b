//! The numbers of a FramePack transformer: from diffusers' config or the authors' own, which have the same keys, or
//! from the shapes in a file that has none.
//!
//! What shapes cannot say, the axes of positions, is as published then.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::FramePackTransformerKeys;
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;
use crate::networks::header::{not_a, sizes};
use crate::networks::stream_blocks::{
    self, AXES, GUIDANCE, HEAD_DIM, StreamShape, StreamStyle, ToldShape,
};
use crate::networks::{NetworkConfig, TensorSpec, check_layers, check_sizes, class_name};

/// Latents along an edge of a token; in time it is one.
pub const PATCH: i64 = 2;

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct FramePackTransformerConfig {
        pub in_channels: i64 = 16,
        pub out_channels: Option<i64> = Some(16),
        pub num_attention_heads: i64 = 24,
        pub attention_head_dim: i64 = HEAD_DIM,
        /// Double blocks.
        pub num_layers: i64 = 20,
        pub num_single_layers: i64 = 40,
        pub num_refiner_layers: i64 = 2,
        pub mlp_ratio: f64 = 4.0,
        pub patch_size: i64 = 2,
        pub patch_size_t: i64 = 1,
        pub qk_norm: Option<String> = Some(QK_NORM.to_owned()),
        /// Whether guidance is an input of the model.
        pub guidance_embeds: bool = true,
        /// Width of the text's embeddings.
        pub text_embed_dim: i64 = 4096,
        /// Width of the pooled text.
        pub pooled_projection_dim: i64 = 768,
        pub rope_theta: f64 = 256.0,
        /// How many numbers of a head turn with frame, row and column.
        pub rope_axes_dim: [i64; 3] = AXES,
        pub image_condition_type: Option<String> = None,
        // diffusers says no, and every published file has both. Whether they are there the schema says.
        pub has_image_proj: bool = true,
        /// Width of the picture's embeddings.
        pub image_proj_dim: i64 = 1152,
        pub has_clean_x_embedder: bool = true,
        pub quantization_config: Option<Value> = None,
    }
}

/// How queries and keys are normalised in all published files.
const QK_NORM: &str = "rms_norm";

impl NetworkConfig for FramePackTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        matches!(
            class_name(config),
            Some(
                "HunyuanVideoFramepackTransformer3DModel" | "HunyuanVideoTransformer3DModelPacked"
            )
        )
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = FramePackTransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("FramePack transformer", weights))?;
        let size = |name: &str| sizes(weights, &keys.file_key(name));
        let [dim, in_channels, patch_size_t, rows, patch_size] =
            sizes(weights, &keys.file_key("img_in.proj.weight"))?;
        let norm = keys.file_key("double_blocks.0.img_attn.norm.query_norm.scale");
        let [head_dim] = sizes(weights, &norm)?;
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
        let patch = patch_size_t.saturating_mul(rows).saturating_mul(patch_size);
        let blocks = keys.block_names();
        let [refiner, double, single] =
            blocks.map(|list| stream_blocks::count_blocks(weights, &list));
        Ok(Self {
            in_channels,
            out_channels: Some(outputs / patch),
            num_attention_heads: dim / HEAD_DIM,
            num_layers: double,
            num_single_layers: single,
            num_refiner_layers: refiner,
            mlp_ratio: mlp as f64 / dim as f64,
            patch_size,
            patch_size_t,
            guidance_embeds: weights.has(&keys.file_key(GUIDANCE)),
            text_embed_dim,
            pooled_projection_dim,
            image_proj_dim,
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels()),
            ("num_attention_heads", self.num_attention_heads),
            ("attention_head_dim", self.attention_head_dim),
            ("text_embed_dim", self.text_embed_dim),
            ("pooled_projection_dim", self.pooled_projection_dim),
            ("image_proj_dim", self.image_proj_dim),
        ])?;
        check_layers(&[
            ("num_layers", self.num_layers),
            ("num_single_layers", self.num_single_layers),
            ("num_refiner_layers", self.num_refiner_layers),
        ])?;
        self.check_kind()?;
        if !(1.0..=16.0).contains(&self.mlp_ratio) {
            return Err(format!(
                "expected a mlp_ratio between 1 and 16, found {}",
                self.mlp_ratio
            ));
        }
        if !(self.rope_theta > 0.0 && self.rope_theta.is_finite()) {
            return Err(format!(
                "expected a rope_theta above 0, found {}",
                self.rope_theta
            ));
        }
        stream_blocks::check_axes("rope_axes_dim", self.rope_axes_dim, self.attention_head_dim)
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        super::schema(self, FramePackTransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = FramePackTransformerKeys::of(|key| weights.has(key));
        let [double, single] = self.streams().blocks;
        let counts = [self.num_refiner_layers, double, single];
        stream_blocks::check_blocks(weights, &keys.block_names(), &counts)?;
        stream_blocks::check_guidance(weights, self.guidance_embeds, &keys.file_key(GUIDANCE))
    }
}

impl FramePackTransformerConfig {
    fn check_kind(&self) -> Result<(), String> {
        Err(if (self.patch_size, self.patch_size_t) != (PATCH, 1) {
            format!(
                "expected a patch_size of {PATCH} and a patch_size_t of 1, found {} and {}",
                self.patch_size, self.patch_size_t
            )
        } else if self.in_channels != self.out_channels() {
            format!(
                "expected as many in_channels as out_channels, found {} and {}",
                self.in_channels,
                self.out_channels()
            )
        } else if !(self.has_image_proj && self.has_clean_x_embedder) {
            "expected an image_proj and a clean_x_embedder, found a config without".to_owned()
        } else if let Some(kind) = &self.image_condition_type {
            format!("expected no image_condition_type, found {kind}")
        } else if self.qk_norm.as_deref() != Some(QK_NORM) {
            let found = self.qk_norm.as_deref().unwrap_or("none");
            format!("expected the qk_norm {QK_NORM}, found {found}")
        } else {
            return Ok(());
        })
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    pub fn streams(&self) -> StreamShape {
        StreamShape {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            mlp_dim: (self.dim() as f64 * self.mlp_ratio) as i64,
            blocks: [self.num_layers, self.num_single_layers],
            told: Some(self.told()),
            style: StreamStyle::Own,
        }
    }

    pub fn told(&self) -> ToldShape {
        ToldShape {
            pooled: self.pooled_projection_dim,
            guidance_embeds: self.guidance_embeds,
        }
    }

    /// Channels of the latents that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Width inside the feed-forward layers of the text's refiner.
    pub fn refiner_mlp_dim(&self) -> i64 {
        4 * self.dim()
    }

    /// Width inside the projection of the picture's embeddings.
    pub fn image_mlp_dim(&self) -> i64 {
        3 * self.dim()
    }
}
