//! The autoencoder of HunyuanVideo and FramePack, `AutoencoderKLHunyuanVideo`: its names are those of the
//! autoencoders of pictures, with a `conv` within each causal convolution.
//!
//! The authors' own file has diffusers' names; ComfyUI's has those of the picture autoencoders' authors.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::kl_vae::{KlVaeKeys, check_named};
use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, not_a, shape_of};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

/// More than any autoencoder has.
const MAX_LEVELS: usize = 8;
/// What no shape says, as published.
const NORM_NUM_GROUPS: u64 = 32;
const SCALING_FACTOR: f64 = 0.476_986;
const LATENT_CHANNELS: u64 = 16;
const SPATIAL: u64 = 8;
const TEMPORAL: u64 = 4;

/// Whether a file has such an autoencoder at all, whole or not.
pub(in crate::catalog) fn is_in(weights: &WeightSet) -> bool {
    KlVaeKeys::of_video(weights).is_some_and(|keys| {
        ["encoder", "decoder"]
            .iter()
            .any(|half| weights.has(&keys.file_key(&format!("{half}.mid.block_1.norm1.weight"))))
    })
}

/// `vae/config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct VideoVaeConfig {
    #[serde(rename = "_class_name")]
    pub class: Option<String>,
    pub in_channels: u64,
    pub out_channels: u64,
    pub block_out_channels: Vec<u64>,
    pub layers_per_block: u64,
    pub latent_channels: u64,
    pub norm_num_groups: u64,
    pub spatial_compression_ratio: u64,
    pub temporal_compression_ratio: u64,
    pub mid_block_add_attention: bool,
}

impl Default for VideoVaeConfig {
    fn default() -> Self {
        Self {
            class: None,
            in_channels: 3,
            out_channels: 3,
            block_out_channels: vec![128, 256, 512, 512],
            layers_per_block: 2,
            latent_channels: LATENT_CHANNELS,
            norm_num_groups: NORM_NUM_GROUPS,
            spatial_compression_ratio: SPATIAL,
            temporal_compression_ratio: TEMPORAL,
            mid_block_add_attention: true,
        }
    }
}

impl VideoVaeConfig {
    /// The config of a component's folder or file.
    pub fn read(family: Family, place: &Path) -> Result<Self, CatalogError> {
        let (cfg, path): (Self, _) = read_component(family, Component::Vae, place, None)?;
        check_numbers(
            &[
                ("layers_per_block", cfg.layers_per_block),
                ("latent_channels", cfg.latent_channels),
                ("norm_num_groups", cfg.norm_num_groups),
            ],
            &path,
        )?;
        for &width in &cfg.block_out_channels {
            check_numbers(&[("block_out_channels", width)], &path)?;
        }
        let levels = cfg.block_out_channels.len();
        let mut widths = cfg.block_out_channels.iter();
        let odd = widths.find(|width| **width % cfg.norm_num_groups != 0);
        let class = cfg.class.as_deref();
        let (spatial, temporal) = (
            cfg.spatial_compression_ratio,
            cfg.temporal_compression_ratio,
        );
        let reason = if let Some(class) = class.filter(|it| *it != "AutoencoderKLHunyuanVideo") {
            format!("expected the class AutoencoderKLHunyuanVideo, found {class}")
        } else if !(1..=MAX_LEVELS).contains(&levels) {
            format!("expected 1 to {MAX_LEVELS} levels in block_out_channels, found {levels}")
        } else if (cfg.in_channels, cfg.out_channels) != (3, 3) {
            format!(
                "expected 3 in_channels and out_channels, found {} and {}",
                cfg.in_channels, cfg.out_channels
            )
        } else if (spatial, temporal) != (SPATIAL, TEMPORAL) {
            format!(
                "expected latents of {SPATIAL} pixels and {TEMPORAL} frames, found {spatial} and {temporal}"
            )
        } else if let Some(width) = odd {
            format!(
                "expected widths that norm_num_groups ({}) divides, found {width}",
                cfg.norm_num_groups
            )
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }
}

/// The config that the shapes of the published autoencoder, or of one with other widths, show.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = KlVaeKeys::of_video(weights).ok_or_else(|| not_a("HunyuanVideo VAE", weights))?;
    let shape = |name: &str| shape_of(weights, &keys.file_key(name), 5);
    let has_encoder = weights.has(&keys.file_key("encoder.conv_in.conv.weight"));
    let list = if has_encoder {
        "encoder.down"
    } else {
        "decoder.up"
    };
    let levels = keys.levels.min(MAX_LEVELS + 1);
    let widths = (0..levels)
        .map(|level| Ok(shape(&format!("{list}.{level}.block.0.conv1.conv.weight"))?[0]))
        .collect::<Result<Vec<u64>, String>>()?;
    let latent_channels = if has_encoder {
        shape("encoder.conv_out.conv.weight")?[0] / 2
    } else {
        shape("decoder.conv_in.conv.weight")?[1]
    };
    if latent_channels != LATENT_CHANNELS {
        return Err(format!(
            "expected latents of {LATENT_CHANNELS} channels, as no config.json says how others are scaled, found {latent_channels}"
        ));
    }
    let blocks = count(weights, |n| {
        keys.file_key(&format!("{list}.0.block.{n}.conv1.conv.weight"))
    });
    let has = |name: &str| weights.has(&keys.file_key(name));
    Ok(json!({
        "_class_name": "AutoencoderKLHunyuanVideo",
        "act_fn": "silu",
        "in_channels": 3,
        "out_channels": 3,
        "block_out_channels": widths,
        "layers_per_block": if has_encoder { blocks } else { blocks.saturating_sub(1) },
        "latent_channels": latent_channels,
        "norm_num_groups": NORM_NUM_GROUPS,
        "scaling_factor": SCALING_FACTOR,
        "spatial_compression_ratio": SPATIAL,
        "temporal_compression_ratio": TEMPORAL,
        "mid_block_add_attention":
            has("encoder.mid.attn_1.q.weight") || has("decoder.mid.attn_1.q.weight"),
    }))
}

/// The tensors of both halves in the picture authors' names, as a list that grows.
#[derive(Default)]
struct Table(Vec<(String, Vec<u64>)>);

impl Table {
    fn conv(&mut self, name: &str, output: u64, input: u64, edge: u64) {
        let shape = vec![output, input, edge, edge, edge];
        self.0.push((format!("{name}.weight"), shape));
        self.0.push((format!("{name}.bias"), vec![output]));
    }

    fn causal(&mut self, name: &str, output: u64, input: u64, edge: u64) {
        self.conv(&format!("{name}.conv"), output, input, edge);
    }

    fn norm(&mut self, name: &str, width: u64) {
        self.0.push((format!("{name}.weight"), vec![width]));
        self.0.push((format!("{name}.bias"), vec![width]));
    }

    fn residual(&mut self, name: &str, input: u64, output: u64) {
        self.norm(&format!("{name}.norm1"), input);
        self.causal(&format!("{name}.conv1"), output, input, 3);
        self.norm(&format!("{name}.norm2"), output);
        self.causal(&format!("{name}.conv2"), output, output, 3);
        if input != output {
            self.causal(&format!("{name}.nin_shortcut"), output, input, 1);
        }
    }

    fn middle(&mut self, half: &str, width: u64, has_attention: bool) {
        self.residual(&format!("{half}.mid.block_1"), width, width);
        if has_attention {
            self.norm(&format!("{half}.mid.attn_1.norm"), width);
            for part in ["q", "k", "v", "proj_out"] {
                self.conv(&format!("{half}.mid.attn_1.{part}"), width, width, 1);
            }
        }
        self.residual(&format!("{half}.mid.block_2"), width, width);
    }
}

/// Every tensor in the picture authors' names and shapes.
pub(in crate::catalog) fn tensors(cfg: &VideoVaeConfig) -> Vec<(String, Vec<u64>)> {
    let mut table = Table::default();
    let widths = &cfg.block_out_channels;
    let last = widths.len() - 1;
    let (narrow, wide) = (widths[0], widths[last]);
    let (latents, attention) = (cfg.latent_channels, cfg.mid_block_add_attention);

    table.causal("encoder.conv_in", narrow, 3, 3);
    let mut input = narrow;
    for (level, &width) in widths.iter().enumerate() {
        for block in 0..cfg.layers_per_block {
            table.residual(&format!("encoder.down.{level}.block.{block}"), input, width);
            input = width;
        }
        if level < last {
            let name = format!("encoder.down.{level}.downsample.conv");
            table.causal(&name, width, width, 3);
        }
    }
    table.middle("encoder", wide, attention);
    table.norm("encoder.norm_out", wide);
    table.causal("encoder.conv_out", 2 * latents, wide, 3);

    table.causal("decoder.conv_in", wide, latents, 3);
    table.middle("decoder", wide, attention);
    for (level, &width) in widths.iter().enumerate().rev() {
        for block in 0..=cfg.layers_per_block {
            table.residual(&format!("decoder.up.{level}.block.{block}"), input, width);
            input = width;
        }
        if level > 0 {
            let name = format!("decoder.up.{level}.upsample.conv");
            table.causal(&name, width, width, 3);
        }
    }
    table.norm("decoder.norm_out", narrow);
    table.causal("decoder.conv_out", 3, narrow, 3);

    table.conv("quant_conv", 2 * latents, 2 * latents, 1);
    table.conv("post_quant_conv", latents, latents, 1);
    table.0
}

/// Checks that both halves are there, in the shapes that the config says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &VideoVaeConfig,
) -> Result<(), CatalogError> {
    match KlVaeKeys::of_video(weights) {
        Some(keys) => check_named(weights, keys, cfg.block_out_channels.len(), tensors(cfg)),
        None => weights.expect("decoder.conv_in.conv.weight", &[]),
    }
}
