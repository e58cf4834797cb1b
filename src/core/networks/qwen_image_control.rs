//! ControlNets of Qwen-Image: some blocks of the transformer's kind that see a control image next to the noise, and a layer
//! after each whose result is added in the transformer.
//!
//! InstantX's files, union and inpainting alike, have diffusers' names, bare. Readers ask with those of Flux's double
//! blocks, as of the transformer.

use super::QwenImageTransformerConfig;
use super::qwen_image_transformer::{BLOCKS, OWN_OUTER};
use super::stream_blocks::{self, CONTROL_EMBEDDER, CONTROL_LISTS, DIFFUSERS_OUTER};
use crate::networks::prelude::*;

/// Numbers of a mask in a token: two by two of one channel.
const MASK_NUMBERS: i64 = 4;

/// `config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QwenImageControlConfig {
    /// The blocks, of which there are fewer than in a transformer.
    #[serde(flatten)]
    pub blocks: QwenImageTransformerConfig,
    /// Numbers of a token besides those of the control image: of a mask, in models that fill.
    pub extra_condition_channels: i64,
}

impl QwenImageControlConfig {
    /// Returns true if it is shown what a mask leaves of an image, and the mask.
    pub fn takes_mask(&self) -> bool {
        self.extra_condition_channels > 0
    }

    /// Numbers of a control image's token.
    pub fn control_channels(&self) -> i64 {
        self.blocks.in_channels + self.extra_condition_channels
    }
}

impl DeclaredConfig for QwenImageControlConfig {
    fn of_declared(header: &NamedShapes<'_>) -> Result<Self, String> {
        let blocks = QwenImageTransformerConfig::of_declared(header)?;
        let control = header.dim(&format!("{CONTROL_EMBEDDER}.weight"), 1)?;
        Ok(Self {
            extra_condition_channels: control.saturating_sub(blocks.in_channels),
            blocks: QwenImageTransformerConfig {
                out_channels: Some(blocks.in_channels / 4),
                zero_cond_t: false,
                ..blocks
            },
        })
    }

    fn check_declared(&self) -> Result<(), String> {
        self.blocks.check()
    }
}

impl TransformerConfig for QwenImageControlConfig {
    const LABEL: &'static str = "Qwen-Image ControlNet";
    const CLASSES: &'static [&'static str] = &["QwenImageControlNetModel"];
    const PREFIXES: &'static [&'static str] = &[""];
    const DIALECTS: &'static [TensorDialect] = &[TensorDialect::diffusers(
        &[two_of(&["controlnet_x_embedder.weight", "txt_norm.weight"])],
        &[BLOCKS, BlockList::shared(CONTROL_LISTS[0])],
        &[OWN_OUTER, DIFFUSERS_OUTER],
    )];

    fn check_numbers(&self) -> Result<(), String> {
        let extra = self.extra_condition_channels;
        ensure!(
            [0, MASK_NUMBERS].contains(&extra),
            "expected extra_condition_channels of 0, or of {MASK_NUMBERS} for a mask, found {extra}"
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.blocks.num_layers; 2]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        self.blocks.add_before_last(schema);
        let channels = self.control_channels();
        stream_blocks::add_control(schema, self.blocks.streams(), channels);
    }
}

pub type QwenImageControlKeys = TensorKeys<QwenImageControlConfig>;
