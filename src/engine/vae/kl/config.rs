//! The numbers of an autoencoder's config, checked so that nothing behind them can divide by zero or index too far.
//!
//! From diffusers' `config.json`, or from the shapes in a single file with the published numbers of FLUX.1 for what no
//! shape says.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::keys;
use crate::vae::VaeError;
use crate::weights::Weights;

/// Larger than any published width, small enough that no product of two of these overflows.
const LARGEST_NUMBER: i64 = 1 << 16;

const MAX_LEVELS: usize = 8;

/// Of FLUX.1's autoencoder: what no shape says.
const FLUX_LATENT_CHANNELS: i64 = 16;
const FLUX_NORM_NUM_GROUPS: i64 = 32;
const FLUX_SCALING_FACTOR: f64 = 0.3611;
const FLUX_SHIFT_FACTOR: f64 = 0.1159;

/// What diffusers calls the weights of a component folder.
const FOLDER_STEM: &str = "diffusion_pytorch_model";

#[derive(Debug, Clone, PartialEq)]
pub struct KlVaeConfig {
    /// Width of each level, from pixels to latents.
    pub block_out_channels: Vec<i64>,
    /// Residual blocks of a level of the encoder; the decoder has one more.
    pub layers_per_block: i64,
    pub latent_channels: i64,
    pub norm_num_groups: i64,
    pub scaling_factor: f64,
    pub shift_factor: f64,
    pub use_quant_conv: bool,
    pub use_post_quant_conv: bool,
    pub mid_block_add_attention: bool,
}

/// The file as diffusers writes it, with diffusers' defaults where a key is left out.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(rename = "_class_name")]
    class_name: Option<String>,
    in_channels: Option<i64>,
    out_channels: Option<i64>,
    down_block_types: Option<Vec<String>>,
    up_block_types: Option<Vec<String>>,
    block_out_channels: Option<Vec<i64>>,
    layers_per_block: Option<i64>,
    act_fn: Option<String>,
    latent_channels: Option<i64>,
    norm_num_groups: Option<i64>,
    scaling_factor: Option<f64>,
    shift_factor: Option<f64>,
    use_quant_conv: Option<bool>,
    use_post_quant_conv: Option<bool>,
    mid_block_add_attention: Option<bool>,
}

impl ConfigFile {
    fn is_of_this_class(&self) -> bool {
        self.class_name.as_deref() == Some("AutoencoderKL")
    }
}

impl KlVaeConfig {
    /// Reads the numbers of a component folder or of one file. The config beside a file counts where the file is its
    /// folder's own.
    pub fn read(place: &Path) -> Result<Self, VaeError> {
        let is_folder = place.is_dir();
        let folder = if is_folder {
            Some(place)
        } else {
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(FOLDER_STEM)
                .then(|| place.parent())
                .flatten()
        };
        if let Some(file) = folder.map(config_file).transpose()?.flatten()
            && (is_folder || file.is_of_this_class())
        {
            return Self::from_file(file).map_err(|reason| bad(reason, place));
        }
        Self::of_weights(&Weights::open(place, Kind::Float, Device::Cpu)?)
    }

    /// Takes what the shapes of FLUX.1's autoencoder, or of one with other widths, say.
    pub fn of_weights(weights: &Weights) -> Result<Self, VaeError> {
        Self::from_shapes(weights).map_err(|reason| bad(reason, weights.path()))
    }

    fn from_file(file: ConfigFile) -> Result<Self, String> {
        if file.class_name.is_some() && !file.is_of_this_class() {
            let class = file.class_name.unwrap_or_default();
            return Err(format!("it is for {class}, expected AutoencoderKL"));
        }
        for (name, channels) in [("in", file.in_channels), ("out", file.out_channels)] {
            let channels = channels.unwrap_or(3);
            if channels != 3 {
                return Err(format!("{name}_channels is {channels}, expected 3"));
            }
        }
        let act_fn = file.act_fn.as_deref().unwrap_or("silu");
        if !["silu", "swish"].contains(&act_fn) {
            return Err(format!("act_fn is {act_fn}, expected silu"));
        }
        let block_out_channels = file.block_out_channels.unwrap_or_else(|| vec![64]);
        for (types, usual) in [
            (file.down_block_types, "DownEncoderBlock2D"),
            (file.up_block_types, "UpDecoderBlock2D"),
        ] {
            let types = types.unwrap_or_else(|| vec![usual.to_owned()]);
            if let Some(other) = types.iter().find(|other| *other != usual) {
                return Err(format!("a block is {other}, expected {usual}"));
            }
            if types.len() != block_out_channels.len() {
                return Err(format!(
                    "there are {} of {usual} for {} block_out_channels",
                    types.len(),
                    block_out_channels.len()
                ));
            }
        }
        let cfg = Self {
            block_out_channels,
            layers_per_block: file.layers_per_block.unwrap_or(1),
            latent_channels: file.latent_channels.unwrap_or(4),
            norm_num_groups: file.norm_num_groups.unwrap_or(32),
            scaling_factor: file.scaling_factor.unwrap_or(0.18215),
            shift_factor: file.shift_factor.unwrap_or(0.0),
            use_quant_conv: file.use_quant_conv.unwrap_or(true),
            use_post_quant_conv: file.use_post_quant_conv.unwrap_or(true),
            mid_block_add_attention: file.mid_block_add_attention.unwrap_or(true),
        };
        cfg.check()?;
        Ok(cfg)
    }

    fn from_shapes(weights: &Weights) -> Result<Self, String> {
        let levels = keys::levels(weights);
        let w = keys::original_names(weights, levels);
        let edge = |key: &str| w.shape_of(key).and_then(|shape| shape.first().copied());
        let has_encoder = w.has("encoder.conv_in.weight");
        let list = if has_encoder {
            "encoder.down"
        } else {
            "decoder.up"
        };
        let width = |level| {
            let key = format!("{list}.{level}.block.0.conv1.weight");
            edge(&key).ok_or_else(|| format!("no width of level {level}: '{key}' is missing"))
        };
        let block_out_channels = (0..levels).map(width).collect::<Result<Vec<i64>, _>>()?;
        let latent_channels = if has_encoder {
            edge("encoder.conv_out.weight").map(|moments| moments / 2)
        } else {
            w.shape_of("decoder.conv_in.weight")
                .and_then(|shape| shape.get(1).copied())
        };
        let latent_channels = latent_channels
            .ok_or("neither 'encoder.conv_in.weight' nor 'decoder.conv_in.weight' is there")?;
        let blocks = (0..LARGEST_NUMBER)
            .take_while(|block| w.has(&format!("{list}.0.block.{block}.conv1.weight")))
            .count() as i64;
        if latent_channels != FLUX_LATENT_CHANNELS {
            return Err(format!(
                "latents of {latent_channels} channels need a config.json, without one {FLUX_LATENT_CHANNELS} are known"
            ));
        }
        let has_either = |name: &str| {
            ["encoder", "decoder"]
                .iter()
                .any(|half| w.has(&format!("{half}.{name}")))
        };
        let cfg = Self {
            block_out_channels,
            layers_per_block: if has_encoder { blocks } else { blocks - 1 },
            latent_channels,
            norm_num_groups: FLUX_NORM_NUM_GROUPS,
            scaling_factor: FLUX_SCALING_FACTOR,
            shift_factor: FLUX_SHIFT_FACTOR,
            use_quant_conv: w.has("quant_conv.weight"),
            use_post_quant_conv: w.has("post_quant_conv.weight"),
            mid_block_add_attention: has_either("mid.attn_1.q.weight"),
        };
        cfg.check()?;
        Ok(cfg)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        1 << (self.block_out_channels.len() - 1)
    }

    /// What a diffusion model works with, of what the encoder gives.
    pub fn normalize(&self, latents: &Tensor) -> Tensor {
        (latents - self.shift_factor) * self.scaling_factor
    }

    /// What the decoder takes, of what a diffusion model works with.
    pub fn denormalize(&self, latents: &Tensor) -> Tensor {
        latents / self.scaling_factor + self.shift_factor
    }

    pub(super) fn width(&self) -> i64 {
        self.block_out_channels[0]
    }

    pub(super) fn widest(&self) -> i64 {
        self.block_out_channels[self.block_out_channels.len() - 1]
    }

    fn check(&self) -> Result<(), String> {
        let levels = self.block_out_channels.len();
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(format!(
                "block_out_channels has {levels} levels, expected 1 to {MAX_LEVELS}"
            ));
        }
        let widths = self.block_out_channels.iter();
        let numbers = [
            ("layers_per_block", self.layers_per_block),
            ("latent_channels", self.latent_channels),
            ("norm_num_groups", self.norm_num_groups),
        ];
        let widths = widths.map(|&width| ("block_out_channels", width));
        for (name, value) in numbers.into_iter().chain(widths) {
            if !(1..=LARGEST_NUMBER).contains(&value) {
                return Err(format!("{name} is {value}, expected 1 to {LARGEST_NUMBER}"));
            }
        }
        let groups = self.norm_num_groups;
        if let Some(width) = self.block_out_channels.iter().find(|w| *w % groups != 0) {
            return Err(format!(
                "norm_num_groups is {groups}, which a width of {width} cannot be cut into"
            ));
        }
        if !(self.scaling_factor.is_finite() && self.scaling_factor > 0.0) {
            return Err("scaling_factor must be above zero".to_owned());
        }
        if !self.shift_factor.is_finite() {
            return Err("shift_factor must be a number".to_owned());
        }
        Ok(())
    }
}

/// `None` when the folder has none.
fn config_file(folder: &Path) -> Result<Option<ConfigFile>, VaeError> {
    let path = folder.join("config.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(VaeError::Io { source, path }),
    };
    match serde_json::from_slice(&text) {
        Ok(file) => Ok(Some(file)),
        Err(err) => Err(bad(err.to_string(), &path)),
    }
}

fn bad(reason: String, path: &Path) -> VaeError {
    VaeError::Config {
        reason,
        path: path.to_owned(),
    }
}
