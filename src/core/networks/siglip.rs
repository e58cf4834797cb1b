//! SigLIP's vision transformer (so400m, 384 pixels, patches of 14): the image encoder of FramePack.
//!
//! Speaks in the names of `transformers` behind whatever stands before them. Its pooling head is not read: every patch
//! is.

use super::header::{not_a, sizes};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clip_layers::{ClipActivation, ClipLayers, check_pictures, heads, sizes_of_layers};
use super::clip_vision::{self, PATCHES, POSITIONS, USUAL_PREFIX};
use super::{NetworkConfig, Role, Schema, TensorSpec, model_type};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// Width of one head of the shape-optimised network with 400 million parameters.
const HEAD_DIM: i64 = 72;

/// `image_encoder/config.json`; what it leaves out is as in the published so400m of 384 pixels.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SiglipConfig {
    pub model_type: String,
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub num_channels: i64,
    pub image_size: i64,
    pub patch_size: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: ClipActivation,
}

impl Default for SiglipConfig {
    fn default() -> Self {
        Self {
            model_type: String::new(),
            hidden_size: 1152,
            intermediate_size: 4304,
            num_hidden_layers: 27,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 384,
            patch_size: 14,
            layer_norm_eps: 1e-6,
            hidden_act: ClipActivation::GeluTanh,
        }
    }
}

impl NetworkConfig for SiglipConfig {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| name.starts_with("siglip"))
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix =
            prefix(&weights.names()).ok_or_else(|| not_a("SigLIP image encoder", weights))?;
        let [hidden_size, num_channels, patch_size, _] =
            sizes(weights, &format!("{prefix}{PATCHES}"))?;
        let [positions, _] = sizes(weights, &format!("{prefix}{POSITIONS}"))?;
        let [intermediate_size, num_hidden_layers] = sizes_of_layers(weights, prefix)?;
        let grid = positions.isqrt();
        if grid * grid != positions {
            return Err(format!(
                "expected a square of patches, found {positions} positions"
            ));
        }
        let published = Self::default();
        // Some pixels at the edges of published pictures are in no patch.
        let is_published =
            (positions, patch_size) == (published.num_tokens(), published.patch_size);
        let image_size = if is_published {
            published.image_size
        } else {
            grid.saturating_mul(patch_size)
        };
        Ok(Self {
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads: heads(hidden_size, HEAD_DIM)?,
            num_channels,
            image_size,
            patch_size,
            ..published
        })
    }

    fn check(&self) -> Result<(), String> {
        if !(self.model_type.is_empty() || self.model_type.starts_with("siglip")) {
            return Err(format!(
                "expected the model_type siglip_vision_model, found {}",
                self.model_type
            ));
        }
        check_pictures(self.num_channels, self.image_size, self.patch_size)?;
        self.layers().check()
    }
}

impl SiglipConfig {
    /// Tokens of one picture: its patches.
    pub fn num_tokens(&self) -> i64 {
        (self.image_size / self.patch_size).pow(2)
    }

    pub fn layers(&self) -> ClipLayers {
        ClipLayers {
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            layer_norm_eps: self.layer_norm_eps,
            hidden_act: self.hidden_act,
        }
    }

    /// Every tensor that is read. Image encoders are small and computed in f32 as a whole.
    pub fn schema(&self, prefix: &str) -> Vec<TensorSpec> {
        let (hidden, patch) = (self.hidden_size, self.patch_size);
        let mut schema = Schema::default();
        schema.in_f32(|schema| {
            let kernel = [hidden, self.num_channels, patch, patch];
            schema.conv("embeddings.patch_embedding", &kernel);
            schema.add(POSITIONS, &[self.num_tokens(), hidden], Role::Fixed);
            self.layers().add_to(schema);
            schema.norm("post_layernorm", hidden);
        });
        schema.renamed(|name| format!("{prefix}{name}"))
    }

    /// Checks that all of a vision transformer is there, in the shapes that the config says, and no more layers than it
    /// says.
    pub(crate) fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = prefix(&weights.names()).unwrap_or(USUAL_PREFIX);
        weights.expect_all(&self.schema(prefix))?;
        self.layers().check_last(weights, prefix)
    }
}

/// What stands before the names of a file's SigLIP, `vision_model.` too; `None` where there is none, and in CLIP, which
/// has a class token.
pub fn prefix<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
    let prefix = clip_vision::prefix(keys.clone())?;
    let of_clip = ["embeddings.class_embedding", "pre_layrnorm.weight"];
    let of_clip = of_clip.map(|name| format!("{prefix}{name}"));
    let is_clip = keys
        .clone()
        .any(|key| of_clip.iter().any(|name| name == key));
    (!is_clip).then_some(prefix)
}
