//! The autoencoder of HunyuanVideo and FramePack, `AutoencoderKLHunyuanVideo`: the levels of the autoencoders of
//! pictures, with convolutions over time too.
//!
//! The authors' own file has diffusers' names; ComfyUI's has those of the picture autoencoders' authors.

use super::header::not_a;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NetworkConfig;
use super::kl_vae::KlVaeKeys;
use super::kl_vae::levels::{Levels, Shown, Stated, check_tensors};
use super::schema::TensorSpec;
use super::vae::VaeHalf;
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

const CLASS: &str = "AutoencoderKLHunyuanVideo";
/// Levels whose step halves the edges: three, for 8 × 8 pixels to a latent.
const SPATIAL_STEPS: usize = 3;
/// Levels whose step halves the frames as well: two, for 4 frames to a latent.
const TIME_STEPS: usize = 2;
const LEVELS: usize = SPATIAL_STEPS + 1;
const SPATIAL_FACTOR: i64 = 1 << SPATIAL_STEPS;
const TEMPORAL_FACTOR: i64 = 1 << TIME_STEPS;

/// `vae/config.json`, with diffusers' defaults, those of the published models, where a key is left out.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct HunyuanVaeConfig {
    #[serde(rename = "_class_name")]
    pub class: String,
    pub in_channels: i64,
    pub out_channels: i64,
    pub down_block_types: Option<Vec<String>>,
    pub up_block_types: Option<Vec<String>>,
    /// Width of each level, from pixels to latents.
    pub block_out_channels: Vec<i64>,
    /// Residual blocks of a level of the encoder; the decoder has one more.
    pub layers_per_block: i64,
    pub act_fn: String,
    pub latent_channels: i64,
    pub norm_num_groups: i64,
    pub scaling_factor: f64,
    pub spatial_compression_ratio: i64,
    pub temporal_compression_ratio: i64,
    pub mid_block_add_attention: bool,
}

impl Default for HunyuanVaeConfig {
    fn default() -> Self {
        Self {
            class: CLASS.to_owned(),
            in_channels: 3,
            out_channels: 3,
            down_block_types: None,
            up_block_types: None,
            block_out_channels: vec![128, 256, 512, 512],
            layers_per_block: 2,
            act_fn: "silu".to_owned(),
            latent_channels: 16,
            norm_num_groups: 32,
            scaling_factor: 0.476_986,
            spatial_compression_ratio: SPATIAL_FACTOR,
            temporal_compression_ratio: TEMPORAL_FACTOR,
            mid_block_add_attention: true,
        }
    }
}

impl NetworkConfig for HunyuanVaeConfig {
    fn is_described_by(config: &Value) -> bool {
        config.get("_class_name").and_then(Value::as_str) == Some(CLASS)
    }

    /// What the published autoencoder, or one with other widths, shows.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys =
            KlVaeKeys::of_video(weights).ok_or_else(|| not_a("HunyuanVideo VAE", weights))?;
        let shown = Shown::by(weights, &keys, true)?;
        Ok(Self {
            block_out_channels: shown.widths,
            layers_per_block: shown.blocks,
            latent_channels: shown.latents,
            mid_block_add_attention: shown.has_attention,
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        let (down, up) = (&self.down_block_types, &self.up_block_types);
        self.levels().check(&Stated {
            class: [CLASS, &self.class],
            in_channels: self.in_channels,
            out_channels: self.out_channels,
            block_types: [
                (
                    "down_block_types",
                    "HunyuanVideoDownBlock3D",
                    down.as_deref(),
                ),
                ("up_block_types", "HunyuanVideoUpBlock3D", up.as_deref()),
            ],
            act_fn: &self.act_fn,
            norm_num_groups: self.norm_num_groups,
            scaling_factor: self.scaling_factor,
        })?;
        let levels = self.block_out_channels.len();
        if levels != LEVELS {
            return Err(format!(
                "expected {LEVELS} levels in block_out_channels, found {levels}"
            ));
        }
        let (spatial, temporal) = (
            self.spatial_compression_ratio,
            self.temporal_compression_ratio,
        );
        if (spatial, temporal) != (SPATIAL_FACTOR, TEMPORAL_FACTOR) {
            return Err(format!(
                "expected a spatial_compression_ratio of {SPATIAL_FACTOR} pixels and a temporal_compression_ratio of {TEMPORAL_FACTOR} frames, found {spatial} and {temporal}"
            ));
        }
        Ok(())
    }
}

impl HunyuanVaeConfig {
    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        SPATIAL_FACTOR
    }

    /// Frames of one latent frame after the first.
    pub fn temporal_factor(&self) -> i64 {
        TEMPORAL_FACTOR
    }

    /// The width at the pixels.
    pub fn narrowest(&self) -> i64 {
        self.block_out_channels[0]
    }

    /// The width at the latents.
    pub fn widest(&self) -> i64 {
        self.block_out_channels[self.block_out_channels.len() - 1]
    }

    /// By how much the step behind a level divides or multiplies frames and edges. `index`: counted from where the half
    /// begins, the encoder from the pixels and the decoder from the latents.
    pub fn step_behind(index: usize) -> [i64; 2] {
        let changes_time = (LEVELS - 1 - TIME_STEPS..LEVELS - 1).contains(&index);
        let changes_edges = index < SPATIAL_STEPS;
        [changes_time, changes_edges].map(|changes| 1 + i64::from(changes))
    }

    /// The tensors of one half as a file names them.
    pub fn schema(&self, half: VaeHalf, keys: &KlVaeKeys) -> Vec<TensorSpec> {
        self.levels().schema(half, keys, true)
    }

    /// Checks that both halves are there, in the shapes that the config says.
    pub(crate) fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let Some(keys) = KlVaeKeys::of_video(weights) else {
            return weights.expect("decoder.conv_in.conv.weight", &[]);
        };
        let halves = VaeHalf::BOTH.map(|half| self.schema(half, &keys));
        check_tensors(weights, &keys, LEVELS, &halves.concat())
    }

    /// Whether a file has such an autoencoder at all, whole or not.
    pub(crate) fn is_in(weights: &WeightSet) -> bool {
        KlVaeKeys::of_video(weights).is_some_and(|keys| keys.has_norms(weights))
    }

    fn levels(&self) -> Levels<'_> {
        Levels {
            widths: &self.block_out_channels,
            blocks: self.layers_per_block,
            latents: self.latent_channels,
            has_attention: self.mid_block_add_attention,
            is_video: true,
        }
    }
}
