//! The names of a FramePack transformer's layers in LoRAs for it and for HunyuanVideo: the authors', diffusers' and
//! those that the engine asks with, from the catalogue's own table of them.
//!
//! Has no shapes and no numbers of blocks.

use super::names::{Name, Names, Share};
use crate::catalog::framepack::keys::{FramePackDialect, FramePackTransformerKeys};

/// Within a block or outside of all, in the names that the engine asks with. Parts of one matrix are told by it.
const OUTER: [&str; 19] = [
    "img_in.proj",
    "time_in.in_layer",
    "time_in.out_layer",
    "guidance_in.in_layer",
    "guidance_in.out_layer",
    "vector_in.in_layer",
    "vector_in.out_layer",
    "txt_in.input_embedder",
    "txt_in.t_embedder.in_layer",
    "txt_in.t_embedder.out_layer",
    "txt_in.c_embedder.in_layer",
    "txt_in.c_embedder.out_layer",
    "clean_x_embedder.proj",
    "clean_x_embedder.proj_2x",
    "clean_x_embedder.proj_4x",
    "image_projection.up",
    "image_projection.down",
    "final_layer.linear",
    SWAPPED,
];
/// Whose halves, shift and scale, diffusers has the other way round.
const SWAPPED: &str = "final_layer.adaLN_modulation.1";

const REFINER: [&str; 7] = [
    "norm1",
    "norm2",
    "self_attn.qkv",
    "self_attn.proj",
    "mlp.0",
    "mlp.2",
    "adaLN_modulation.1",
];

const DOUBLE: [&str; 14] = [
    "img_mod.lin",
    "txt_mod.lin",
    "img_attn.qkv",
    "txt_attn.qkv",
    "img_attn.norm.query_norm.scale",
    "img_attn.norm.key_norm.scale",
    "txt_attn.norm.query_norm.scale",
    "txt_attn.norm.key_norm.scale",
    "img_attn.proj",
    "txt_attn.proj",
    "img_mlp.0",
    "img_mlp.2",
    "txt_mlp.0",
    "txt_mlp.2",
];

const SINGLE: [&str; 5] = [
    "modulation.lin",
    "linear1",
    "linear2",
    "norm.query_norm.scale",
    "norm.key_norm.scale",
];

/// A list of blocks: the engine's name of it, diffusers', a tensor that every block has, and the layers in one.
type List = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const LISTS: [List; 4] = [
    ("", &[], "img_in.proj.weight", &OUTER),
    (
        "txt_in.individual_token_refiner.blocks.{}.",
        &["context_embedder.token_refiner.refiner_blocks.{}."],
        "self_attn.proj.weight",
        &REFINER,
    ),
    (
        "double_blocks.{}.",
        &["transformer_blocks.{}."],
        "img_attn.proj.weight",
        &DOUBLE,
    ),
    (
        "single_blocks.{}.",
        &["single_transformer_blocks.{}."],
        "linear2.weight",
        &SINGLE,
    ),
];

/// The parts of a fused layer, and which rows each of them is.
fn parts_of(own: &str) -> (&'static [&'static str], &'static [(&'static str, Share)]) {
    match own {
        "img_attn.qkv" | "txt_attn.qkv" | "self_attn.qkv" => (
            &["q", "k", "v"],
            &[
                ("q", Share::Third(0)),
                ("k", Share::Third(1)),
                ("v", Share::Third(2)),
            ],
        ),
        "linear1" => (
            &["q", "k", "v", "mlp"],
            &[
                ("q", Share::Seventh(0)),
                ("k", Share::Seventh(1)),
                ("v", Share::Seventh(2)),
                ("mlp", Share::MlpOfSeven),
            ],
        ),
        _ => (&[], &[]),
    }
}

/// The layers of the transformer, one entry for each kind of block.
pub(super) fn names(is_diffusers: bool) -> Vec<Names> {
    LISTS
        .iter()
        .map(|(own, others, mark, layers)| {
            let layers = layers.iter().map(|layer| name(own, layer, is_diffusers));
            Names::new(own, others, mark, layers.collect())
        })
        .collect()
}

fn name(list: &str, own: &'static str, is_diffusers: bool) -> Name {
    let is_matrix = own.rsplit('.').next() != Some("scale") && !own.starts_with("norm");
    let is_norm = matches!(own, "norm1" | "norm2");
    let (parts, shares) = parts_of(own);
    let start = list.replace("{}", "0");
    // What another dialect calls it behind the number of its block.
    let other = |dialect: FramePackDialect, name: &str| {
        let keys = FramePackTransformerKeys {
            prefix: "",
            dialect,
        };
        let end = if is_matrix || is_norm { ".weight" } else { "" };
        let key = keys.file_key(&format!("{start}{name}{end}"));
        let (_, name) = key
            .split_once(".0.")
            .filter(|_| !list.is_empty())
            .unwrap_or(("", &key));
        name.strip_suffix(".weight").unwrap_or(name).to_owned()
    };
    let hunyuan = other(FramePackDialect::Hunyuan, own);
    let mut others = vec![(hunyuan, Share::All)];
    if shares.is_empty() {
        let theirs = other(FramePackDialect::Diffusers, own);
        let share = if own == SWAPPED && !is_diffusers {
            Share::Swapped
        } else {
            Share::All
        };
        others.push((theirs, share));
        if own == SWAPPED && is_diffusers {
            // The later entry of a name counts.
            others.push((own.to_owned(), Share::Swapped));
        }
    } else {
        for (part, share) in shares {
            let theirs = other(FramePackDialect::Diffusers, &format!("{own}.{part}"));
            others.push((theirs, *share));
        }
    }
    Name::new(own, parts, is_matrix, others)
}
