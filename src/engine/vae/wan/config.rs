//! The numbers of `vae/config.json`, checked so that nothing behind them can divide by zero or index too far.
//!
//! Reads the residual form (Wan 2.2) only.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::vae::VaeError;

/// Larger than any published width, small enough that no product of two of these overflows.
const LARGEST_NUMBER: i64 = 1 << 16;

/// Frames that the encoder takes at a time behind the first one, whatever the temporal factor is.
pub(super) const ENCODER_CHUNK_FRAMES: i64 = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct WanVaeConfig {
    pub base_dim: i64,
    pub decoder_base_dim: i64,
    /// Channels of the latents.
    pub z_dim: i64,
    /// Width of each level, in multiples of the base.
    pub dim_mult: Vec<i64>,
    pub num_res_blocks: i64,
    /// Which of the encoder's steps between levels also halve time; the decoder's go the other way round.
    pub temporal_downsample: Vec<bool>,
    /// Pixels of a square that become channels before the first convolution.
    pub patch_size: i64,
    pub latents_mean: Vec<f64>,
    pub latents_std: Vec<f64>,
}

/// The file as diffusers writes it, with diffusers' defaults where a key is left out.
#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default = "default_base_dim")]
    base_dim: i64,
    decoder_base_dim: Option<i64>,
    #[serde(default = "default_z_dim")]
    z_dim: i64,
    #[serde(default = "default_dim_mult")]
    dim_mult: Vec<i64>,
    #[serde(default = "default_num_res_blocks")]
    num_res_blocks: i64,
    /// Levels with attention. The residual form has no such levels and diffusers does not look at it there.
    #[serde(default, rename = "attn_scales")]
    _attn_scales: Vec<f64>,
    #[serde(default = "default_temporal_downsample")]
    temperal_downsample: Vec<bool>,
    latents_mean: Option<Vec<f64>>,
    latents_std: Option<Vec<f64>>,
    #[serde(default)]
    is_residual: bool,
    #[serde(default = "default_channels")]
    in_channels: i64,
    #[serde(default = "default_channels")]
    out_channels: i64,
    patch_size: Option<i64>,
    scale_factor_temporal: Option<i64>,
    scale_factor_spatial: Option<i64>,
}

fn default_base_dim() -> i64 {
    96
}

fn default_z_dim() -> i64 {
    16
}

fn default_dim_mult() -> Vec<i64> {
    vec![1, 2, 4, 4]
}

fn default_num_res_blocks() -> i64 {
    2
}

fn default_temporal_downsample() -> Vec<bool> {
    vec![false, true, true]
}

fn default_channels() -> i64 {
    3
}

impl WanVaeConfig {
    /// Reads `config.json` in the `vae` folder of a diffusers model.
    pub fn read(vae_folder: &Path) -> Result<Self, VaeError> {
        let path = vae_folder.join("config.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(VaeError::Io { source, path }),
        };
        Self::parse(&text).map_err(|reason| VaeError::Config { reason, path })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: ConfigFile = serde_json::from_str(text).map_err(|err| err.to_string())?;
        file.check()?;
        let cfg = Self {
            base_dim: file.base_dim,
            decoder_base_dim: file.decoder_base_dim.unwrap_or(file.base_dim),
            z_dim: file.z_dim,
            dim_mult: file.dim_mult,
            num_res_blocks: file.num_res_blocks,
            temporal_downsample: file.temperal_downsample,
            patch_size: file.patch_size.unwrap_or(1),
            latents_mean: file.latents_mean.ok_or("latents_mean is missing")?,
            latents_std: file.latents_std.ok_or("latents_std is missing")?,
        };
        cfg.check_statistics()?;
        cfg.check_shortcuts()?;
        for (name, stated, real) in [
            ("spatial", file.scale_factor_spatial, cfg.spatial_factor()),
            (
                "temporal",
                file.scale_factor_temporal,
                cfg.temporal_factor(),
            ),
        ] {
            if stated.is_some_and(|stated| stated != real) {
                return Err(format!(
                    "scale_factor_{name} should be {real} by the levels and patch_size"
                ));
            }
        }
        let pixels = 3 * cfg.patch_size * cfg.patch_size;
        for (name, channels) in [("in", file.in_channels), ("out", file.out_channels)] {
            if channels != pixels {
                return Err(format!(
                    "{name}_channels is {channels}, expected {pixels}: 3 × patch_size²"
                ));
            }
        }
        Ok(cfg)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        self.patch_size << (self.dim_mult.len() - 1)
    }

    /// Frames of one latent frame; the first latent frame is one frame alone.
    pub fn temporal_factor(&self) -> i64 {
        1 << self
            .temporal_downsample
            .iter()
            .filter(|&&halves| halves)
            .count()
    }

    pub fn pixel_channels(&self) -> i64 {
        3 * self.patch_size * self.patch_size
    }

    /// The encoder's levels from pixels to latents.
    pub(super) fn encoder_levels(&self) -> Vec<Level> {
        let mut input = self.base_dim;
        let mut frames = ENCODER_CHUNK_FRAMES;
        let steps = self.temporal_downsample.iter().copied().map(Some);
        let factors = self.dim_mult.iter().zip(steps.chain([None]));
        let levels = factors.map(|(factor, step)| {
            let output = factor * self.base_dim;
            let level = Level {
                input,
                output,
                frames,
                step,
            };
            input = output;
            frames /= level.time_factor();
            level
        });
        levels.collect()
    }

    /// The decoder's levels from latents to pixels.
    pub(super) fn decoder_levels(&self) -> Vec<Level> {
        let mut input = self
            .dim_mult
            .last()
            .map_or(1, |factor| factor * self.decoder_base_dim);
        let mut frames = 1;
        let steps = self.temporal_downsample.iter().rev().copied().map(Some);
        let factors = self.dim_mult.iter().rev().zip(steps.chain([None]));
        let levels = factors.map(|(factor, step)| {
            let output = factor * self.decoder_base_dim;
            let level = Level {
                input,
                output,
                frames,
                step,
            };
            input = output;
            frames *= level.time_factor();
            level
        });
        levels.collect()
    }

    fn check_statistics(&self) -> Result<(), String> {
        for (name, values) in [("mean", &self.latents_mean), ("std", &self.latents_std)] {
            if values.len() as i64 != self.z_dim {
                return Err(format!(
                    "latents_{name} has {} values for {} channels",
                    values.len(),
                    self.z_dim
                ));
            }
        }
        let usable = |std: &f64| std.is_finite() && *std > 0.0;
        if !self.latents_std.iter().all(usable) {
            return Err("latents_std must be above zero".to_owned());
        }
        Ok(())
    }

    /// The shortcuts fold pixels into channels, so widths must divide each other times the folded pixels.
    fn check_shortcuts(&self) -> Result<(), String> {
        let down = self
            .encoder_levels()
            .into_iter()
            .map(|l| (l.input * l.folded(), l.output, l));
        let up = self
            .decoder_levels()
            .into_iter()
            .filter(|l| l.step.is_some());
        let up = up.map(|l| (l.output * l.folded(), l.input, l));
        for (many, few, level) in down.chain(up) {
            if many % few != 0 {
                return Err(format!(
                    "dim_mult makes a level of width {} to {} that has no shortcut",
                    level.input, level.output
                ));
            }
        }
        Ok(())
    }
}

impl ConfigFile {
    fn check(&self) -> Result<(), String> {
        if !self.is_residual {
            return Err(
                "is_residual is not set: the autoencoder of Wan 2.1 is not supported yet"
                    .to_owned(),
            );
        }
        let numbers = [
            ("base_dim", self.base_dim),
            ("decoder_base_dim", self.decoder_base_dim.unwrap_or(1)),
            ("z_dim", self.z_dim),
            ("num_res_blocks", self.num_res_blocks),
            ("patch_size", self.patch_size.unwrap_or(1)),
        ];
        let factors = self.dim_mult.iter().map(|&factor| ("dim_mult", factor));
        for (name, value) in numbers.into_iter().chain(factors) {
            if !(1..=LARGEST_NUMBER).contains(&value) {
                return Err(format!("{name} is {value}, expected 1 to {LARGEST_NUMBER}"));
            }
        }
        if !(1..=8).contains(&self.dim_mult.len()) {
            return Err(format!(
                "dim_mult has {} levels, expected 1 to 8",
                self.dim_mult.len()
            ));
        }
        let steps = self.temperal_downsample.len();
        if steps + 1 != self.dim_mult.len() {
            return Err(format!(
                "temperal_downsample has {steps} entries for {} levels",
                self.dim_mult.len()
            ));
        }
        // Clips go in four frames at a time.
        if self
            .temperal_downsample
            .iter()
            .filter(|&&halves| halves)
            .count()
            > 2
        {
            return Err("temperal_downsample halves time more than twice".to_owned());
        }
        Ok(())
    }
}

/// One level of the encoder or the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) input: i64,
    pub(super) output: i64,
    /// Frames of a chunk, after the first chunk, when they come in.
    pub(super) frames: i64,
    /// The step to the next level, which halves or doubles the edges: whether time too. The last level has none.
    pub(super) step: Option<bool>,
}

impl Level {
    pub(super) fn time_factor(self) -> i64 {
        if self.step == Some(true) { 2 } else { 1 }
    }

    pub(super) fn space_factor(self) -> i64 {
        if self.step.is_some() { 2 } else { 1 }
    }

    fn folded(self) -> i64 {
        self.time_factor() * self.space_factor() * self.space_factor()
    }
}
