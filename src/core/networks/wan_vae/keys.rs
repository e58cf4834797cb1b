//! Tensor names of Wan's autoencoders: the authors', and diffusers'.
//!
//! Wan 2.2 names a level's parts within it, Wan 2.1 has one flat list of the parts of all levels. Either may have a
//! prefix, in a file with other networks. Contains no shapes.

use super::WanVaeConfig;
use crate::formats::weights::WeightSet;
use crate::networks::header::{join, prefix_before};

/// A tensor that either half has; the first two are the authors'.
const MARKS: [&str; 4] = [
    "decoder.conv1.weight",
    "encoder.conv1.weight",
    "decoder.conv_in.weight",
    "encoder.conv_in.weight",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WanVaeKeys {
    /// Prefix of every name: `vae.`, or nothing.
    pub prefix: String,
    is_original: bool,
    /// Of a level of the decoder, in the flat list of Wan 2.1: its residual blocks and the step to the next.
    parts_per_level: i64,
}

impl WanVaeKeys {
    /// The dialect of a file with these keys, after the shortest prefix; `None` where no such autoencoder can be.
    pub fn detect<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let prefix = prefix_before(keys.clone(), &MARKS)?;
        let mut own = keys.filter_map(|key| key.strip_prefix(prefix));
        Some(Self {
            is_original: own.any(|key| MARKS[..2].contains(&key)),
            prefix: prefix.to_owned(),
            ..Self::diffusers()
        })
    }

    /// Those of a file, or diffusers' where it has no such autoencoder.
    pub fn of(weights: &WeightSet) -> Self {
        Self::detect(weights.tensors.keys().map(String::as_str)).unwrap_or_else(Self::diffusers)
    }

    /// The names for an autoencoder of other numbers than the published ones.
    pub fn of_levels(&self, cfg: &WanVaeConfig) -> Self {
        Self {
            parts_per_level: cfg.num_res_blocks + 2,
            ..self.clone()
        }
    }

    /// The file's name of the tensor that the authors call `original`.
    pub fn file_key(&self, original: &str) -> String {
        let own = if self.is_original {
            original.to_owned()
        } else {
            diffusers_from_original(original, self.parts_per_level)
        };
        format!("{}{own}", self.prefix)
    }

    /// Returns true if these are names of Wan's own: every video autoencoder has some of the others.
    pub(super) fn has_marks(&self, weights: &WeightSet) -> bool {
        [
            "conv2.weight",
            "decoder.head.2.weight",
            "decoder.head.0.gamma",
        ]
        .iter()
        .all(|name| weights.has(&self.file_key(name)))
    }

    fn diffusers() -> Self {
        Self {
            prefix: String::new(),
            is_original: false,
            parts_per_level: WanVaeConfig::default().num_res_blocks + 2,
        }
    }
}

/// `decoder.upsamples.0.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsampler.time_conv.bias`, in the flat list
/// of Wan 2.1 `decoder.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsamplers.0.time_conv.bias`.
fn diffusers_from_original(original: &str, parts_per_level: i64) -> String {
    let parts: Vec<&str> = original.split('.').collect();
    match parts.as_slice() {
        // One convolution right after the encoder and one right before the decoder.
        ["conv1", rest @ ..] => join(&["quant_conv"], rest),
        ["conv2", rest @ ..] => join(&["post_quant_conv"], rest),
        [half, "conv1", rest @ ..] => join(&[half, "conv_in"], rest),
        [half, "head", "0", rest @ ..] => join(&[half, "norm_out"], rest),
        [half, "head", "2", rest @ ..] => join(&[half, "conv_out"], rest),
        [half, "middle", "1", rest @ ..] => join(&[half, "mid_block", "attentions", "0"], rest),
        [half, "middle", index, rest @ ..] => {
            let resnet = if *index == "0" { "0" } else { "1" };
            join(&[half, "mid_block", "resnets", resnet], &residual(rest))
        }
        [half, "downsamples", level, "downsamples", index, rest @ ..] => {
            level_part([half, "down_blocks", level], &["downsampler"], index, rest)
        }
        [half, "upsamples", level, "upsamples", index, rest @ ..] => {
            level_part([half, "up_blocks", level], &["upsampler"], index, rest)
        }
        [half, "downsamples", index, rest @ ..] => {
            join(&[half, "down_blocks", index], &residual(rest))
        }
        [half, "upsamples", index, rest @ ..] => {
            let Ok(index) = index.parse::<i64>() else {
                return original.to_owned();
            };
            let level = (index / parts_per_level).to_string();
            let index = (index % parts_per_level).to_string();
            let level = [half, "up_blocks", &level];
            level_part(level, &["upsamplers", "0"], &index, rest)
        }
        _ => original.to_owned(),
    }
}

/// A level is a list of residual blocks with the resampler as its last entry; diffusers names them apart.
fn level_part(level: [&str; 3], resampler: &[&str], index: &str, rest: &[&str]) -> String {
    let [half, blocks, number] = level;
    if matches!(rest, ["residual" | "shortcut", ..]) {
        join(&[half, blocks, number, "resnets", index], &residual(rest))
    } else {
        join(&[&[half, blocks, number], resampler].concat(), rest)
    }
}

/// The authors number the layers of a residual block; 1, 4 and 5 have no weights.
fn residual<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    let (name, leaf) = match rest {
        ["residual", "0", leaf @ ..] => ("norm1", leaf),
        ["residual", "2", leaf @ ..] => ("conv1", leaf),
        ["residual", "3", leaf @ ..] => ("norm2", leaf),
        ["residual", "6", leaf @ ..] => ("conv2", leaf),
        ["shortcut", leaf @ ..] => ("conv_shortcut", leaf),
        _ => return rest.to_vec(),
    };
    std::iter::once(name).chain(leaf.iter().copied()).collect()
}
