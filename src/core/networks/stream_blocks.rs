//! Double and single blocks, embedders and the last layer of Flux, Chroma, FLUX.2, Qwen-Image and HunyuanVideo.
//!
//! Double blocks have separate weights for image and text, single blocks share them. Readers use the names of Flux's
//! authors, which ComfyUI gives HunyuanVideo's too. If diffusers has several matrices instead of one, readers request
//! parts of that one: `img_attn.qkv.q`, `linear1.mlp`.

use std::collections::BTreeSet;

use crate::networks::prelude::*;

/// Width of the sinusoids of timestep and guidance.
pub const SINUSOIDS: i64 = 256;
/// Width of one head in every published transformer.
pub(super) const HEAD_DIM: i64 = 128;
/// In models with a guidance.
pub(super) const GUIDANCE: &str = "guidance_in.in_layer.weight";
/// Rotary dimensions of such a head for each axis of positions.
pub(super) const AXES: [i64; 3] = [16, 56, 56];

/// The part of such a transformer that families share: its blocks, and their modulation.
#[derive(Clone, Copy, Debug)]
pub struct StreamShape {
    /// Width of the hidden states.
    pub dim: i64,
    pub head_dim: i64,
    /// Width inside the feed-forward layers.
    pub mlp_dim: i64,
    /// Numbers of double and single blocks.
    pub blocks: [i64; 2],
    /// `None` where a network of the family's own makes all modulations.
    pub modulation_inputs: Option<ModulationInputs>,
    /// The blocks of a list share their modulations, nothing has a bias, and the feed-forward part is gated by SiLU: its
    /// first layer gives gates and values. Otherwise layers have biases, and the feed-forward part is of two layers with
    /// GELU.
    pub is_shared: bool,
}

/// Inputs of the blocks' modulation layers besides the timestep.
#[derive(Clone, Copy, Debug)]
pub struct ModulationInputs {
    /// Width of the pooled text, where there is one.
    pub pooled: Option<i64>,
    /// Guidance is an input of the model.
    pub guidance_embeds: bool,
}

/// Modulations that all blocks of a list share: of the image stream, the text stream, and both as one.
pub const SHARED_MODULATIONS: [&str; 3] = [
    "double_stream_modulation_img",
    "double_stream_modulation_txt",
    "single_stream_modulation",
];

impl StreamShape {
    /// Blocks with modulations and biases of their own, whose feed-forward layers are four times as wide as the hidden states.
    pub(super) fn own(
        dim: i64,
        head_dim: i64,
        blocks: [i64; 2],
        modulation_inputs: impl Into<Option<ModulationInputs>>,
    ) -> Self {
        Self {
            dim,
            head_dim,
            mlp_dim: 4 * dim,
            blocks,
            modulation_inputs: modulation_inputs.into(),
            is_shared: false,
        }
    }

    /// Shape of a transformer of these blocks with an input of `channels`.
    pub(super) fn transformer(&self, channels: i64) -> TransformerShape {
        TransformerShape {
            heads: self.dim / self.head_dim,
            head_dim: self.head_dim,
            layers: self.blocks.iter().sum(),
            channels,
        }
    }

    /// Outputs of the first layer of the feed-forward part.
    pub fn mlp_in(&self) -> i64 {
        if self.is_shared {
            2 * self.mlp_dim
        } else {
            self.mlp_dim
        }
    }

    /// A layer, with a bias where the blocks have them.
    fn layer(&self, schema: &mut Schema, name: &str, output: i64, input: i64) {
        schema.matrix(name, output, input);
        self.bias(schema, name, output);
    }

    /// A layer that makes modulations.
    pub(super) fn modulation(&self, schema: &mut Schema, name: &str, output: i64, input: i64) {
        schema.add(
            format!("{name}.weight"),
            &[output, input],
            TensorRole::Modulation,
        );
        self.bias(schema, name, output);
    }

    fn bias(&self, schema: &mut Schema, name: &str, output: i64) {
        if !self.is_shared {
            schema.vector(&format!("{name}.bias"), output);
        }
    }
}

/// Lists of blocks in the names of Flux's authors.
pub(super) const DOUBLE: BlockList = BlockList::shared("double_blocks");
pub(super) const SINGLE: BlockList = BlockList::shared("single_blocks");
/// These lists in diffusers' names.
pub(super) const DIFFUSERS_DOUBLE: BlockList =
    DOUBLE.named("transformer_blocks", &[DIFFUSERS_DOUBLE_LAYERS]);
pub(super) const DIFFUSERS_SINGLE: BlockList =
    SINGLE.named("single_transformer_blocks", &[DIFFUSERS_SINGLE_LAYERS]);
/// These lists in the names of HunyuanVideo's authors.
pub(super) const HUNYUAN_DOUBLE: BlockList =
    DOUBLE.named("double_blocks", &[HUNYUAN_DOUBLE_LAYERS]);
pub(super) const HUNYUAN_SINGLE: BlockList =
    SINGLE.named("single_blocks", &[HUNYUAN_SINGLE_LAYERS]);

/// diffusers' names outside the blocks.
pub(super) const DIFFUSERS_OUTER: &[NamePair] = names! {
    "img_in" => "x_embedder",
    "time_in.in_layer" => "time_text_embed.timestep_embedder.linear_1",
    "time_in.out_layer" => "time_text_embed.timestep_embedder.linear_2",
    "guidance_in.in_layer" => "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer" => "time_text_embed.guidance_embedder.linear_2",
    "vector_in.in_layer" => "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer" => "time_text_embed.text_embedder.linear_2",
    "final_layer.linear" => "proj_out",
    "final_layer.adaLN_modulation.1" => "norm_out.linear",
};

/// Names of HunyuanVideo's authors outside the blocks.
pub(super) const HUNYUAN_OUTER: &[NamePair] = names! {
    "time_in.in_layer" => "time_in.mlp.0",
    "time_in.out_layer" => "time_in.mlp.2",
    "guidance_in.in_layer" => "guidance_in.mlp.0",
    "guidance_in.out_layer" => "guidance_in.mlp.2",
};

/// diffusers' names within a double block.
pub(super) const DIFFUSERS_DOUBLE_LAYERS: &[NamePair] = names! {
    "img_mod.lin" => "norm1.linear",
    "txt_mod.lin" => "norm1_context.linear",
    "img_attn.qkv.q" => "attn.to_q",
    "img_attn.qkv.k" => "attn.to_k",
    "img_attn.qkv.v" => "attn.to_v",
    "txt_attn.qkv.q" => "attn.add_q_proj",
    "txt_attn.qkv.k" => "attn.add_k_proj",
    "txt_attn.qkv.v" => "attn.add_v_proj",
    "img_attn.norm.query_norm.scale" => "attn.norm_q.weight",
    "img_attn.norm.key_norm.scale" => "attn.norm_k.weight",
    "txt_attn.norm.query_norm.scale" => "attn.norm_added_q.weight",
    "txt_attn.norm.key_norm.scale" => "attn.norm_added_k.weight",
    "img_attn.proj" => "attn.to_out.0",
    "txt_attn.proj" => "attn.to_add_out",
    "img_mlp.0" => "ff.net.0.proj",
    "img_mlp.2" => "ff.net.2",
    "txt_mlp.0" => "ff_context.net.0.proj",
    "txt_mlp.2" => "ff_context.net.2",
};

/// diffusers' names within a single block.
pub(super) const DIFFUSERS_SINGLE_LAYERS: &[NamePair] = names! {
    "modulation.lin" => "norm.linear",
    "linear1.q" => "attn.to_q",
    "linear1.k" => "attn.to_k",
    "linear1.v" => "attn.to_v",
    "linear1.mlp" => "proj_mlp",
    "linear2" => "proj_out",
    "norm.query_norm.scale" => "attn.norm_q.weight",
    "norm.key_norm.scale" => "attn.norm_k.weight",
};

/// Names of HunyuanVideo's authors within a double block.
const HUNYUAN_DOUBLE_LAYERS: &[NamePair] = names! {
    "img_mod.lin" => "img_mod.linear",
    "txt_mod.lin" => "txt_mod.linear",
    "img_attn.qkv" => "img_attn_qkv",
    "txt_attn.qkv" => "txt_attn_qkv",
    "img_attn.norm.query_norm.scale" => "img_attn_q_norm.weight",
    "img_attn.norm.key_norm.scale" => "img_attn_k_norm.weight",
    "txt_attn.norm.query_norm.scale" => "txt_attn_q_norm.weight",
    "txt_attn.norm.key_norm.scale" => "txt_attn_k_norm.weight",
    "img_attn.proj" => "img_attn_proj",
    "txt_attn.proj" => "txt_attn_proj",
    "img_mlp.0" => "img_mlp.fc1",
    "img_mlp.2" => "img_mlp.fc2",
    "txt_mlp.0" => "txt_mlp.fc1",
    "txt_mlp.2" => "txt_mlp.fc2",
};

/// Names of HunyuanVideo's authors within a single block.
const HUNYUAN_SINGLE_LAYERS: &[NamePair] = names! {
    "modulation.lin" => "modulation.linear",
    "norm.query_norm.scale" => "q_norm.weight",
    "norm.key_norm.scale" => "k_norm.weight",
};

/// Counts the blocks of a list; `list`: its name in the file.
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
    ensure!(
        are_sound && axes.iter().sum::<i64>() == head_dim,
        "expected {name} of {AXES} even numbers that are {head_dim} together, found {axes:?}"
    );
    Ok(())
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

/// Adds the embedders of timestep, pooled text and guidance.
pub(super) fn add_embedders(schema: &mut Schema, dim: i64, modulation_inputs: ModulationInputs) {
    embedder(schema, "time_in", dim, SINUSOIDS);
    if let Some(pooled) = modulation_inputs.pooled {
        embedder(schema, "vector_in", dim, pooled);
    }
    if modulation_inputs.guidance_embeds {
        embedder(schema, "guidance_in", dim, SINUSOIDS);
    }
}

/// Adds all double and single blocks.
pub(super) fn add_blocks(schema: &mut Schema, shape: StreamShape) {
    let StreamShape {
        dim,
        head_dim,
        mlp_dim,
        blocks: [double, single],
        modulation_inputs,
        ..
    } = shape;
    let mlp_in = shape.mlp_in();
    let layer = |schema: &mut Schema, name: &str, rows| shape.layer(schema, name, rows, dim);
    if shape.is_shared {
        for (name, count) in SHARED_MODULATIONS.into_iter().zip([6, 6, 3]) {
            shape.modulation(schema, &format!("{name}.lin"), count * dim, dim);
        }
    }
    schema.blocks(DOUBLE.own, double, |schema| {
        for stream in ["img", "txt"] {
            let name = |part: &str| format!("{stream}_{part}");
            if modulation_inputs.is_some() {
                schema.modulation(&name("mod.lin"), 6 * dim, dim);
            }
            let parts = [("q", dim), ("k", dim), ("v", dim)];
            schema.fused(&name("attn.qkv"), &parts, layer);
            head_norms(schema, &name("attn.norm"), head_dim);
            layer(schema, &name("attn.proj"), dim);
            layer(schema, &name("mlp.0"), mlp_in);
            shape.layer(schema, &name("mlp.2"), dim, mlp_dim);
        }
    });
    schema.blocks(SINGLE.own, single, |schema| {
        if modulation_inputs.is_some() {
            schema.modulation("modulation.lin", 3 * dim, dim);
        }
        if shape.is_shared {
            // All dialects have one matrix.
            layer(schema, "linear1", 3 * dim + mlp_in);
        } else {
            let parts = [("q", dim), ("k", dim), ("v", dim), ("mlp", mlp_in)];
            schema.fused("linear1", &parts, layer);
        }
        head_norms(schema, "norm", head_dim);
        shape.layer(schema, "linear2", dim, dim + mlp_dim);
    });
}

/// Embedder of the control image, which transformers do not have.
pub(super) const CONTROL_EMBEDDER: &str = "controlnet_x_embedder";
/// The layers after the blocks of each list.
pub(super) const CONTROL_LISTS: [&str; 2] = ["controlnet_blocks", "controlnet_single_blocks"];

/// Adds the layers of a ControlNet besides the blocks; `channels`: numbers of a control image's token.
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
