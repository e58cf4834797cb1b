//! The numbers of an autoencoder's config, checked so that nothing behind them can divide by zero or index too far.
//!
//! Takes them as JSON in diffusers' terms. Does not find out where that comes from: a folder, or a file's header.

use std::path::Path;

use safelight_core::catalog::{CatalogError, Component, Family, component_config};
use serde::Deserialize;
use serde_json::Value;

use super::statistics;
use crate::vae::VaeError;
use crate::weights::Weights;

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
    /// Wan 2.2: levels with a shortcut around them, all of one width. In Wan 2.1 the step to the next level halves the
    /// width on the way up, and there are no shortcuts.
    pub is_residual: bool,
    /// The scales, 1 for whole frames, at which the encoder of a Wan 2.1 has attention behind its residual blocks.
    pub attn_scales: Vec<f64>,
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
    #[serde(default)]
    attn_scales: Vec<f64>,
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
    /// Reads the numbers of a component folder or of one file.
    pub fn read(place: &Path) -> Result<Self, VaeError> {
        let json = component_config(Family::Wan, Component::Vae, place)
            .map_err(|err| refused(err, place))?;
        Self::from_json(json).map_err(|reason| VaeError::Config {
            reason,
            path: place.to_owned(),
        })
    }

    /// Takes what `config.json` of diffusers' layout says.
    pub fn from_json(json: Value) -> Result<Self, String> {
        let file: ConfigFile = serde_json::from_value(json).map_err(|err| err.to_string())?;
        file.check()?;
        let (latents_mean, latents_std) = file.statistics()?;
        let cfg = Self {
            is_residual: file.is_residual,
            // diffusers does not look at it in the residual form.
            attn_scales: if file.is_residual {
                Vec::new()
            } else {
                file.attn_scales
            },
            base_dim: file.base_dim,
            decoder_base_dim: file.decoder_base_dim.unwrap_or(file.base_dim),
            z_dim: file.z_dim,
            dim_mult: file.dim_mult,
            num_res_blocks: file.num_res_blocks,
            temporal_downsample: file.temperal_downsample,
            patch_size: file.patch_size.unwrap_or(1),
            latents_mean,
            latents_std,
        };
        cfg.check_statistics()?;
        cfg.check_widths()?;
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
        let mut scale = 1.0;
        let mut first_part = 0;
        let levels = self.dim_mult.iter().zip(self.steps(false)).enumerate();
        let levels = levels.map(|(index, (factor, step))| {
            let output = factor * self.base_dim;
            let has_attention = self.attn_scales.contains(&scale);
            let level = Level {
                index,
                first_part,
                input,
                output,
                next: output,
                frames,
                step,
                has_attention,
                has_shortcut: self.is_residual,
            };
            first_part += self.num_res_blocks * (1 + i64::from(has_attention)) + 1;
            input = output;
            frames /= level.time_factor();
            scale /= 2.0;
            level
        });
        levels.collect()
    }

    /// The decoder's levels from latents to pixels.
    pub(super) fn decoder_levels(&self) -> Vec<Level> {
        let widths: Vec<i64> = self
            .dim_mult
            .iter()
            .rev()
            .map(|factor| factor * self.decoder_base_dim)
            .collect();
        let mut input = widths[0];
        let mut frames = 1;
        let mut first_part = 0;
        let levels = widths.iter().zip(self.steps(true)).enumerate();
        let levels = levels.map(|(index, (&output, step))| {
            let level = Level {
                index,
                first_part,
                input,
                output,
                next: if self.is_residual || step.is_none() {
                    output
                } else {
                    output / 2
                },
                frames,
                step,
                // diffusers builds none here, whatever `attn_scales` says.
                has_attention: false,
                has_shortcut: self.is_residual && step.is_some(),
            };
            first_part += self.num_res_blocks + 2;
            input = level.next;
            frames *= level.time_factor();
            level
        });
        levels.collect()
    }

    /// What follows each level: whether time is halved or doubled too, nothing behind the last.
    fn steps(&self, backwards: bool) -> Vec<Option<bool>> {
        let mut steps: Vec<Option<bool>> =
            self.temporal_downsample.iter().copied().map(Some).collect();
        if backwards {
            steps.reverse();
        }
        steps.push(None);
        steps
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

    /// Shortcuts fold pixels into channels, so widths must divide each other times the folded pixels.
    fn check_widths(&self) -> Result<(), String> {
        let down = self.encoder_levels().into_iter();
        let down = down.map(|l| (l.input * l.folded(), l.output, l));
        let up = self.decoder_levels().into_iter();
        let up = up.map(|l| (l.output * l.folded(), l.input, l));
        for (many, few, level) in down.chain(up) {
            if level.next < 1 {
                return Err(format!(
                    "dim_mult makes a level of width {} that cannot be halved",
                    level.output
                ));
            }
            if level.has_shortcut && many % few != 0 {
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
    /// The statistics of the latents; diffusers' defaults are those of Wan 2.1.
    fn statistics(&self) -> Result<(Vec<f64>, Vec<f64>), String> {
        let of = |name: &str, values: &Option<Vec<f64>>, default: &[f64]| match values {
            Some(values) => Ok(values.clone()),
            None if self.z_dim == default.len() as i64 => Ok(default.to_vec()),
            None => Err(format!(
                "{name} is missing, and what is known is for {} channels, not {}",
                default.len(),
                self.z_dim
            )),
        };
        Ok((
            of("latents_mean", &self.latents_mean, &statistics::WAN21_MEAN)?,
            of("latents_std", &self.latents_std, &statistics::WAN21_STD)?,
        ))
    }

    fn check(&self) -> Result<(), String> {
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

/// What the catalogue says of a place, in this module's words.
fn refused(err: CatalogError, place: &Path) -> VaeError {
    match err {
        CatalogError::Io { source, path } => VaeError::Io { source, path },
        CatalogError::Config { reason, path } => VaeError::Config { reason, path },
        CatalogError::Missing { what, path } => VaeError::Config {
            reason: format!("{what} is missing"),
            path,
        },
        other => VaeError::Config {
            reason: other.to_string(),
            path: place.to_owned(),
        },
    }
}

/// One level of the encoder or the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) index: usize,
    /// Its first part in the flat list of Wan 2.1.
    pub(super) first_part: i64,
    pub(super) input: i64,
    pub(super) output: i64,
    /// The width behind the step to the next level.
    pub(super) next: i64,
    /// Frames of a chunk, after the first chunk, when they come in.
    pub(super) frames: i64,
    /// The step to the next level, which halves or doubles the edges: whether time too. The last level has none.
    pub(super) step: Option<bool>,
    /// Whether there is attention behind each residual block.
    pub(super) has_attention: bool,
    /// Whether a shortcut without parameters leads around all of it.
    pub(super) has_shortcut: bool,
}

impl Level {
    /// A part of this level by the authors' names: inside of the level, or in the flat list of Wan 2.1.
    pub(super) fn part(
        self,
        list: &Weights,
        name: &str,
        index: i64,
        cfg: &WanVaeConfig,
    ) -> Weights {
        if cfg.is_residual {
            list / self.index / name / index
        } else {
            list / (self.first_part + index)
        }
    }

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
