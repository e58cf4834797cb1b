//! The key dialects of the autoencoder: the authors' own names, which the fields follow, and diffusers', old and new.
//!
//! Either may stand behind a prefix, in a file that holds other networks too. Nothing else in this folder knows a key
//! of diffusers.

use crate::weights::Weights;

/// How a file names an autoencoder's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Authors,
    Diffusers,
    /// Of before its attention layers were all one.
    OldDiffusers,
}

/// Lets `weights` be asked with the authors' names, whichever dialect the file is written in and wherever in it the
/// autoencoder is. `levels`: how many there are, since the authors count the decoder's from the other end.
pub(super) fn original_names(weights: &Weights, levels: usize) -> Weights {
    let prefix = prefix(weights).unwrap_or_default();
    let dialect = dialect(weights, prefix);
    if dialect == Dialect::Authors && prefix.is_empty() {
        return weights.clone();
    }
    let prefix = prefix.to_owned();
    weights.translated(move |original| {
        let own = match dialect {
            Dialect::Authors => original.to_owned(),
            Dialect::Diffusers | Dialect::OldDiffusers => {
                diffusers_from_original(original, levels, dialect)
            }
        };
        format!("{prefix}{own}")
    })
}

/// What comes before every key, `vae.` or nothing; `None` where there is no such autoencoder.
fn prefix(weights: &Weights) -> Option<&str> {
    // Either half may be in a file of its own. Both dialects have these.
    const FIRST_KEYS: [&str; 2] = ["decoder.conv_in.weight", "encoder.conv_in.weight"];
    weights
        .keys()
        .filter_map(|key| FIRST_KEYS.iter().find_map(|end| key.strip_suffix(end)))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        .min_by_key(|prefix| prefix.len())
}

fn dialect(weights: &Weights, prefix: &str) -> Dialect {
    let own = || weights.keys().filter_map(|key| key.strip_prefix(prefix));
    if !own().any(|key| key.contains("coder.mid_block.")) {
        return Dialect::Authors;
    }
    let old = |key: &str| key.ends_with("mid_block.attentions.0.query.weight");
    if own().any(old) {
        Dialect::OldDiffusers
    } else {
        Dialect::Diffusers
    }
}

/// How many levels the file has.
pub(super) fn levels(weights: &Weights) -> usize {
    let prefix = prefix(weights).unwrap_or_default();
    let index = |key: &str| -> Option<usize> {
        let parts: Vec<&str> = key.strip_prefix(prefix)?.split('.').collect();
        match parts.as_slice() {
            ["encoder", "down" | "down_blocks", index, ..]
            | ["decoder", "up" | "up_blocks", index, ..] => index.parse().ok(),
            _ => None,
        }
    };
    let indices: std::collections::BTreeSet<usize> = weights.keys().filter_map(index).collect();
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

/// Keys of the autoencoder that nobody asked for, without those of one half.
pub(super) fn unexpected(weights: &Weights, other_half: Half) -> Vec<String> {
    let starts = match other_half {
        Half::Encoder => ["encoder.", "quant_conv."],
        Half::Decoder => ["decoder.", "post_quant_conv."],
    };
    let prefix = prefix(weights).unwrap_or_default();
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
