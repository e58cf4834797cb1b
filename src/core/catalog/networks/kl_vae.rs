//! The autoencoder of pictures, `AutoencoderKL`: the authors' names, and diffusers', old and new.
//!
//! Either may stand behind a prefix, in a file that holds other networks too.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::catalog::configs::{check_numbers, read_component};
use crate::catalog::shapes::{count, not_a, prefix_before, shape_of};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, Component, Family};

/// More than any autoencoder has.
const MAX_LEVELS: usize = 8;
/// Of FLUX.1's autoencoder: what no shape says.
const FLUX_LATENT_CHANNELS: u64 = 16;
const NORM_NUM_GROUPS: u64 = 32;
const SCALING_FACTOR: f64 = 0.3611;
const SHIFT_FACTOR: f64 = 0.1159;

/// How a file names an autoencoder's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Authors,
    Diffusers,
    /// Of before its attention layers were all one.
    OldDiffusers,
}

/// How one file names the tensors of an autoencoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KlVaeKeys {
    /// What comes before every name: `vae.`, or nothing.
    pub prefix: String,
    dialect: Dialect,
    /// How many levels the file has, since the authors count the decoder's from the other end.
    pub levels: usize,
}

impl KlVaeKeys {
    /// The dialect of a file with these keys; `None` where there is no such autoencoder.
    pub fn detect<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        Self::by(keys, &["decoder.conv_in.weight", "encoder.conv_in.weight"])
    }

    /// The same for the autoencoder of HunyuanVideo, whose names are these with a `conv` within each causal
    /// convolution: `decoder.up.3.block.0.conv1.conv.weight`, `encoder.down.0.downsample.conv.conv.weight`.
    pub fn detect_video<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        Self::by(
            keys,
            &["decoder.conv_in.conv.weight", "encoder.conv_in.conv.weight"],
        )
    }

    /// `marks`: either half may be in a file of its own. All dialects have these.
    fn by<'a>(keys: impl Iterator<Item = &'a str> + Clone, marks: &[&str]) -> Option<Self> {
        let prefix = prefix_before(keys.clone(), marks)?;
        let own = keys.filter_map(|key| key.strip_prefix(prefix));
        let has = |part: &str| own.clone().any(|key| key.contains(part));
        let dialect = if !has("coder.mid_block.") {
            Dialect::Authors
        } else if has("mid_block.attentions.0.query.weight") {
            Dialect::OldDiffusers
        } else {
            Dialect::Diffusers
        };
        Some(Self {
            prefix: prefix.to_owned(),
            dialect,
            levels: levels(own),
        })
    }

    /// The file's name of the tensor that the authors call `original`.
    pub fn file_key(&self, original: &str) -> String {
        let own = match self.dialect {
            Dialect::Authors => original.to_owned(),
            dialect => diffusers_from_original(original, self.levels, dialect),
        };
        format!("{}{own}", self.prefix)
    }

    pub(in crate::catalog) fn of(weights: &WeightSet) -> Option<Self> {
        Self::detect(weights.tensors.keys().map(String::as_str))
    }

    pub(in crate::catalog) fn of_video(weights: &WeightSet) -> Option<Self> {
        Self::detect_video(weights.tensors.keys().map(String::as_str))
    }
}

/// How many levels there are.
fn levels<'a>(keys: impl Iterator<Item = &'a str>) -> usize {
    let index = |key: &str| -> Option<usize> {
        let mut parts = key.split('.');
        match (parts.next()?, parts.next()?, parts.next()?) {
            ("encoder", "down" | "down_blocks", index) | ("decoder", "up" | "up_blocks", index) => {
                index.parse().ok()
            }
            _ => None,
        }
    };
    let indices: BTreeSet<usize> = keys.filter_map(index).collect();
    // What is not counted through cannot be used anyway; a wild number must not become a length.
    (0..indices.len())
        .take_while(|index| indices.contains(index))
        .count()
}

/// `decoder.up.3.block.0.nin_shortcut.bias` → `decoder.up_blocks.0.resnets.0.conv_shortcut.bias` of four levels
fn diffusers_from_original(original: &str, levels: usize, dialect: Dialect) -> String {
    let parts: Vec<&str> = original.split('.').collect();
    match parts.as_slice() {
        [half, "down", level, rest @ ..] => join(&[half, "down_blocks", level], &level_part(rest)),
        [half, "up", level, rest @ ..] => {
            let from_latents = level
                .parse::<usize>()
                .ok()
                .and_then(|level| levels.checked_sub(level + 1))
                .map_or_else(|| (*level).to_owned(), |level| level.to_string());
            join(&[half, "up_blocks", &from_latents], &level_part(rest))
        }
        [half, "mid", "attn_1", name, leaf @ ..] => {
            let name = attention_part(name, dialect);
            join(&[half, "mid_block", "attentions", "0", name], leaf)
        }
        [half, "mid", block, rest @ ..] => {
            let index = if *block == "block_1" { "0" } else { "1" };
            join(&[half, "mid_block", "resnets", index], &residual(rest))
        }
        [half, "norm_out", leaf] => join(&[half, "conv_norm_out"], &[leaf]),
        _ => original.to_owned(),
    }
}

/// Inside of a level.
fn level_part<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    match rest {
        ["block", index, rest @ ..] => [&["resnets", index], &residual(rest)[..]].concat(),
        ["downsample", rest @ ..] => [&["downsamplers", "0"], rest].concat(),
        ["upsample", rest @ ..] => [&["upsamplers", "0"], rest].concat(),
        _ => rest.to_vec(),
    }
}

fn residual<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    match rest {
        ["nin_shortcut", leaf @ ..] => [&["conv_shortcut"], leaf].concat(),
        _ => rest.to_vec(),
    }
}

fn attention_part(name: &str, dialect: Dialect) -> &str {
    match (name, dialect) {
        ("norm", _) => "group_norm",
        ("q", Dialect::OldDiffusers) => "query",
        ("k", Dialect::OldDiffusers) => "key",
        ("v", Dialect::OldDiffusers) => "value",
        ("proj_out", Dialect::OldDiffusers) => "proj_attn",
        ("q", _) => "to_q",
        ("k", _) => "to_k",
        ("v", _) => "to_v",
        ("proj_out", _) => "to_out.0",
        _ => name,
    }
}

fn join(head: &[&str], tail: &[&str]) -> String {
    [head, tail].concat().join(".")
}

/// Whether a file has such an autoencoder at all, whole or not.
pub(in crate::catalog) fn is_in(weights: &WeightSet) -> bool {
    KlVaeKeys::of(weights).is_some_and(|keys| {
        // Autoencoders of video have other norms.
        ["encoder", "decoder"]
            .iter()
            .any(|half| weights.has(&keys.file_key(&format!("{half}.mid.block_1.norm1.weight"))))
    })
}

/// `vae/config.json`, with diffusers' defaults where a key is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct KlVaeConfig {
    #[serde(rename = "_class_name")]
    pub class: Option<String>,
    pub in_channels: u64,
    pub out_channels: u64,
    pub block_out_channels: Vec<u64>,
    pub layers_per_block: u64,
    pub latent_channels: u64,
    pub norm_num_groups: u64,
    pub use_quant_conv: bool,
    pub use_post_quant_conv: bool,
    pub mid_block_add_attention: bool,
}

impl Default for KlVaeConfig {
    fn default() -> Self {
        Self {
            class: None,
            in_channels: 3,
            out_channels: 3,
            block_out_channels: vec![64],
            layers_per_block: 1,
            latent_channels: 4,
            norm_num_groups: 32,
            use_quant_conv: true,
            use_post_quant_conv: true,
            mid_block_add_attention: true,
        }
    }
}

impl KlVaeConfig {
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
        let groups = cfg.norm_num_groups;
        let odd = cfg
            .block_out_channels
            .iter()
            .find(|width| *width % groups != 0);
        let reason = if let Some(class) = cfg.class.as_ref().filter(|it| *it != "AutoencoderKL") {
            format!("expected the class AutoencoderKL, found {class}")
        } else if !(1..=MAX_LEVELS).contains(&levels) {
            format!("expected 1 to {MAX_LEVELS} levels in block_out_channels, found {levels}")
        } else if (cfg.in_channels, cfg.out_channels) != (3, 3) {
            format!(
                "expected 3 in_channels and out_channels, found {} and {}",
                cfg.in_channels, cfg.out_channels
            )
        } else if let Some(width) = odd {
            format!("expected widths that norm_num_groups ({groups}) divides, found {width}")
        } else {
            return Ok(cfg);
        };
        Err(CatalogError::Config { reason, path })
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> u64 {
        1 << (self.block_out_channels.len() - 1)
    }
}

/// The config that the shapes of FLUX.1's autoencoder, or of one with other widths, show.
pub(in crate::catalog) fn config_of_header(weights: &WeightSet) -> Result<Value, String> {
    let keys = KlVaeKeys::of(weights).ok_or_else(|| not_a("picture VAE", weights))?;
    let shape = |name: &str| shape_of(weights, &keys.file_key(name), 4);
    let has_encoder = weights.has(&keys.file_key("encoder.conv_in.weight"));
    let list = if has_encoder {
        "encoder.down"
    } else {
        "decoder.up"
    };
    let levels = keys.levels.min(MAX_LEVELS + 1);
    let widths = (0..levels)
        .map(|level| Ok(shape(&format!("{list}.{level}.block.0.conv1.weight"))?[0]))
        .collect::<Result<Vec<u64>, String>>()?;
    let latent_channels = if has_encoder {
        shape("encoder.conv_out.weight")?[0] / 2
    } else {
        shape("decoder.conv_in.weight")?[1]
    };
    if latent_channels != FLUX_LATENT_CHANNELS {
        return Err(format!(
            "expected latents of {FLUX_LATENT_CHANNELS} channels, as no config.json says how others are scaled, found {latent_channels}"
        ));
    }
    let blocks = count(weights, |n| {
        keys.file_key(&format!("{list}.0.block.{n}.conv1.weight"))
    });
    let has = |name: &str| weights.has(&keys.file_key(name));
    let types = |name: &'static str| vec![name; levels];
    Ok(json!({
        "_class_name": "AutoencoderKL",
        "act_fn": "silu",
        "in_channels": 3,
        "out_channels": 3,
        "down_block_types": types("DownEncoderBlock2D"),
        "up_block_types": types("UpDecoderBlock2D"),
        "block_out_channels": widths,
        "layers_per_block": if has_encoder { blocks } else { blocks.saturating_sub(1) },
        "latent_channels": latent_channels,
        "norm_num_groups": NORM_NUM_GROUPS,
        "scaling_factor": SCALING_FACTOR,
        "shift_factor": SHIFT_FACTOR,
        "use_quant_conv": has("quant_conv.weight"),
        "use_post_quant_conv": has("post_quant_conv.weight"),
        "mid_block_add_attention":
            has("encoder.mid.attn_1.q.weight") || has("decoder.mid.attn_1.q.weight"),
    }))
}

/// The tensors of both halves in the authors' names, as a list that grows.
#[derive(Default)]
struct Table(Vec<(String, Vec<u64>)>);

impl Table {
    fn conv(&mut self, name: &str, output: u64, input: u64, edge: u64) {
        self.0
            .push((format!("{name}.weight"), vec![output, input, edge, edge]));
        self.0.push((format!("{name}.bias"), vec![output]));
    }

    fn norm(&mut self, name: &str, width: u64) {
        self.0.push((format!("{name}.weight"), vec![width]));
        self.0.push((format!("{name}.bias"), vec![width]));
    }

    fn residual(&mut self, name: &str, input: u64, output: u64) {
        self.norm(&format!("{name}.norm1"), input);
        self.conv(&format!("{name}.conv1"), output, input, 3);
        self.norm(&format!("{name}.norm2"), output);
        self.conv(&format!("{name}.conv2"), output, output, 3);
        if input != output {
            self.conv(&format!("{name}.nin_shortcut"), output, input, 1);
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

/// Every tensor in the authors' names and shapes.
pub(in crate::catalog) fn tensors(cfg: &KlVaeConfig) -> Vec<(String, Vec<u64>)> {
    let mut table = Table::default();
    let widths = &cfg.block_out_channels;
    let (narrow, wide) = (widths[0], widths[widths.len() - 1]);
    let (latents, attention) = (cfg.latent_channels, cfg.mid_block_add_attention);

    table.conv("encoder.conv_in", narrow, 3, 3);
    let mut input = narrow;
    for (level, &width) in widths.iter().enumerate() {
        for block in 0..cfg.layers_per_block {
            table.residual(&format!("encoder.down.{level}.block.{block}"), input, width);
            input = width;
        }
        if level + 1 < widths.len() {
            table.conv(
                &format!("encoder.down.{level}.downsample.conv"),
                width,
                width,
                3,
            );
        }
    }
    table.middle("encoder", wide, attention);
    table.norm("encoder.norm_out", wide);
    table.conv("encoder.conv_out", 2 * latents, wide, 3);

    table.conv("decoder.conv_in", wide, latents, 3);
    table.middle("decoder", wide, attention);
    for (level, &width) in widths.iter().enumerate().rev() {
        for block in 0..=cfg.layers_per_block {
            table.residual(&format!("decoder.up.{level}.block.{block}"), input, width);
            input = width;
        }
        if level > 0 {
            table.conv(
                &format!("decoder.up.{level}.upsample.conv"),
                width,
                width,
                3,
            );
        }
    }
    table.norm("decoder.norm_out", narrow);
    table.conv("decoder.conv_out", 3, narrow, 3);

    if cfg.use_quant_conv {
        table.conv("quant_conv", 2 * latents, 2 * latents, 1);
    }
    if cfg.use_post_quant_conv {
        table.conv("post_quant_conv", latents, latents, 1);
    }
    table.0
}

/// Checks that both halves are there, in the shapes that the config says.
pub(in crate::catalog) fn check(
    weights: &WeightSet,
    cfg: &KlVaeConfig,
) -> Result<(), CatalogError> {
    match KlVaeKeys::of(weights) {
        Some(keys) => check_named(weights, keys, cfg.block_out_channels.len(), tensors(cfg)),
        None => weights.expect("decoder.conv_in.weight", &[]),
    }
}

/// The same of the tensors that a picture's or a clip's autoencoder of so many levels has.
pub(super) fn check_named(
    weights: &WeightSet,
    mut keys: KlVaeKeys,
    levels: usize,
    tensors: Vec<(String, Vec<u64>)>,
) -> Result<(), CatalogError> {
    let found = keys.levels;
    keys.levels = levels;
    for (name, shape) in tensors {
        let key = keys.file_key(&name);
        // The attention's matrices are convolutions of one pixel to some, and matrices to others.
        let is_matrix = name.contains(".attn_1.")
            && shape.len() > 2
            && weights
                .tensors
                .get(&key)
                .is_some_and(|entry| entry.shape.len() == 2);
        weights.expect(&key, if is_matrix { &shape[..2] } else { &shape })?;
    }
    if found > levels {
        return Err(CatalogError::Config {
            reason: format!("expected {levels} levels by the config, found {found}"),
            path: weights.files.first().cloned().unwrap_or_default(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_diffusers_are_those_of_the_file() {
        for (original, new, old) in [
            (
                "decoder.up.3.block.0.nin_shortcut.bias",
                "decoder.up_blocks.0.resnets.0.conv_shortcut.bias",
                "decoder.up_blocks.0.resnets.0.conv_shortcut.bias",
            ),
            (
                "encoder.mid.attn_1.proj_out.weight",
                "encoder.mid_block.attentions.0.to_out.0.weight",
                "encoder.mid_block.attentions.0.proj_attn.weight",
            ),
            (
                "decoder.mid.attn_1.q.bias",
                "decoder.mid_block.attentions.0.to_q.bias",
                "decoder.mid_block.attentions.0.query.bias",
            ),
            (
                "encoder.down.1.downsample.conv.weight",
                "encoder.down_blocks.1.downsamplers.0.conv.weight",
                "encoder.down_blocks.1.downsamplers.0.conv.weight",
            ),
            (
                "encoder.norm_out.bias",
                "encoder.conv_norm_out.bias",
                "encoder.conv_norm_out.bias",
            ),
            ("quant_conv.bias", "quant_conv.bias", "quant_conv.bias"),
        ] {
            for (dialect, expected) in [(Dialect::Diffusers, new), (Dialect::OldDiffusers, old)] {
                assert_eq!(diffusers_from_original(original, 4, dialect), expected);
            }
        }
    }
}
