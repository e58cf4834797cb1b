//! The small JSON files of a diffusers folder, read with a limit and with every number checked.
//!
//! Holds only what the catalogue needs; the engine reads the rest for itself.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CatalogError, Component, Family, component_config};

const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// Larger than any published width, small enough that no product of three of these overflows.
const LARGEST_NUMBER: u64 = 1 << 20;

/// `model_index.json`: which pipeline this is, and which class each component has.
#[derive(Clone, Debug, Default)]
pub struct ModelIndex {
    pub class: String,
    pub expand_timesteps: bool,
    pub boundary_ratio: Option<f64>,
    /// Component → class, for those that are not null.
    pub components: BTreeMap<String, String>,
}

impl ModelIndex {
    pub fn read(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.join("model_index.json");
        let fields: BTreeMap<String, Value> = read_json(&path)?;
        let Some(Value::String(class)) = fields.get("_class_name") else {
            return Err(CatalogError::Config {
                reason: "expected '_class_name' with a pipeline's name, found none".to_owned(),
                path,
            });
        };
        let components = fields
            .iter()
            .filter_map(|(name, value)| match value.as_array().map(Vec::as_slice) {
                Some([_, Value::String(class)]) => Some((name.clone(), class.clone())),
                _ => None,
            })
            .collect();
        Ok(Self {
            class: class.clone(),
            expand_timesteps: fields.get("expand_timesteps") == Some(&Value::Bool(true)),
            boundary_ratio: fields.get("boundary_ratio").and_then(Value::as_f64),
            components,
        })
    }
}

/// `transformer/config.json` of a Wan model, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct WanTransformerConfig {
    pub patch_size: [u64; 3],
    pub num_attention_heads: u64,
    pub attention_head_dim: u64,
    pub in_channels: u64,
    pub out_channels: u64,
    pub text_dim: u64,
    pub freq_dim: u64,
    pub ffn_dim: u64,
    pub num_layers: u64,
    pub cross_attn_norm: bool,
    pub qk_norm: Option<String>,
    pub rope_max_seq_len: u64,
    pub image_dim: Option<u64>,
    pub added_kv_proj_dim: Option<u64>,
    pub pos_embed_seq_len: Option<u64>,
    pub quantization_config: Option<Value>,
}

impl Default for WanTransformerConfig {
    fn default() -> Self {
        Self {
            patch_size: [1, 2, 2],
            num_attention_heads: 40,
            attention_head_dim: 128,
            in_channels: 16,
            out_channels: 16,
            text_dim: 4096,
            freq_dim: 256,
            ffn_dim: 13824,
            num_layers: 40,
            cross_attn_norm: true,
            qk_norm: Some("rms_norm_across_heads".to_owned()),
            rope_max_seq_len: 1024,
            image_dim: None,
            added_kv_proj_dim: None,
            pos_embed_seq_len: None,
            quantization_config: None,
        }
    }
}

impl WanTransformerConfig {
    /// The config of a component's folder or file.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) =
            read_component(Family::Wan, Component::Transformer, place, None)?;
        check_numbers(
            &[
                ("num_attention_heads", cfg.num_attention_heads),
                ("attention_head_dim", cfg.attention_head_dim),
                ("in_channels", cfg.in_channels),
                ("out_channels", cfg.out_channels),
                ("text_dim", cfg.text_dim),
                ("freq_dim", cfg.freq_dim),
                ("ffn_dim", cfg.ffn_dim),
                ("num_layers", cfg.num_layers),
                ("rope_max_seq_len", cfg.rope_max_seq_len),
                ("image_dim", cfg.image_dim.unwrap_or(1)),
                ("added_kv_proj_dim", cfg.added_kv_proj_dim.unwrap_or(1)),
                ("pos_embed_seq_len", cfg.pos_embed_seq_len.unwrap_or(1)),
            ],
            &path,
        )?;
        if cfg.patch_size.iter().any(|n| !(1..=64).contains(n)) {
            let reason = format!(
                "expected a patch_size of three numbers between 1 and 64, found {:?}",
                cfg.patch_size
            );
            return Err(CatalogError::Config { reason, path });
        }
        Ok(cfg)
    }

    pub fn dim(&self) -> u64 {
        self.num_attention_heads * self.attention_head_dim
    }

    /// Whether the tensors of two transformers have the same names and shapes.
    pub fn is_same_shape(&self, other: &Self) -> bool {
        let sizes = |cfg: &Self| {
            [
                cfg.dim(),
                cfg.in_channels,
                cfg.out_channels,
                cfg.text_dim,
                cfg.ffn_dim,
                cfg.num_layers,
                cfg.image_dim.unwrap_or(0),
            ]
        };
        sizes(self) == sizes(other) && self.patch_size == other.patch_size
    }
}

/// `vae/config.json` of a Wan model, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct WanVaeConfig {
    pub base_dim: u64,
    pub decoder_base_dim: Option<u64>,
    pub z_dim: u64,
    pub dim_mult: Vec<u64>,
    pub num_res_blocks: u64,
    /// The scales, 1 for whole frames, at which the encoder of a Wan 2.1 has attention.
    pub attn_scales: Vec<f64>,
    pub temperal_downsample: Vec<bool>,
    pub in_channels: u64,
    pub out_channels: u64,
    pub patch_size: Option<u64>,
    pub is_residual: bool,
}

impl Default for WanVaeConfig {
    fn default() -> Self {
        Self {
            base_dim: 96,
            decoder_base_dim: None,
            z_dim: 16,
            dim_mult: vec![1, 2, 4, 4],
            num_res_blocks: 2,
            attn_scales: Vec::new(),
            temperal_downsample: vec![false, true, true],
            in_channels: 3,
            out_channels: 3,
            patch_size: None,
            is_residual: false,
        }
    }
}

impl WanVaeConfig {
    /// The config of a component's folder or file.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) = read_component(Family::Wan, Component::Vae, place, None)?;
        check_numbers(
            &[
                ("base_dim", cfg.base_dim),
                ("decoder_base_dim", cfg.decoder_dim()),
                ("z_dim", cfg.z_dim),
                ("num_res_blocks", cfg.num_res_blocks),
                ("in_channels", cfg.in_channels),
                ("out_channels", cfg.out_channels),
                ("patch_size", cfg.patch()),
            ],
            &path,
        )?;
        for &mult in &cfg.dim_mult {
            check_numbers(&[("dim_mult", mult)], &path)?;
        }
        let levels = cfg.dim_mult.len();
        if !(2..=8).contains(&levels) || cfg.temperal_downsample.len() + 1 != levels {
            let reason = format!(
                "expected 2 to 8 levels in dim_mult and one less in temperal_downsample, found {levels} and {}",
                cfg.temperal_downsample.len()
            );
            return Err(CatalogError::Config { reason, path });
        }
        if cfg.patch() > 64 {
            let reason = format!(
                "expected a patch_size between 1 and 64, found {}",
                cfg.patch()
            );
            return Err(CatalogError::Config { reason, path });
        }
        Ok(cfg)
    }

    pub fn patch(&self) -> u64 {
        self.patch_size.unwrap_or(1)
    }

    pub fn decoder_dim(&self) -> u64 {
        self.decoder_base_dim.unwrap_or(self.base_dim)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> u64 {
        self.patch() << (self.dim_mult.len() - 1)
    }

    /// Frames of one latent frame after the first.
    pub fn temporal_factor(&self) -> u64 {
        1 << self.temperal_downsample.iter().filter(|&&b| b).count()
    }
}

/// `image_encoder/config.json` of a CLIP vision tower, with the defaults of `transformers`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ClipVisionConfig {
    pub model_type: String,
    pub hidden_size: u64,
    pub intermediate_size: u64,
    pub num_hidden_layers: u64,
    pub num_attention_heads: u64,
    pub num_channels: u64,
    pub image_size: u64,
    pub patch_size: u64,
}

impl Default for ClipVisionConfig {
    fn default() -> Self {
        Self {
            model_type: String::new(),
            hidden_size: 768,
            intermediate_size: 3072,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            num_channels: 3,
            image_size: 224,
            patch_size: 32,
        }
    }
}

impl ClipVisionConfig {
    /// The config of a component's folder or file.
    pub fn read(place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) =
            read_component(Family::Wan, Component::ImageEncoder, place, None)?;
        check_numbers(
            &[
                ("hidden_size", cfg.hidden_size),
                ("intermediate_size", cfg.intermediate_size),
                ("num_hidden_layers", cfg.num_hidden_layers),
                ("num_attention_heads", cfg.num_attention_heads),
                ("num_channels", cfg.num_channels),
                ("image_size", cfg.image_size),
                ("patch_size", cfg.patch_size),
            ],
            &path,
        )?;
        let reason = if cfg.hidden_size % cfg.num_attention_heads != 0 {
            "expected heads of one width, found a hidden_size that num_attention_heads does not divide"
        } else if cfg.num_hidden_layers < 2 {
            "expected at least 2 num_hidden_layers, as the last but one is read, found 1"
        } else if cfg.patch_size > cfg.image_size {
            "expected a patch_size within the image_size, found a larger one"
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config {
            reason: reason.to_owned(),
            path,
        })
    }

    /// Tokens of one picture: its patches and the class token.
    pub fn num_tokens(&self) -> u64 {
        let grid = self.image_size / self.patch_size;
        grid * grid + 1
    }
}

/// `scheduler/scheduler_config.json`: what decides the default sampler and shift.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SchedulerConfig {
    #[serde(rename = "_class_name")]
    pub class: String,
    pub prediction_type: Option<String>,
    /// UniPC's name for the shift.
    pub flow_shift: Option<f64>,
    /// Flow-match Euler's.
    pub shift: Option<f64>,
    pub use_dynamic_shifting: bool,
}

impl SchedulerConfig {
    pub fn read(folder: &Path) -> Result<Self, CatalogError> {
        read_json(&folder.join("scheduler_config.json"))
    }
}

/// A component's config, and the path by which errors name it. `part` is where it stands within that of a larger
/// model.
pub(super) fn read_component<T: DeserializeOwned>(
    family: Family,
    component: Component,
    place: &Path,
    part: Option<&str>,
) -> Result<(T, PathBuf), CatalogError> {
    let mut config = component_config(family, component, place)?;
    if let Some(inner @ Value::Object(_)) = part.and_then(|part| config.get_mut(part)) {
        config = inner.take();
    }
    let path = if place.is_dir() {
        place.join("config.json")
    } else {
        place.to_owned()
    };
    match serde_json::from_value(config) {
        Ok(config) => Ok((config, path)),
        Err(err) => Err(CatalogError::Config {
            reason: format!("not a sound config: {err}"),
            path,
        }),
    }
}

/// Checks that numbers are of a sensible size.
pub(super) fn check_numbers(numbers: &[(&str, u64)], path: &Path) -> Result<(), CatalogError> {
    for (name, value) in numbers {
        if !(1..=LARGEST_NUMBER).contains(value) {
            return Err(CatalogError::Config {
                reason: format!("expected a {name} between 1 and {LARGEST_NUMBER}, found {value}"),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

/// Reads a JSON file of a sensible size into `T`.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, CatalogError> {
    let text = read_capped(path, MAX_CONFIG_BYTES)?;
    serde_json::from_slice(&text).map_err(|err| CatalogError::Config {
        reason: format!("not a sound config: {err}"),
        path: path.to_owned(),
    })
}

/// Reads a whole file that must be a plain one of at most `max_bytes`.
pub(super) fn read_capped(path: &Path, max_bytes: u64) -> Result<Vec<u8>, CatalogError> {
    let wrong = |reason: String| CatalogError::Config {
        reason,
        path: path.to_owned(),
    };
    let failed = |source: std::io::Error| {
        if source.kind() == std::io::ErrorKind::NotFound {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            CatalogError::Missing {
                what: format!("the file {name}"),
                path: path.to_owned(),
            }
        } else {
            CatalogError::Io {
                source,
                path: path.to_owned(),
            }
        }
    };
    let stat = fs::metadata(path).map_err(failed)?;
    if !stat.is_file() {
        return Err(wrong("expected a file, found something else".to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(wrong(format!(
            "expected at most {max_bytes} bytes, found more"
        )));
    }
    Ok(bytes)
}

/// What lies in a folder, in a steady order.
pub(super) fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    let failed = |source: std::io::Error| {
        if source.kind() == std::io::ErrorKind::NotFound {
            CatalogError::Missing {
                what: "the folder".to_owned(),
                path: folder.to_owned(),
            }
        } else {
            CatalogError::Io {
                source,
                path: folder.to_owned(),
            }
        }
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
