//! UMT5's encoder, Wan's: a [`T5Encoder`] with a table of relative positions in every block.
//!
//! Reads the names of `transformers`, and those of Wan's own file through the catalogue.

use std::path::Path;

use safelight_core::catalog::{Component, Family, TextEncoderKeys};
use safelight_core::tokens::spiece::SPIECE_TENSOR;
use serde::Deserialize;
use tch::Tensor;

use super::t5::{T5Config, T5Encoder, Tables};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::json;
use crate::weights::{Weights, WeightsError};

/// What `text_encoder/config.json` says, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Umt5Config {
    pub vocab_size: i64,
    pub d_model: i64,
    pub d_kv: i64,
    pub d_ff: i64,
    pub num_layers: i64,
    pub num_heads: i64,
    pub relative_attention_num_buckets: i64,
    pub relative_attention_max_distance: i64,
    pub layer_norm_epsilon: f64,
    pub feed_forward_proj: String,
}

impl Default for Umt5Config {
    fn default() -> Self {
        Self {
            vocab_size: 250112,
            d_model: 512,
            d_kv: 64,
            d_ff: 1024,
            num_layers: 8,
            num_heads: 6,
            relative_attention_num_buckets: 32,
            relative_attention_max_distance: 128,
            layer_norm_epsilon: 1e-6,
            feed_forward_proj: "gated-gelu".to_owned(),
        }
    }
}

impl Umt5Config {
    /// Reads and checks the numbers of a text encoder, which lies in a folder or in one file.
    pub fn read(place: &Path) -> Result<Self, EngineError> {
        let config: Self = json::read_component(Family::Wan, Component::TextEncoder, None, place)?;
        match config.as_t5().objection("UMT5") {
            None => Ok(config),
            Some(reason) => Err(EngineError::Config {
                reason,
                path: json::config_path(place),
            }),
        }
    }

    fn as_t5(&self) -> T5Config {
        T5Config {
            model_type: "umt5".to_owned(),
            vocab_size: self.vocab_size,
            d_model: self.d_model,
            d_kv: self.d_kv,
            d_ff: self.d_ff,
            num_layers: self.num_layers,
            num_heads: self.num_heads,
            relative_attention_num_buckets: self.relative_attention_num_buckets,
            relative_attention_max_distance: self.relative_attention_max_distance,
            layer_norm_epsilon: self.layer_norm_epsilon,
            feed_forward_proj: self.feed_forward_proj.clone(),
        }
    }
}

pub struct Umt5Encoder(T5Encoder);

impl Umt5Encoder {
    pub fn new(config: &Umt5Config, w: &Weights) -> Result<Self, WeightsError> {
        // A tokenizer in the same file is read by whoever wants it.
        w.ignore(SPIECE_TENSOR);
        // Fields have the names of `transformers`; what is no UMT5 at all is named by the first key asked for.
        let w = &match TextEncoderKeys::detect(|key| w.has(key)) {
            Some(keys) => w.translated(move |name| keys.file_key(name)),
            None => w.clone(),
        };
        T5Encoder::with_tables(&config.as_t5(), Tables::Each, w).map(Self)
    }

    /// `ids`, `mask`: `(B, L)` integers -> `(B, L, C)`; `None` when cancelled.
    /// Ids beyond the table belong to a tokenizer of another model; the caller has checked them.
    pub fn forward(&self, ids: &Tensor, mask: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        self.0.forward(ids, Some(mask), hooks)
    }
}
