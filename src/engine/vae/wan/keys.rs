//! The key dialects of Wan's autoencoder: the authors' own names, which the fields follow, and diffusers'.
//!
//! Nothing else in this folder knows a key of diffusers.

use crate::weights::Weights;

/// Lets `weights` be asked with the authors' names, whichever dialect the file is written in.
pub(super) fn original_names(weights: &Weights) -> Weights {
    if weights.has("conv2.weight") || weights.has("conv1.weight") {
        weights.clone()
    } else {
        weights.translated(diffusers_from_original)
    }
}

/// `decoder.upsamples.0.upsamples.3.time_conv.bias` → `decoder.up_blocks.0.upsampler.time_conv.bias`.
fn diffusers_from_original(original: &str) -> String {
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
            level_part([half, "down_blocks", level], "downsampler", index, rest)
        }
        [half, "upsamples", level, "upsamples", index, rest @ ..] => {
            level_part([half, "up_blocks", level], "upsampler", index, rest)
        }
        _ => original.to_owned(),
    }
}

/// A level is a list of residual blocks with the resampler as its last entry; diffusers names them apart.
fn level_part(level: [&str; 3], resampler: &str, index: &str, rest: &[&str]) -> String {
    let [half, blocks, number] = level;
    if matches!(rest, ["residual" | "shortcut", ..]) {
        join(&[half, blocks, number, "resnets", index], &residual(rest))
    } else {
        join(&[half, blocks, number, resampler], rest)
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

/// Which half of the autoencoder a key of either dialect belongs to.
pub(super) fn is_of_encoder(key: &str) -> bool {
    ["encoder.", "quant_conv.", "conv1."]
        .iter()
        .any(|start| key.starts_with(start))
}

pub(super) fn is_of_decoder(key: &str) -> bool {
    ["decoder.", "post_quant_conv.", "conv2."]
        .iter()
        .any(|start| key.starts_with(start))
}
