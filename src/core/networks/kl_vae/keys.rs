//! Tensor names of an image autoencoder: the authors', and diffusers', old and new.
//!
//! Any may have a prefix, in a file with other networks. HunyuanVideo's are the same with a `conv` within each causal
//! convolution. Contains no shapes.

use crate::networks::header::{join, prefix_before};
use std::collections::BTreeSet;

use crate::formats::weights::WeightSet;
use crate::networks::vae::VaeHalf;

/// Dialects of an autoencoder's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KlVaeDialect {
    Authors,
    Diffusers,
    /// Of before its attention layers were all one.
    OldDiffusers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KlVaeKeys {
    /// Prefix of every name: `vae.`, or nothing.
    pub prefix: String,
    dialect: KlVaeDialect,
    /// The convolutions next to the latents are named as parts of the halves: `encoder.quant_conv`.
    has_inner_convs: bool,
    /// Number of levels, since the authors count the decoder's from the other end.
    pub(super) levels: usize,
}

impl KlVaeKeys {
    /// The dialect of a file with these keys; `None` where there is no such autoencoder.
    pub fn detect<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        Self::detect_with(keys, &["decoder.conv_in.weight", "encoder.conv_in.weight"])
    }

    /// Names of HunyuanVideo's autoencoder, which are these with a `conv` within each causal convolution:
    /// `decoder.up.3.block.0.conv1.conv.weight`, `encoder.down.0.downsample.conv.conv.weight`.
    pub fn detect_video<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        Self::detect_with(
            keys,
            &["decoder.conv_in.conv.weight", "encoder.conv_in.conv.weight"],
        )
    }

    /// `marks`: either half may be in a separate file. All dialects have these.
    fn detect_with<'a>(
        keys: impl Iterator<Item = &'a str> + Clone,
        marks: &[&str],
    ) -> Option<Self> {
        let prefix = prefix_before(keys.clone(), marks)?;
        let own = keys.filter_map(|key| key.strip_prefix(prefix));
        let has = |part: &str| own.clone().any(|key| key.contains(part));
        let dialect = if !has("coder.mid_block.") {
            KlVaeDialect::Authors
        } else if has("mid_block.attentions.0.query.weight") {
            KlVaeDialect::OldDiffusers
        } else {
            KlVaeDialect::Diffusers
        };
        Some(Self {
            prefix: prefix.to_owned(),
            dialect,
            has_inner_convs: has("coder.quant_conv.") || has("coder.post_quant_conv."),
            levels: levels(own),
        })
    }

    /// The names for a config of a number of levels, whatever the file has.
    pub fn of_levels(&self, levels: usize) -> Self {
        Self {
            levels,
            ..self.clone()
        }
    }

    /// The file's name of the tensor that the authors call `original`.
    pub fn file_key(&self, original: &str) -> String {
        let half = match original.split('.').next() {
            Some("quant_conv") if self.has_inner_convs => VaeHalf::Encoder.name(),
            Some("post_quant_conv") if self.has_inner_convs => VaeHalf::Decoder.name(),
            _ => "",
        };
        if !half.is_empty() {
            return format!("{}{half}.{original}", self.prefix);
        }
        let own = match self.dialect {
            KlVaeDialect::Authors => original.to_owned(),
            dialect => diffusers_from_original(original, self.levels, dialect),
        };
        format!("{}{own}", self.prefix)
    }

    pub fn from_weights(weights: &WeightSet) -> Option<Self> {
        Self::detect(weights.tensors.keys().map(String::as_str))
    }

    pub fn of_video(weights: &WeightSet) -> Option<Self> {
        Self::detect_video(weights.tensors.keys().map(String::as_str))
    }

    /// Returns true if a file has a norm within a block of either half: autoencoders of other kinds have other norms.
    pub(in crate::networks) fn has_norms(&self, weights: &WeightSet) -> bool {
        VaeHalf::BOTH.iter().any(|half| {
            let norm = format!("{}.mid.block_1.norm1.weight", half.name());
            weights.has(&self.file_key(&norm))
        })
    }
}

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
    // Gaps make the file unusable anyway; a huge number must not become a length.
    (0..indices.len())
        .take_while(|index| indices.contains(index))
        .count()
}

/// `decoder.up.3.block.0.nin_shortcut.bias` → `decoder.up_blocks.0.resnets.0.conv_shortcut.bias` of four levels
fn diffusers_from_original(original: &str, levels: usize, dialect: KlVaeDialect) -> String {
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

fn attention_part(name: &str, dialect: KlVaeDialect) -> &str {
    match (name, dialect) {
        ("norm", _) => "group_norm",
        ("q", KlVaeDialect::OldDiffusers) => "query",
        ("k", KlVaeDialect::OldDiffusers) => "key",
        ("v", KlVaeDialect::OldDiffusers) => "value",
        ("proj_out", KlVaeDialect::OldDiffusers) => "proj_attn",
        ("q", _) => "to_q",
        ("k", _) => "to_k",
        ("v", _) => "to_v",
        ("proj_out", _) => "to_out.0",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_diffusers_are_those_of_the_file() {
        for (original, theirs) in crate::testing::table(
            "decoder.up.3.block.0.nin_shortcut.bias -> decoder.up_blocks.0.resnets.0.conv_shortcut.bias
             encoder.mid.attn_1.proj_out.weight -> encoder.mid_block.attentions.0.to_out.0.weight, encoder.mid_block.attentions.0.proj_attn.weight
             decoder.mid.attn_1.q.bias -> decoder.mid_block.attentions.0.to_q.bias, decoder.mid_block.attentions.0.query.bias
             encoder.down.1.downsample.conv.weight -> encoder.down_blocks.1.downsamplers.0.conv.weight
             encoder.norm_out.bias -> encoder.conv_norm_out.bias
             quant_conv.bias -> quant_conv.bias",
        ) {
            let (new, old) = theirs.split_once(", ").unwrap_or((theirs, theirs));
            for (dialect, expected) in
                [(KlVaeDialect::Diffusers, new), (KlVaeDialect::OldDiffusers, old)]
            {
                assert_eq!(diffusers_from_original(original, 4, dialect), expected);
            }
        }
    }
}
