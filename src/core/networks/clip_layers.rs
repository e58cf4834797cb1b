//! The layers that CLIP's text and vision transformers and SigLIP's are made of, in the names of `transformers`.
//!
//! Each network adds its layers before and after these.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{count, sizes};
use super::{Schema, check_epsilon, check_layers, check_sizes, model_type};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// Activation between a layer's two products, as `hidden_act` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClipActivation {
    #[serde(rename = "gelu")]
    Gelu,
    #[serde(rename = "gelu_pytorch_tanh", alias = "gelu_new", alias = "gelu_fast")]
    GeluTanh,
    #[serde(rename = "quick_gelu")]
    QuickGelu,
}

/// The numbers of the layers.
#[derive(Clone, Copy, Debug)]
pub struct ClipLayers {
    pub hidden_size: i64,
    pub intermediate_size: i64,
    pub num_hidden_layers: i64,
    pub num_attention_heads: i64,
    pub layer_norm_eps: f64,
    pub hidden_act: ClipActivation,
}

impl ClipLayers {
    pub(super) fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
        ])?;
        check_layers(&[("num_hidden_layers", self.num_hidden_layers)])?;
        check_epsilon("layer_norm_eps", self.layer_norm_eps)?;
        if self.hidden_size % self.num_attention_heads != 0 {
            return Err(format!(
                "expected a hidden_size that num_attention_heads divides, found {} and {} heads",
                self.hidden_size, self.num_attention_heads
            ));
        }
        Ok(())
    }

    /// Adds every tensor of the layers. Norms are computed in f32.
    pub(super) fn add_to(&self, schema: &mut Schema) {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        for layer in 0..self.num_hidden_layers {
            let layer = format!("encoder.layers.{layer}");
            for projection in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                schema.linear(&format!("{layer}.self_attn.{projection}"), hidden, hidden);
            }
            schema.linear(&format!("{layer}.mlp.fc1"), inner, hidden);
            schema.linear(&format!("{layer}.mlp.fc2"), hidden, inner);
            schema.in_f32(|schema| {
                schema.norm(&format!("{layer}.layer_norm1"), hidden);
                schema.norm(&format!("{layer}.layer_norm2"), hidden);
            });
        }
    }

    /// Checks that a file has no more layers than the config says.
    pub(super) fn check_last(&self, weights: &WeightSet, prefix: &str) -> Result<(), CatalogError> {
        let layers = self.num_hidden_layers;
        weights.no_more_layers(&format!("{prefix}encoder.layers.{layers}."), layers)
    }
}

/// The inner width of the layers in a file, and how many there are.
pub(super) fn sizes_of_layers(weights: &WeightSet, prefix: &str) -> Result<[i64; 2], String> {
    let wide = |layer| format!("{prefix}encoder.layers.{layer}.mlp.fc1.weight");
    let [intermediate_size, _] = sizes(weights, &wide(0))?;
    Ok([intermediate_size, count(weights, wide)])
}

/// Returns whether a `config.json` has this kind of `model_type`, by the part before its first `_`.
pub(super) fn is_of_type(config: &Value, expected: &str) -> bool {
    model_type(config).is_some_and(|found| found.starts_with(kind_of(expected)))
}

/// Checks the `model_type` of a config, where it has one, in the same way.
pub(super) fn check_model_type(expected: &str, found: &str) -> Result<(), String> {
    if found.is_empty() || found.starts_with(kind_of(expected)) {
        return Ok(());
    }
    Err(format!("expected the model_type {expected}, found {found}"))
}

fn kind_of(model_type: &str) -> &str {
    model_type
        .split_once('_')
        .map_or(model_type, |(kind, _)| kind)
}
