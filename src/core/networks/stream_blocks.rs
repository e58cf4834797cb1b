//! What the transformers of Flux, Chroma and HunyuanVideo have in common: double and single blocks, embedders, the last layer.
//!
//! Double blocks have weights of their own for picture and text, single blocks have the same for both. Readers ask with
//! the names of Flux's authors, which ComfyUI gives HunyuanVideo's too. diffusers has several matrices in the place of
//! one; readers ask for parts of that one then: `img_attn.qkv.q`, `linear1.mlp`.

use std::collections::BTreeSet;

use super::{Role, Schema};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;

/// Width of the sinusoids of timestep and guidance.
pub const SINUSOIDS: i64 = 256;
/// Width of one head in every published transformer.
pub(super) const HEAD_DIM: i64 = 128;
/// In models with a guidance.
pub(super) const GUIDANCE: &str = "guidance_in.in_layer.weight";
/// How many numbers of such a head turn with each of a token's places.
pub(super) const AXES: [i64; 3] = [16, 56, 56];

/// What the families share of such a transformer: its blocks, and what all of them are told.
#[derive(Clone, Copy, Debug)]
pub struct StreamShape {
    /// Width of the hidden states.
    pub dim: i64,
    pub head_dim: i64,
    /// Width inside the feed-forward layers.
    pub mlp_dim: i64,
    /// How many double and single blocks there are.
    pub blocks: [i64; 2],
    /// `None` where a network of the family's own makes all modulations.
    pub told: Option<ToldShape>,
    pub style: StreamStyle,
}

/// What layers of the blocks' own make modulations of, beside the timestep.
#[derive(Clone, Copy, Debug)]
pub struct ToldShape {
    /// Width of the pooled text.
    pub pooled: i64,
    /// Whether guidance is an input of the model.
    pub guidance_embeds: bool,
}

/// How the blocks of such a transformer are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStyle {
    /// Layers have biases, and the feed-forward part is of two layers with GELU.
    Own,
    /// The blocks of a list share their modulations, nothing has a bias, and the feed-forward part is gated by SiLU: its
    /// first layer gives gates and values.
    Shared,
}

/// What the blocks of [`StreamStyle::Shared`] are told: the pictures' stream, the texts', and both as one.
pub const SHARED_MODULATIONS: [&str; 3] = [
    "double_stream_modulation_img",
    "double_stream_modulation_txt",
    "single_stream_modulation",
];

impl StreamShape {
    pub fn is_shared(&self) -> bool {
        self.style == StreamStyle::Shared
    }

    /// What the first layer of the feed-forward part gives.
    pub fn mlp_in(&self) -> i64 {
        match self.style {
            StreamStyle::Own => self.mlp_dim,
            StreamStyle::Shared => 2 * self.mlp_dim,
        }
    }

    /// A layer, with a bias where the blocks have them.
    fn layer(&self, schema: &mut Schema, name: &str, output: i64, input: i64) {
        schema.matrix(name, output, input);
        self.bias(schema, name, output);
    }

    /// A layer that makes modulations.
    pub(super) fn modulation(&self, schema: &mut Schema, name: &str, output: i64, input: i64) {
        schema.add(format!("{name}.weight"), &[output, input], Role::Modulation);
        self.bias(schema, name, output);
    }

    fn bias(&self, schema: &mut Schema, name: &str, output: i64) {
        if !self.is_shared() {
            schema.vector(&format!("{name}.bias"), output);
        }
    }
}

/// What a layer is called: by Flux's authors, HunyuanVideo's authors, and diffusers. Empty where a file has no such
/// layer.
pub(super) type Names = [&'static str; 3];
/// Where diffusers' name is among them.
pub(super) const DIFFUSERS: usize = 2;

/// A list of blocks: Flux's name of it, diffusers', and the layers in one block.
pub(super) type List = (&'static str, &'static str, &'static [Names]);

pub(super) const DOUBLE: List = ("double_blocks", "transformer_blocks", &DOUBLE_LAYERS);
pub(super) const SINGLE: List = ("single_blocks", "single_transformer_blocks", &SINGLE_LAYERS);

/// Outside the blocks. What all call the same is not listed.
pub(super) const OUTER: [Names; 9] = [
    ["img_in", "img_in", "x_embedder"],
    [
        "time_in.in_layer",
        "time_in.mlp.0",
        "time_text_embed.timestep_embedder.linear_1",
    ],
    [
        "time_in.out_layer",
        "time_in.mlp.2",
        "time_text_embed.timestep_embedder.linear_2",
    ],
    [
        "guidance_in.in_layer",
        "guidance_in.mlp.0",
        "time_text_embed.guidance_embedder.linear_1",
    ],
    [
        "guidance_in.out_layer",
        "guidance_in.mlp.2",
        "time_text_embed.guidance_embedder.linear_2",
    ],
    [
        "vector_in.in_layer",
        "vector_in.in_layer",
        "time_text_embed.text_embedder.linear_1",
    ],
    [
        "vector_in.out_layer",
        "vector_in.out_layer",
        "time_text_embed.text_embedder.linear_2",
    ],
    ["final_layer.linear", "final_layer.linear", "proj_out"],
    [
        "final_layer.adaLN_modulation.1",
        "final_layer.adaLN_modulation.1",
        "norm_out.linear",
    ],
];

const DOUBLE_LAYERS: [Names; 20] = [
    ["img_mod.lin", "img_mod.linear", "norm1.linear"],
    ["txt_mod.lin", "txt_mod.linear", "norm1_context.linear"],
    ["img_attn.qkv.q", "", "attn.to_q"],
    ["img_attn.qkv.k", "", "attn.to_k"],
    ["img_attn.qkv.v", "", "attn.to_v"],
    ["img_attn.qkv", "img_attn_qkv", ""],
    ["txt_attn.qkv.q", "", "attn.add_q_proj"],
    ["txt_attn.qkv.k", "", "attn.add_k_proj"],
    ["txt_attn.qkv.v", "", "attn.add_v_proj"],
    ["txt_attn.qkv", "txt_attn_qkv", ""],
    [
        "img_attn.norm.query_norm.scale",
        "img_attn_q_norm.weight",
        "attn.norm_q.weight",
    ],
    [
        "img_attn.norm.key_norm.scale",
        "img_attn_k_norm.weight",
        "attn.norm_k.weight",
    ],
    [
        "txt_attn.norm.query_norm.scale",
        "txt_attn_q_norm.weight",
        "attn.norm_added_q.weight",
    ],
    [
        "txt_attn.norm.key_norm.scale",
        "txt_attn_k_norm.weight",
        "attn.norm_added_k.weight",
    ],
    ["img_attn.proj", "img_attn_proj", "attn.to_out.0"],
    ["txt_attn.proj", "txt_attn_proj", "attn.to_add_out"],
    ["img_mlp.0", "img_mlp.fc1", "ff.net.0.proj"],
    ["img_mlp.2", "img_mlp.fc2", "ff.net.2"],
    ["txt_mlp.0", "txt_mlp.fc1", "ff_context.net.0.proj"],
    ["txt_mlp.2", "txt_mlp.fc2", "ff_context.net.2"],
];

const SINGLE_LAYERS: [Names; 9] = [
    ["modulation.lin", "modulation.linear", "norm.linear"],
    ["linear1.q", "", "attn.to_q"],
    ["linear1.k", "", "attn.to_k"],
    ["linear1.v", "", "attn.to_v"],
    ["linear1.mlp", "", "proj_mlp"],
    ["linear1", "linear1", ""],
    ["linear2", "linear2", "proj_out"],
    [
        "norm.query_norm.scale",
        "q_norm.weight",
        "attn.norm_q.weight",
    ],
    ["norm.key_norm.scale", "k_norm.weight", "attn.norm_k.weight"],
];

/// A name in the dialect of a column of [`Names`]: in one of `lists`, or else among those outside of all.
pub(super) fn renamed(name: &str, lists: &[List], outer: &[&[Names]], column: usize) -> String {
    for (list, diffusers, layers) in lists {
        let inner = name
            .strip_prefix(list)
            .and_then(|rest| rest.strip_prefix('.'))
            .and_then(|rest| rest.split_once('.'));
        if let Some((number, rest)) = inner {
            let list = if column == DIFFUSERS { diffusers } else { list };
            return format!("{list}.{number}.{}", layer_name(rest, *layers, column));
        }
    }
    layer_name(name, outer.iter().copied().flatten(), column)
}

fn layer_name<'a>(
    name: &str,
    layers: impl IntoIterator<Item = &'a Names>,
    column: usize,
) -> String {
    let found = layers.into_iter().find_map(|names| {
        let rest = name.strip_prefix(names[0])?;
        let is_whole = rest.is_empty() || rest.starts_with('.');
        (is_whole && !names[column].is_empty()).then(|| format!("{}{rest}", names[column]))
    });
    found.unwrap_or_else(|| name.to_owned())
}

/// Which vectors of the final modulation are the shift and the scale: diffusers has them the other way round.
pub(super) fn final_shift_and_scale(is_diffusers: bool) -> (i64, i64) {
    if is_diffusers { (1, 0) } else { (0, 1) }
}

/// What a file calls the two lists of blocks.
pub(super) fn block_names(prefix: &str, is_diffusers: bool) -> [String; 2] {
    [DOUBLE, SINGLE].map(|(list, diffusers, _)| {
        let name = if is_diffusers { diffusers } else { list };
        format!("{prefix}{name}")
    })
}

/// How many blocks of a list there are; `list`: what the file calls it.
pub(super) fn count_blocks(weights: &WeightSet, list: &str) -> i64 {
    let numbers = weights.tensors.keys().filter_map(|key| {
        let rest = key.strip_prefix(list)?.strip_prefix('.')?;
        rest.split_once('.')?.0.parse::<usize>().ok()
    });
    numbers.collect::<BTreeSet<_>>().len() as i64
}

/// Checks that the axes of positions fill the heads.
pub(super) fn check_axes<const AXES: usize>(
    name: &str,
    axes: [i64; AXES],
    head_dim: i64,
) -> Result<(), String> {
    let are_sound = axes
        .iter()
        .all(|n| (0..=head_dim).contains(n) && n % 2 == 0);
    if are_sound && axes.iter().sum::<i64>() == head_dim {
        return Ok(());
    }
    Err(format!(
        "expected {name} of {AXES} even numbers that are {head_dim} together, found {axes:?}"
    ))
}

/// One matrix of several parts, or each of them alone.
pub(super) fn fused(
    schema: &mut Schema,
    name: &str,
    parts: &[(&str, i64)],
    input: i64,
    is_split: bool,
) {
    fused_of(parts, name, is_split, |name, output| {
        schema.linear(name, output, input);
    });
}

fn fused_of(parts: &[(&str, i64)], name: &str, is_split: bool, mut add: impl FnMut(&str, i64)) {
    if is_split {
        for (part, output) in parts {
            add(&format!("{name}.{part}"), *output);
        }
    } else {
        add(name, parts.iter().map(|(_, output)| output).sum());
    }
}

/// Two layers from a vector to the network's width.
pub(super) fn embedder(schema: &mut Schema, name: &str, dim: i64, input: i64) {
    schema.linear(&format!("{name}.in_layer"), dim, input);
    schema.linear(&format!("{name}.out_layer"), dim, dim);
}

/// The norms of queries and keys.
fn head_norms(schema: &mut Schema, name: &str, head_dim: i64) {
    schema.vector(&format!("{name}.query_norm.scale"), head_dim);
    schema.vector(&format!("{name}.key_norm.scale"), head_dim);
}

/// What the blocks are told: timestep, pooled text and guidance.
pub(super) fn add_embedders(schema: &mut Schema, dim: i64, told: ToldShape) {
    embedder(schema, "time_in", dim, SINUSOIDS);
    embedder(schema, "vector_in", dim, told.pooled);
    if told.guidance_embeds {
        embedder(schema, "guidance_in", dim, SINUSOIDS);
    }
}

/// All double and single blocks. `is_split`: whether each part of a matrix stands alone, as in diffusers' names.
pub(super) fn add_blocks(schema: &mut Schema, shape: StreamShape, is_split: bool) {
    let StreamShape {
        dim,
        head_dim,
        mlp_dim,
        blocks: [double, single],
        told,
        ..
    } = shape;
    let mlp_in = shape.mlp_in();
    if shape.is_shared() {
        for (name, count) in SHARED_MODULATIONS.into_iter().zip([6, 6, 3]) {
            shape.modulation(schema, &format!("{name}.lin"), count * dim, dim);
        }
    }
    for block in 0..double {
        for stream in ["img", "txt"] {
            let name = |part: &str| format!("double_blocks.{block}.{stream}_{part}");
            if told.is_some() {
                schema.modulation(&name("mod.lin"), 6 * dim, dim);
            }
            let parts = [("q", dim), ("k", dim), ("v", dim)];
            fused_of(&parts, &name("attn.qkv"), is_split, |name, output| {
                shape.layer(schema, name, output, dim);
            });
            head_norms(schema, &name("attn.norm"), head_dim);
            shape.layer(schema, &name("attn.proj"), dim, dim);
            shape.layer(schema, &name("mlp.0"), mlp_in, dim);
            shape.layer(schema, &name("mlp.2"), dim, mlp_dim);
        }
    }
    for block in 0..single {
        let name = |part: &str| format!("single_blocks.{block}.{part}");
        if told.is_some() {
            schema.modulation(&name("modulation.lin"), 3 * dim, dim);
        }
        let parts = [("q", dim), ("k", dim), ("v", dim), ("mlp", mlp_in)];
        // Where modulations are shared, all dialects have one matrix.
        let is_split = is_split && !shape.is_shared();
        fused_of(&parts, &name("linear1"), is_split, |name, output| {
            shape.layer(schema, name, output, dim);
        });
        head_norms(schema, &name("norm"), head_dim);
        shape.layer(schema, &name("linear2"), dim, dim + mlp_dim);
    }
}

/// What takes the control picture in, by which a ControlNet is known beside what its transformer has.
pub(super) const CONTROL_EMBEDDER: &str = "controlnet_x_embedder";
/// The layers behind the blocks of each list.
pub(super) const CONTROL_LISTS: [&str; 2] = ["controlnet_blocks", "controlnet_single_blocks"];

/// What a ControlNet has beside the blocks; `channels`: numbers of a control picture's token.
pub(super) fn add_control(schema: &mut Schema, shape: StreamShape, channels: i64) {
    schema.linear(CONTROL_EMBEDDER, shape.dim, channels);
    for (list, blocks) in CONTROL_LISTS.into_iter().zip(shape.blocks) {
        for number in 0..blocks {
            schema.linear(&format!("{list}.{number}"), shape.dim, shape.dim);
        }
    }
}

pub(super) fn check_blocks(
    weights: &WeightSet,
    lists: &[String],
    counts: &[i64],
) -> Result<(), CatalogError> {
    let mut lists = lists.iter().zip(counts);
    lists.try_for_each(|(list, count)| weights.no_more_layers(&format!("{list}.{count}."), count))
}

/// Checks that a file has no guidance, which it calls `key`, where the config says none.
pub(super) fn check_guidance(
    weights: &WeightSet,
    is_stated: bool,
    key: &str,
) -> Result<(), CatalogError> {
    if is_stated || !weights.has(key) {
        return Ok(());
    }
    Err(CatalogError::config(
        format!("expected no guidance by the config, found the tensor '{key}'"),
        weights.files.first().cloned().unwrap_or_default(),
    ))
}
