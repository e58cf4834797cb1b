//! The autoencoder of pictures, `AutoencoderKL`, as FLUX.1 and other latent diffusion models have it.
//!
//! Its numbers, from diffusers' config or from a header, and its tensors. HunyuanVideo's is built of the same levels.

mod keys;
pub(super) mod levels;

use crate::networks::header::not_a;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NetworkConfig;
use super::schema::TensorSpec;
use super::vae::{VaeHalf, check_shift};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
pub use keys::KlVaeKeys;
use levels::{Levels, Shown, Stated, check_tensors};

const CLASS: &str = "AutoencoderKL";
/// Of FLUX.1's: what no shape says.
const FLUX_SCALING_FACTOR: f64 = 0.3611;
const FLUX_SHIFT_FACTOR: f64 = 0.1159;

/// `vae/config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct KlVaeConfig {
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
    pub shift_factor: Option<f64>,
    pub use_quant_conv: bool,
    pub use_post_quant_conv: bool,
    pub mid_block_add_attention: bool,
}

impl Default for KlVaeConfig {
    fn default() -> Self {
        Self {
            class: CLASS.to_owned(),
            in_channels: 3,
            out_channels: 3,
            down_block_types: None,
            up_block_types: None,
            block_out_channels: vec![64],
            layers_per_block: 1,
            act_fn: "silu".to_owned(),
            latent_channels: 4,
            norm_num_groups: 32,
            scaling_factor: 0.18215,
            shift_factor: None,
            use_quant_conv: true,
            use_post_quant_conv: true,
            mid_block_add_attention: true,
        }
    }
}

impl NetworkConfig for KlVaeConfig {
    fn is_described_by(config: &Value) -> bool {
        config.get("_class_name").and_then(Value::as_str) == Some(CLASS)
    }

    /// What FLUX.1's autoencoder, or one with other widths, shows.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = KlVaeKeys::of(weights).ok_or_else(|| not_a("picture VAE", weights))?;
        let shown = Shown::by(weights, &keys, false)?;
        let has = |name: &str| weights.has(&keys.file_key(name));
        Ok(Self {
            block_out_channels: shown.widths,
            layers_per_block: shown.blocks,
            latent_channels: shown.latents,
            scaling_factor: FLUX_SCALING_FACTOR,
            shift_factor: Some(FLUX_SHIFT_FACTOR),
            use_quant_conv: has("quant_conv.weight"),
            use_post_quant_conv: has("post_quant_conv.weight"),
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
                ("down_block_types", "DownEncoderBlock2D", down.as_deref()),
                ("up_block_types", "UpDecoderBlock2D", up.as_deref()),
            ],
            act_fn: &self.act_fn,
            norm_num_groups: self.norm_num_groups,
            scaling_factor: self.scaling_factor,
        })?;
        check_shift("shift_factor", self.shift())
    }
}

impl KlVaeConfig {
    /// What is subtracted from latents before they are scaled.
    pub fn shift(&self) -> f64 {
        self.shift_factor.unwrap_or(0.0)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        1 << (self.block_out_channels.len() - 1)
    }

    /// The width at the pixels.
    pub fn narrowest(&self) -> i64 {
        self.block_out_channels[0]
    }

    /// The width at the latents.
    pub fn widest(&self) -> i64 {
        self.block_out_channels[self.block_out_channels.len() - 1]
    }

    /// The tensors of one half as a file names them.
    pub fn schema(&self, half: VaeHalf, keys: &KlVaeKeys) -> Vec<TensorSpec> {
        let has_quant_conv = match half {
            VaeHalf::Encoder => self.use_quant_conv,
            VaeHalf::Decoder => self.use_post_quant_conv,
        };
        self.levels().schema(half, keys, has_quant_conv)
    }

    /// Checks that both halves are there, in the shapes that the config says.
    pub(crate) fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let Some(keys) = KlVaeKeys::of(weights) else {
            return weights.expect("decoder.conv_in.weight", &[]);
        };
        let halves = VaeHalf::BOTH.map(|half| self.schema(half, &keys));
        check_tensors(
            weights,
            &keys,
            self.block_out_channels.len(),
            &halves.concat(),
        )
    }

    /// Whether a file has such an autoencoder at all, whole or not.
    pub(crate) fn is_in(weights: &WeightSet) -> bool {
        KlVaeKeys::of(weights).is_some_and(|keys| keys.has_norms(weights))
    }

    fn levels(&self) -> Levels<'_> {
        Levels {
            widths: &self.block_out_channels,
            blocks: self.layers_per_block,
            latents: self.latent_channels,
            has_attention: self.mid_block_add_attention,
            is_video: false,
        }
    }
}
