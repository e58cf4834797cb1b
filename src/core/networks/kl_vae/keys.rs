//! Tensor names of an image autoencoder: the authors', and diffusers', old and new.
//!
//! Any may have a prefix, in a file with other networks. HunyuanVideo's are the same with a `conv` within each causal
//! convolution. Contains no shapes.

use std::collections::BTreeSet;

use crate::networks::dialects::renamed_by_patterns;
use crate::networks::prelude::*;
use crate::networks::vae::VaeHalf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KlVaeKeys {
    /// Prefix of every name: `vae.`, or nothing.
    pub prefix: String,
    /// diffusers' names within blocks, of after or of before its attention layers were all one; `None`: the authors' names.
    layers: Option<&'static [NamePair]>,
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
        let is_old = has("mid_block.attentions.0.query.weight");
        let layers = if is_old {
            OLD_DIFFUSERS_LAYERS
        } else {
            DIFFUSERS_LAYERS
        };
        Some(Self {
            prefix: prefix.to_owned(),
            layers: has("coder.mid_block.").then_some(layers),
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
        let own = self.layers.map_or_else(
            || original.to_owned(),
            |layers| diffusers_from_original(original, self.levels, layers),
        );
        format!("{}{own}", self.prefix)
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

/// diffusers' names of what is within a half.
const DIFFUSERS: &[NamePair] = names! {
    "*.down.*.block.*" => "*.down_blocks.*.resnets.*",
    "*.down.*.downsample" => "*.down_blocks.*.downsamplers.0",
    "*.up.*.block.*" => "*.up_blocks.*.resnets.*",
    "*.up.*.upsample" => "*.up_blocks.*.upsamplers.0",
    "*.mid.block_1" => "*.mid_block.resnets.0",
    "*.mid.block_2" => "*.mid_block.resnets.1",
    "*.mid.attn_1" => "*.mid_block.attentions.0",
    "*.norm_out" => "*.conv_norm_out",
};
/// Names within a residual block and an attention.
const DIFFUSERS_LAYERS: &[NamePair] = names! {
    "nin_shortcut" => "conv_shortcut",
    "norm" => "group_norm",
    "q" => "to_q",
    "k" => "to_k",
    "v" => "to_v",
    "proj_out" => "to_out.0",
};
const OLD_DIFFUSERS_LAYERS: &[NamePair] = names! {
    "nin_shortcut" => "conv_shortcut",
    "norm" => "group_norm",
    "q" => "query",
    "k" => "key",
    "v" => "value",
    "proj_out" => "proj_attn",
};

/// `decoder.up.3.block.0.nin_shortcut.bias` → `decoder.up_blocks.0.resnets.0.conv_shortcut.bias` of four levels
fn diffusers_from_original(original: &str, levels: usize, layers: &[NamePair]) -> String {
    // diffusers counts the decoder's levels from the latents.
    let from_latents = |rest: &str| {
        let (level, rest) = rest.split_once('.')?;
        let level = levels.checked_sub(level.parse::<usize>().ok()? + 1)?;
        Some(format!("decoder.up.{level}.{rest}"))
    };
    let turned = original.strip_prefix("decoder.up.").and_then(from_latents);
    renamed_by_patterns(turned.as_deref().unwrap_or(original), DIFFUSERS, &[layers])
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
            for (layers, expected) in [(DIFFUSERS_LAYERS, new), (OLD_DIFFUSERS_LAYERS, old)] {
                assert_eq!(diffusers_from_original(original, 4, layers), expected);
            }
        }
    }
}
