//! CLIP's text transformer (CLIP-L): the first text encoder of Flux, and the second of FramePack.
//!
//! Names are those of `transformers` after any prefix. Has no projection.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clip_layers::{ClipActivation, ClipLayers, check_model_type, is_of_type};
use super::declared::{DeclaredConfig as _, NamedShapes, network_config};
use super::header::{heads, not_a, prefix_before};
use super::known::{DetectionRule, PartKind};
use super::{NetworkConfig, Schema, TensorRole, TensorSpec};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

const TOKENS: &str = "embeddings.token_embedding.weight";
const POSITIONS: &str = "embeddings.position_embedding.weight";
const FIRST_LAYER: &str = "encoder.layers.0.mlp.fc1.weight";
/// By which its files are known.
pub(super) const KINDS: &[DetectionRule] = &[DetectionRule::new(
    "clip",
    "text_encoder",
    "a CLIP text encoder",
    &[TOKENS, FIRST_LAYER],
)
.of(PartKind::Clip)];
/// Prefix of the names in published files.
pub const USUAL_PREFIX: &str = "text_model.";
/// Width of one head in every published CLIP.
const HEAD_DIM: i64 = 64;
const MODEL_TYPE: &str = "clip_text_model";

network_config! {
    /// `text_encoder/config.json`, with the defaults of `transformers`.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ClipTextConfig {
        pub model_type: String = String::new(),
        pub vocab_size: i64 = 49408 => dim(TOKENS, 0),
        pub hidden_size: i64 = 512 => dim(TOKENS, 1),
        pub intermediate_size: i64 = 2048 => dim(FIRST_LAYER, 0),
        pub num_hidden_layers: i64 = 12 => count("encoder.layers.{}.mlp.fc1.weight"),
        pub num_attention_heads: i64 = 8 => size(),
        pub max_position_embeddings: i64 = 77 => dim(POSITIONS, 0),
        pub layer_norm_eps: f64 = 1e-5,
        pub hidden_act: ClipActivation = ClipActivation::QuickGelu,
        pub eos_token_id: i64 = 49407,
    }
}

impl NetworkConfig for ClipTextConfig {
    const PART: Option<&'static str> = Some("text_config");

    fn is_described_by(config: &Value) -> bool {
        is_of_type(config, MODEL_TYPE)
    }

    /// Numbers that shapes do not show are those of CLIP-L.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix(&weights.names()).ok_or_else(|| not_a("CLIP text encoder", weights))?;
        let file_key = |name: &str| format!("{prefix}{name}");
        let found = Self::of_declared(&NamedShapes::new(weights, &file_key))?;
        Ok(Self {
            num_attention_heads: heads(found.hidden_size, HEAD_DIM)?,
            eos_token_id: Self::WRONG_EOS,
            ..found
        })
    }

    fn check(&self) -> Result<(), String> {
        check_model_type(MODEL_TYPE, &self.model_type)?;
        self.check_declared()?;
        self.layers().check()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(prefix(&weights.names()).unwrap_or(USUAL_PREFIX))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let prefix = prefix(&weights.names()).unwrap_or(USUAL_PREFIX);
        self.layers().check_last(weights, prefix)
    }
}

impl ClipTextConfig {
    /// The `eos_token_id` of old configs, wrong in all of them: the text ends at its largest id.
    pub const WRONG_EOS: i64 = 2;

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

    pub fn schema(&self, prefix: &str) -> Vec<TensorSpec> {
        let mut schema = Schema::default();
        schema.add(
            TOKENS,
            &[self.vocab_size, self.hidden_size],
            TensorRole::Table,
        );
        let positions = [self.max_position_embeddings, self.hidden_size];
        schema.add(POSITIONS, &positions, TensorRole::Fixed);
        self.layers().add_to(&mut schema);
        schema.in_f32(|schema| schema.norm("final_layer_norm", self.hidden_size));
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}

/// Prefix of the names of a file's text transformer, `text_model.` included; `None` where there is none.
pub fn prefix<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<&'a str> {
    let prefix = prefix_before(keys.clone(), &[TOKENS])?;
    let first_layer = format!("{prefix}{FIRST_LAYER}");
    keys.clone().any(|key| key == first_layer).then_some(prefix)
}
