//! The numbers of the autoencoder's config, checked so that nothing behind them can divide by zero or index too far.
//!
//! From diffusers' `config.json`, or from the shapes in a single file with the published numbers for what no shape says.

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

/// Levels whose step halves the edges: three, for 8 × 8 pixels to a latent.
const SPATIAL_STEPS: usize = 3;

const LEVELS: usize = SPATIAL_STEPS + 1;

/// Levels whose step halves the frames as well: two, for 4 frames to a latent.
const TIME_STEPS: usize = 2;

/// What diffusers calls the weights of a component folder.
const FOLDER_STEM: &str = "diffusion_pytorch_model";

const CLASS: &str = "AutoencoderKLHunyuanVideo";

#[derive(Debug, Clone, PartialEq)]
pub struct HunyuanVaeConfig {
    /// Width of each level, from pixels to latents.
    pub block_out_channels: Vec<i64>,
    /// Residual blocks of a level of the encoder; the decoder has one more.
    pub layers_per_block: i64,
    pub latent_channels: i64,
    pub norm_num_groups: i64,
    pub scaling_factor: f64,
    pub mid_block_add_attention: bool,
}

/// The file as diffusers writes it, with diffusers' defaults where a key is left out.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(rename = "_class_name")]
    class_name: Option<String>,
    in_channels: Option<i64>,
    out_channels: Option<i64>,
    latent_channels: Option<i64>,
    down_block_types: Option<Vec<String>>,
    up_block_types: Option<Vec<String>>,
    block_out_channels: Option<Vec<i64>>,
    layers_per_block: Option<i64>,
    act_fn: Option<String>,
    norm_num_groups: Option<i64>,
    scaling_factor: Option<f64>,
    spatial_compression_ratio: Option<i64>,
    temporal_compression_ratio: Option<i64>,
    mid_block_add_attention: Option<bool>,
}

/// What the step behind a level does to the edges and the frames: by how much they are divided, or multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) time: i64,
    pub(super) space: i64,
}

impl Step {
    /// Behind the block `index`, counted from where the network begins: the encoder's from the pixels, the decoder's from
    /// the latents.
    pub(super) fn behind(index: usize) -> Self {
        let halves_time = (LEVELS - 1 - TIME_STEPS..LEVELS - 1).contains(&index);
        Self {
            time: 1 + i64::from(halves_time),
            space: 1 + i64::from(index < SPATIAL_STEPS),
        }
    }
}

impl HunyuanVaeConfig {
    /// What the published models have.
    pub fn published() -> Self {
        Self {
            block_out_channels: vec![128, 256, 512, 512],
            layers_per_block: 2,
            latent_channels: 16,
            norm_num_groups: 32,
            scaling_factor: 0.476_986,
            mid_block_add_attention: true,
        }
    }

    /// Reads the numbers of a component folder or of one file. The config beside a file counts where the file is its
    /// folder's own.
    pub fn read(place: &Path) -> Result<Self, VaeError> {
        let is_folder = place.is_dir();
        let folder = if is_folder {
            Some(place)
        } else {
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            let is_own = name.starts_with(FOLDER_STEM);
            is_own.then(|| place.parent()).flatten()
        };
        if let Some(file) = folder.map(config_file).transpose()?.flatten()
            && (is_folder || file.class_name.as_deref() == Some(CLASS))
        {
            return Self::from_file(file).map_err(|reason| bad(reason, place));
        }
        Self::of_weights(&Weights::open(place, Kind::Float, Device::Cpu)?)
    }

    /// Takes what the shapes of the published autoencoder, or of one with other widths, say.
    pub fn of_weights(weights: &Weights) -> Result<Self, VaeError> {
        Self::from_shapes(weights).map_err(|reason| bad(reason, weights.path()))
    }

    fn from_file(file: ConfigFile) -> Result<Self, String> {
        if let Some(class) = file.class_name.filter(|class| class != CLASS) {
            return Err(format!("it is for {class}, expected {CLASS}"));
        }
        for (name, number, expected) in [
            ("in_channels", file.in_channels, 3),
            ("out_channels", file.out_channels, 3),
            (
                "spatial_compression_ratio",
                file.spatial_compression_ratio,
                8,
            ),
            (
                "temporal_compression_ratio",
                file.temporal_compression_ratio,
                4,
            ),
        ] {
            let number = number.unwrap_or(expected);
            if number != expected {
                return Err(format!("{name} is {number}, expected {expected}"));
            }
        }
        let act_fn = file.act_fn.as_deref().unwrap_or("silu");
        if !["silu", "swish"].contains(&act_fn) {
            return Err(format!("act_fn is {act_fn}, expected silu"));
        }
        let published = Self::published();
        let block_out_channels = file
            .block_out_channels
            .unwrap_or(published.block_out_channels);
        for (types, usual) in [
            (file.down_block_types, "HunyuanVideoDownBlock3D"),
            (file.up_block_types, "HunyuanVideoUpBlock3D"),
        ] {
            let Some(types) = types else { continue };
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
            layers_per_block: file.layers_per_block.unwrap_or(published.layers_per_block),
            latent_channels: file.latent_channels.unwrap_or(published.latent_channels),
            norm_num_groups: file.norm_num_groups.unwrap_or(published.norm_num_groups),
            scaling_factor: file.scaling_factor.unwrap_or(published.scaling_factor),
            mid_block_add_attention: file.mid_block_add_attention.unwrap_or(true),
        };
        cfg.check()?;
        Ok(cfg)
    }

    fn from_shapes(weights: &Weights) -> Result<Self, String> {
        let w = keys::diffusers_names(weights);
        let edge = |key: &str, axis: usize| w.shape_of(key).and_then(|s| s.get(axis).copied());
        let has_encoder = w.has("encoder.conv_in.conv.weight");
        let resnet = |level: usize, index: i64| {
            let level = if has_encoder {
                format!("encoder.down_blocks.{level}")
            } else {
                format!("decoder.up_blocks.{level}")
            };
            format!("{level}.resnets.{index}.conv1.conv.weight")
        };
        let mut widths: Vec<i64> = (0..=LEVELS)
            .map_while(|level| edge(&resnet(level, 0), 0))
            .collect();
        let blocks = (0..LARGEST_NUMBER)
            .take_while(|&index| w.has(&resnet(0, index)))
            .count() as i64;
        let latents = if has_encoder {
            edge("encoder.conv_out.conv.weight", 0).map(|moments| moments / 2)
        } else {
            widths.reverse();
            edge("decoder.conv_in.conv.weight", 1)
        };
        let latent_channels = latents.ok_or(
            "neither of 'encoder.conv_in.conv.weight' and 'decoder.conv_in.conv.weight' is there",
        )?;
        let attention = ["encoder", "decoder"]
            .iter()
            .any(|half| w.has(&format!("{half}.mid_block.attentions.0.to_q.weight")));
        let cfg = Self {
            block_out_channels: widths,
            layers_per_block: if has_encoder { blocks } else { blocks - 1 },
            latent_channels,
            mid_block_add_attention: attention,
            ..Self::published()
        };
        cfg.check()?;
        Ok(cfg)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        1 << SPATIAL_STEPS
    }

    /// Frames that one latent stands for, but for the first.
    pub fn temporal_factor(&self) -> i64 {
        1 << TIME_STEPS
    }

    /// What a diffusion model works with, of what the encoder gives.
    pub fn normalize(&self, latents: &Tensor) -> Tensor {
        latents * self.scaling_factor
    }

    /// What the decoder takes, of what a diffusion model works with.
    pub fn denormalize(&self, latents: &Tensor) -> Tensor {
        latents / self.scaling_factor
    }

    pub(super) fn width(&self) -> i64 {
        self.block_out_channels[0]
    }

    pub(super) fn widest(&self) -> i64 {
        self.block_out_channels[self.block_out_channels.len() - 1]
    }

    fn check(&self) -> Result<(), String> {
        let levels = self.block_out_channels.len();
        if levels != LEVELS {
            return Err(format!(
                "block_out_channels has {levels} levels, expected {LEVELS}"
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
