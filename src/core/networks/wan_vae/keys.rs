//! Tensor names of Wan's autoencoders: the authors', and diffusers'.
//!
//! Wan 2.2 names a level's parts within it, Wan 2.1 has one flat list of the parts of all levels. Either may have a
//! prefix, in a file with other networks. Contains no shapes.

use super::WanVaeConfig;
use crate::networks::dialects::renamed_by_patterns;
use crate::networks::prelude::*;

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
    pub(super) is_original: bool,
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

/// diffusers' names. The authors' flat list of a decoder has been cut into levels before, each a `flat` list.
const DIFFUSERS: &[NamePair] = names! {
    "conv1" => "quant_conv",
    "conv2" => "post_quant_conv",
    "*.conv1" => "*.conv_in",
    "*.head.0" => "*.norm_out",
    "*.head.2" => "*.conv_out",
    "*.middle.0" => "*.mid_block.resnets.0",
    "*.middle.1" => "*.mid_block.attentions.0",
    "*.middle.2" => "*.mid_block.resnets.1",
    "*.downsamples.*.downsamples.*.resample" => "*.down_blocks.*.downsampler.resample",
    "*.downsamples.*.downsamples.*.time_conv" => "*.down_blocks.*.downsampler.time_conv",
    "*.downsamples.*.downsamples.*" => "*.down_blocks.*.resnets.*",
    "*.upsamples.*.upsamples.*.resample" => "*.up_blocks.*.upsampler.resample",
    "*.upsamples.*.upsamples.*.time_conv" => "*.up_blocks.*.upsampler.time_conv",
    "*.upsamples.*.upsamples.*" => "*.up_blocks.*.resnets.*",
    "*.upsamples.*.flat.*.resample" => "*.up_blocks.*.upsamplers.0.resample",
    "*.upsamples.*.flat.*.time_conv" => "*.up_blocks.*.upsamplers.0.time_conv",
    "*.upsamples.*.flat.*" => "*.up_blocks.*.resnets.*",
    "*.downsamples.*" => "*.down_blocks.*",
};
/// Layers of a residual block, which the authors number; 1, 4 and 5 have no weights.
const DIFFUSERS_LAYERS: &[NamePair] = names! {
    "residual.0" => "norm1",
    "residual.2" => "conv1",
    "residual.3" => "norm2",
    "residual.6" => "conv2",
    "shortcut" => "conv_shortcut",
};

/// `decoder.upsamples.0.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsampler.time_conv.bias`, in the flat list
/// of Wan 2.1 `decoder.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsamplers.0.time_conv.bias`.
fn diffusers_from_original(original: &str, parts_per_level: i64) -> String {
    let in_level = |rest: &str| {
        let (number, rest) = rest.split_once('.')?;
        let number = number
            .parse::<i64>()
            .ok()
            .filter(|_| !rest.starts_with("upsamples."))?;
        let (level, part) = (number / parts_per_level, number % parts_per_level);
        Some(format!("decoder.upsamples.{level}.flat.{part}.{rest}"))
    };
    let cut = original
        .strip_prefix("decoder.upsamples.")
        .and_then(in_level);
    renamed_by_patterns(
        cut.as_deref().unwrap_or(original),
        DIFFUSERS,
        &[DIFFUSERS_LAYERS],
    )
}
