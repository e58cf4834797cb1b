//! The key dialects of Wan's autoencoders: the authors' own names, which the fields follow, and diffusers'.
//!
//! Wan 2.2 names a level's parts inside of it, Wan 2.1 has one flat list of the parts of all levels. Either may stand
//! behind a prefix, in a file that holds other networks too. Nothing else in this folder knows a key of diffusers.

use super::config::WanVaeConfig;
use crate::weights::Weights;

/// Lets `weights` be asked with the authors' names, whichever dialect the file is written in and wherever in it the
/// autoencoder is.
pub(super) fn original_names(weights: &Weights, cfg: &WanVaeConfig) -> Weights {
    let Some((prefix, is_original)) = found_at(weights) else {
        // Nothing is there: what is asked for first will be named as missing.
        return weights.clone();
    };
    if is_original && prefix.is_empty() {
        return weights.clone();
    }
    let prefix = prefix.to_owned();
    // Of the flat list of Wan 2.1: a level's residual blocks and the step to the next.
    let parts_per_level = cfg.num_res_blocks + 2;
    weights.translated(move |original| {
        let own = if is_original {
            original.to_owned()
        } else {
            diffusers_from_original(original, parts_per_level)
        };
        format!("{prefix}{own}")
    })
}

/// What comes before every key, `vae.` or nothing, and whether the names are the authors'.
fn found_at(weights: &Weights) -> Option<(&str, bool)> {
    // Either half may be in a file of its own.
    const FIRST_KEYS: [(&str, bool); 4] = [
        ("decoder.conv1.weight", true),
        ("encoder.conv1.weight", true),
        ("decoder.conv_in.weight", false),
        ("encoder.conv_in.weight", false),
    ];
    let ends = |key: &'_ str| {
        FIRST_KEYS.iter().find_map(|&(end, is_original)| {
            let prefix_len = key.strip_suffix(end)?.len();
            Some((prefix_len, is_original))
        })
    };
    weights
        .keys()
        .filter_map(|key| ends(key).map(|(len, is_original)| (&key[..len], is_original)))
        .filter(|(prefix, _)| prefix.is_empty() || prefix.ends_with('.'))
        .min_by_key(|(prefix, _)| prefix.len())
}

/// `decoder.upsamples.0.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsampler.time_conv.bias`, in the flat list
/// of Wan 2.1 `decoder.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsamplers.0.time_conv.bias`.
fn diffusers_from_original(original: &str, parts_per_level: i64) -> String {
    let parts: Vec<&str> = original.split('.').collect();
    match parts.as_slice() {
        // One convolution right behind the encoder and one right before the decoder.
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
            let index: i64 = index.parse().unwrap_or(-1);
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

fn join(head: &[&str], tail: &[&str]) -> String {
    [head, tail].concat().join(".")
}

/// Keys of the autoencoder that nobody asked for, without those of one half.
pub(super) fn unexpected(weights: &Weights, other_half: Half) -> Vec<String> {
    let starts = match other_half {
        Half::Encoder => ["encoder.", "quant_conv.", "conv1."],
        Half::Decoder => ["decoder.", "post_quant_conv.", "conv2."],
    };
    let prefix = found_at(weights).map_or("", |(prefix, _)| prefix);
    let mut unexpected = weights.finish();
    // A file with a prefix holds other networks too.
    unexpected.retain(|key| {
        key.strip_prefix(prefix)
            .is_some_and(|key| !starts.iter().any(|start| key.starts_with(start)))
    });
    unexpected
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Encoder,
    Decoder,
}
