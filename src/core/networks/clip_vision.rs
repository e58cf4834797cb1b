//! CLIP's vision transformer (ViT-H/14): the image encoder of Wan 2.1.
//!
//! Speaks in the names of `transformers` behind whatever stands before them. Has no projection.

use super::header::{not_a, prefix_before, sizes};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clip_layers::{ClipActivation, ClipLayers, check_pictures, heads, sizes_of_layers};
use super::{NetworkConfig, Role, Schema, TensorSpec, model_type};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// By which a vision tower is known; SigLIP has it too.
pub(super) const PATCHES: &str = "embeddings.patch_embedding.weight";
pub(super) const POSITIONS: &str = "embeddings.position_embedding.weight";
/// What stands before the names where nothing says otherwise.
pub const USUAL_PREFIX: &str = "vision_model.";
/// Width of one head in CLIP ViT-H.
const HEAD_DIM: i64 = 80;

/// `image_encoder/config.json`; what it leaves out is as in the published ViT-H/14.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ClipVisionConfig {
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

impl Default for ClipVisionConfig {
    fn default() -> Self {
        Self {
            model_type: String::new(),
            hidden_size: 1280,
            intermediate_size: 5120,
            num_hidden_layers: 32,
            num_attention_heads: 16,
            num_channels: 3,
            image_size: 224,
            patch_size: 14,
            layer_norm_eps: 1e-5,
            hidden_act: ClipActivation::Gelu,
        }
    }
}

impl NetworkConfig for ClipVisionConfig {
    const PART: Option<&'static str> = Some("vision_config");

    fn is_described_by(config: &Value) -> bool {
        model_type(config).is_some_and(|name| name.starts_with("clip"))
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix(weights.names()).ok_or_else(|| not_a("CLIP image encoder", weights))?;
        let [hidden_size, num_channels, patch_size, _] =
            sizes(weights, &format!("{prefix}{PATCHES}"))?;
        let [positions, _] = sizes(weights, &format!("{prefix}{POSITIONS}"))?;
        let [intermediate_size, num_hidden_layers] = sizes_of_layers(weights, prefix)?;
        // One position is the class token's.
        let grid = (positions - 1).isqrt();
        if grid * grid + 1 != positions {
            return Err(format!(
                "expected a square of patches and one class token, found {positions} positions"
            ));
        }
        Ok(Self {
            hidden_size,
            intermediate_size,
            num_hidden_layers,
            num_attention_heads: heads(hidden_size, HEAD_DIM)?,
            num_channels,
            image_size: grid.saturating_mul(patch_size),
            patch_size,
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        if !(self.model_type.is_empty() || self.model_type.starts_with("clip")) {
            return Err(format!(
                "expected the model_type clip_vision_model, found {}",
                self.model_type
            ));
        }
        check_pictures(self.num_channels, self.image_size, self.patch_size)?;
        self.layers().check()?;
        if self.num_hidden_layers < 2 {
            return Err(
                "expected at least 2 num_hidden_layers, as the last but one is read, found 1"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl ClipVisionConfig {
    /// Tokens of one picture: its patches and the class token.
    pub fn num_tokens(&self) -> i64 {
        (self.image_size / self.patch_size).pow(2) + 1
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

    /// Every tensor that is asked for. Nothing of the last layer and the last norm is read, but a file without them is
    /// cut off. Image encoders are small and computed in f32 as a whole.
    pub fn schema(&self, prefix: &str) -> Vec<TensorSpec> {
        let (hidden, patch) = (self.hidden_size, self.patch_size);
        let mut schema = Schema::default();
        schema.in_f32(|schema| {
            schema.vector("embeddings.class_embedding", hidden);
            let kernel = [hidden, self.num_channels, patch, patch];
            schema.add(PATCHES, &kernel, Role::Fixed);
            schema.add(POSITIONS, &[self.num_tokens(), hidden], Role::Fixed);
            // The name has been misspelt since the first CLIP.
            schema.norm("pre_layrnorm", hidden);
            self.layers().add_to(schema);
            schema.norm("post_layernorm", hidden);
        });
        schema.renamed(|name| format!("{prefix}{name}"))
    }

    /// Checks that all of a vision transformer is there, in the shapes that the config says, and no more layers than it
    /// says.
    pub(crate) fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = prefix(weights.names()).unwrap_or(USUAL_PREFIX);
        weights.expect_all(&self.schema(prefix))?;
        self.layers().check_last(weights, prefix)
    }
}

/// What stands before the names of a file's vision transformer, `vision_model.` too; `None` where there is none.
pub fn prefix<'a>(keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    prefix_before(keys, &[PATCHES])
}
