//! Which model a LoRA was made for, by the names and sizes of its layers.
//!
//! Families that share names (Flux, HunyuanVideo, FramePack) differ in a few of them, and in their depths.

use super::file::LoraFile;
use super::keys::{self, Leaf, Scope};

/// A family of models, as far as a LoRA shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `wan`, `flux`, another family's short name, or empty.
    pub family: &'static str,
    /// Its name among people, with its size where that shows.
    pub label: String,
}

/// A short name, a name among people, and what only its layers are called: the name's beginning, where `#` is a
/// number, and the ends of that or nothing.
type Sign = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// The first that fits any layer wins, so the more special come first.
const SIGNS: &[Sign] = &[
    ("framepack", "FramePack", "clean_x_embedder", &[]),
    ("framepack", "FramePack", "image_projection", &[]),
    (
        "hunyuan",
        "HunyuanVideo",
        "txt_in_individual_token_refiner",
        &[],
    ),
    (
        "hunyuan",
        "HunyuanVideo",
        "context_embedder_token_refiner",
        &[],
    ),
    (
        "hunyuan",
        "HunyuanVideo",
        "double_blocks_#_",
        &["_mlp_fc1", "_mlp_fc2", "_mod_linear"],
    ),
    (
        "hunyuan",
        "HunyuanVideo",
        "single_blocks_#_",
        &["modulation_linear"],
    ),
    ("flux2", "Flux 2", "double_stream_modulation", &[]),
    ("flux2", "Flux 2", "single_stream_modulation", &[]),
    (
        "flux2",
        "Flux 2",
        "single_transformer_blocks_#_",
        &["to_qkv_mlp_proj"],
    ),
    ("chroma", "Chroma", "distilled_guidance_layer", &[]),
    ("qwen", "Qwen-Image", "transformer_blocks_#_img_m", &[]),
    ("ltx", "LTX-Video", "transformer_blocks_#_attn1_", &[]),
    ("sd3", "Stable Diffusion 3", "joint_blocks_#_", &[]),
    ("sd", "Stable Diffusion", "down_blocks_#_", &[]),
    ("sd", "Stable Diffusion", "up_blocks_#_", &[]),
    ("sd", "Stable Diffusion", "mid_block_", &[]),
    ("sd", "Stable Diffusion", "input_blocks_#_", &[]),
    ("sd", "Stable Diffusion", "output_blocks_#_", &[]),
    ("zimage", "Z-Image", "layers_#_attention", &[]),
    ("wan", "Wan", "blocks_#_self_attn_", &[]),
    ("wan", "Wan", "blocks_#_cross_attn_", &[]),
    ("wan", "Wan", "blocks_#_ffn_", &[]),
    ("wan", "Wan", "blocks_#_attn1_", &[]),
    ("wan", "Wan", "blocks_#_attn2_", &[]),
    ("flux", "Flux", "double_blocks_#_", &[]),
    ("flux", "Flux", "single_blocks_#_", &[]),
    ("flux", "Flux", "single_transformer_blocks_#_", &[]),
    ("flux", "Flux", "transformer_blocks_#_", &[]),
];

/// Numbers of the blocks that Flux does not have, and what does.
const BEYOND_FLUX: [(&str, usize); 4] = [
    ("double_blocks_#_", 19),
    ("transformer_blocks_#_", 19),
    ("single_blocks_#_", 38),
    ("single_transformer_blocks_#_", 38),
];

impl Origin {
    pub fn of(file: &LoraFile) -> Self {
        let names: Vec<Vec<String>> = file
            .layers
            .keys()
            .filter(|layer| keys::scope(layer) == Scope::Transformer)
            .map(|layer| keys::candidates(layer))
            .collect();
        let fits = |(_, _, start, ends): &&Sign| {
            names.iter().flatten().any(|name| {
                let rest = behind(name, start);
                rest.is_some_and(|(_, rest)| {
                    ends.is_empty() || ends.iter().any(|end| rest.ends_with(end))
                })
            })
        };
        let Some(&(family, label, ..)) = SIGNS.iter().find(fits) else {
            return Self {
                family: "",
                label: String::new(),
            };
        };
        let is_beyond = BEYOND_FLUX.iter().any(|(start, depth)| {
            let numbers = names
                .iter()
                .flatten()
                .filter_map(|name| behind(name, start));
            numbers
                .filter_map(|(number, _)| number)
                .any(|number| number >= *depth)
        });
        if family == "flux" && is_beyond {
            return Self {
                family: "hunyuan",
                label: "HunyuanVideo or another model with more blocks than Flux".to_owned(),
            };
        }
        let label = match (family, width(file)) {
            ("wan", Some(width)) => wan_label(width),
            _ => label.to_owned(),
        };
        Self { family, label }
    }
}

/// What a Wan model of a width is called.
pub(super) fn wan_label(width: u64) -> String {
    match width {
        1536 => "Wan 1.3B".to_owned(),
        3072 => "Wan 5B".to_owned(),
        5120 => "Wan 14B".to_owned(),
        width => format!("a Wan of width {width}"),
    }
}

/// The width of a Wan, which the outputs of its attention show.
fn width(file: &LoraFile) -> Option<u64> {
    file.layers.iter().find_map(|(layer, parts)| {
        let name = keys::normal(layer);
        let is_query = name.ends_with("self_attn_q") || name.ends_with("attn1_to_q");
        let up = parts.get(&Leaf::Up).or_else(|| parts.get(&Leaf::HadaW1A))?;
        is_query.then(|| file.shape(up).first().copied())?
    })
}

/// What stands behind `start`, and the number in the place of its `#`.
fn behind<'a>(name: &'a str, start: &str) -> Option<(Option<usize>, &'a str)> {
    let Some((before, after)) = start.split_once('#') else {
        return name.strip_prefix(start).map(|rest| (None, rest));
    };
    let rest = name.strip_prefix(before)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse().ok()?;
    rest[digits..]
        .strip_prefix(after)
        .map(|rest| (Some(number), rest))
}
