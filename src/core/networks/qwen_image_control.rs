//! ControlNets of Qwen-Image: some blocks of the transformer's kind that see a control picture beside the noise, and a
//! layer behind each whose result is added in the transformer.
//!
//! InstantX's files, union and inpainting alike, have diffusers' names, bare. Readers ask with those of Flux's double
//! blocks, as of the transformer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{heads, not_a, sizes};
use super::qwen_image_transformer::before_last;
use super::stream_blocks::{self, CONTROL_EMBEDDER, CONTROL_LISTS, HEAD_DIM};
use super::{
    NetworkConfig, QwenImageTransformerConfig, QwenImageTransformerKeys, TensorSpec, class_name,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// Numbers of a mask that a token has: two by two of one channel.
const MASK_NUMBERS: i64 = 4;

/// `config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QwenImageControlConfig {
    /// The blocks, of which there are fewer than in a transformer.
    #[serde(flatten)]
    pub blocks: QwenImageTransformerConfig,
    /// Numbers of a token beside those of the control picture: of a mask, in models that fill.
    pub extra_condition_channels: i64,
}

impl QwenImageControlConfig {
    /// Whether it is shown what a mask leaves of a picture, and the mask.
    #[must_use]
    pub fn takes_mask(&self) -> bool {
        self.extra_condition_channels > 0
    }

    /// Numbers of a control picture's token.
    #[must_use]
    pub fn control_channels(&self) -> i64 {
        self.blocks.in_channels + self.extra_condition_channels
    }
}

impl NetworkConfig for QwenImageControlConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("QwenImageControlNetModel")
    }

    /// What shapes cannot say, the width of a head and the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        if !QwenImageControlKeys::are_in(|key| weights.has(key)) {
            return Err(not_a("Qwen-Image ControlNet", weights));
        }
        let [dim, in_channels] = sizes(weights, "img_in.weight")?;
        let [_, joint_attention_dim] = sizes(weights, "txt_in.weight")?;
        let [_, control] = sizes(weights, &format!("{CONTROL_EMBEDDER}.weight"))?;
        let bare = QwenImageTransformerKeys::BARE;
        Ok(Self {
            blocks: QwenImageTransformerConfig {
                in_channels,
                out_channels: Some(in_channels / 4),
                num_layers: stream_blocks::count_blocks(weights, &bare.block_name()),
                num_attention_heads: heads(dim, HEAD_DIM)?,
                joint_attention_dim,
                ..QwenImageTransformerConfig::default()
            },
            extra_condition_channels: control.saturating_sub(in_channels),
        })
    }

    fn check(&self) -> Result<(), String> {
        self.blocks.check()?;
        let extra = self.extra_condition_channels;
        if [0, MASK_NUMBERS].contains(&extra) {
            return Ok(());
        }
        Err(format!(
            "expected extra_condition_channels of 0, or of {MASK_NUMBERS} for a mask, found {extra}"
        ))
    }

    fn tensors(&self, _weights: &WeightSet) -> Vec<TensorSpec> {
        let mut schema = before_last(&self.blocks, true);
        let channels = self.control_channels();
        stream_blocks::add_control(&mut schema, self.blocks.streams(), channels);
        schema.renamed(QwenImageControlKeys::file_key)
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let lists = [
            QwenImageTransformerKeys::BARE.block_name(),
            CONTROL_LISTS[0].to_owned(),
        ];
        let count = self.blocks.num_layers;
        stream_blocks::check_blocks(weights, &lists, &[count, count])
    }
}

/// What files call the tensors.
#[derive(Clone, Copy, Debug)]
pub enum QwenImageControlKeys {}

impl QwenImageControlKeys {
    /// Whether a file has such a network, by whether it has a key.
    pub fn are_in(has: impl Fn(&str) -> bool) -> bool {
        has(&format!("{CONTROL_EMBEDDER}.weight")) && has("txt_norm.weight")
    }

    /// What the file calls the tensor that Flux's authors would call `original`.
    #[must_use]
    pub fn file_key(original: &str) -> String {
        if original.starts_with("controlnet_") {
            return original.to_owned();
        }
        QwenImageTransformerKeys::BARE.file_key(original)
    }
}
