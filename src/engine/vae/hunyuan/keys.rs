//! The names of the autoencoder's tensors: diffusers', which the authors' file has too, and those of latent diffusion,
//! which ComfyUI's has. The code asks with the first.
//!
//! Either may stand behind a prefix, in a file that holds other networks too.

use crate::weights::Weights;

/// ComfyUI counts the decoder's levels from the other end.
const LAST_LEVEL: usize = 3;

/// A tensor that either half has.
const MARKS: [&str; 2] = ["decoder.conv_in.conv.weight", "encoder.conv_in.conv.weight"];

/// diffusers' and ComfyUI's names within a level or the middle.
const RENAMED: [(&str, &str); 12] = [
    (".mid_block.attentions.0.group_norm.", ".mid.attn_1.norm."),
    (".mid_block.attentions.0.to_q.", ".mid.attn_1.q."),
    (".mid_block.attentions.0.to_k.", ".mid.attn_1.k."),
    (".mid_block.attentions.0.to_v.", ".mid.attn_1.v."),
    (".mid_block.attentions.0.to_out.0.", ".mid.attn_1.proj_out."),
    (".mid_block.resnets.0.", ".mid.block_1."),
    (".mid_block.resnets.1.", ".mid.block_2."),
    (".resnets.", ".block."),
    (".downsamplers.0.", ".downsample."),
    (".upsamplers.0.", ".upsample."),
    (".conv_shortcut.", ".nin_shortcut."),
    (".conv_norm_out.", ".norm_out."),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Encoder,
    Decoder,
}

/// Lets `weights` be asked with diffusers' names, whichever dialect the file is written in.
pub(super) fn diffusers_names(weights: &Weights) -> Weights {
    let prefix = prefix(weights);
    let is_comfy = weights
        .keys()
        .filter_map(|key| key.strip_prefix(&prefix))
        .any(|key| key.contains("coder.mid.block_1."));
    if prefix.is_empty() && !is_comfy {
        return weights.clone();
    }
    weights.translated(move |key| {
        let own = if is_comfy {
            comfy_key(key)
        } else {
            key.to_owned()
        };
        format!("{prefix}{own}")
    })
}

/// Keys of the autoencoder that nobody asked for, without those of one half.
pub(super) fn unexpected(weights: &Weights, other_half: Half) -> Vec<String> {
    let starts = match other_half {
        Half::Encoder => ["encoder.", "quant_conv."],
        Half::Decoder => ["decoder.", "post_quant_conv."],
    };
    let prefix = prefix(weights);
    let mut unexpected = weights.finish();
    // A file with a prefix holds other networks too.
    unexpected.retain(|key| {
        key.strip_prefix(&prefix)
            .is_some_and(|key| !starts.iter().any(|start| key.starts_with(start)))
    });
    unexpected
}

fn prefix(weights: &Weights) -> String {
    let found = weights
        .keys()
        .find_map(|key| MARKS.iter().find_map(|mark| key.strip_suffix(mark)));
    found.unwrap_or_default().to_owned()
}

fn comfy_key(key: &str) -> String {
    let mut name = key.replace(".down_blocks.", ".down.");
    if let Some((half, rest)) = name.split_once(".up_blocks.")
        && let Some((level, rest)) = rest.split_once('.')
        && let Some(level) = level.parse().ok().and_then(|n| LAST_LEVEL.checked_sub(n))
    {
        name = format!("{half}.up.{level}.{rest}");
    }
    for (theirs, comfy) in RENAMED {
        name = name.replace(theirs, comfy);
    }
    name
}
