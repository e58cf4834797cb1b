//! Every tensor of a FramePack transformer, in any dialect: its name and its shape.

use super::config::{FramePackTransformerConfig, PATCH};
use super::keys::FramePackTransformerKeys;
use crate::networks::stream_blocks::{self, SINUSOIDS};
use crate::networks::{Schema, TensorSpec};

pub fn schema(
    config: &FramePackTransformerConfig,
    keys: FramePackTransformerKeys,
) -> Vec<TensorSpec> {
    let mut schema = Schema::default();
    let is_split = keys.is_diffusers();
    add_outer(&mut schema, config);
    add_text(&mut schema, config, is_split);
    stream_blocks::add_blocks(&mut schema, config.streams(), is_split);
    schema.renamed(|name| keys.file_key(name))
}

fn add_outer(schema: &mut Schema, config: &FramePackTransformerConfig) {
    let (dim, channels) = (config.dim(), config.in_channels);
    for (name, factor) in [
        ("img_in.proj", 1),
        ("clean_x_embedder.proj", 1),
        ("clean_x_embedder.proj_2x", 2),
        ("clean_x_embedder.proj_4x", 4),
    ] {
        let edge = factor * PATCH;
        schema.conv(name, &[dim, channels, factor, edge, edge]);
    }
    let middle = config.image_mlp_dim();
    schema.linear("image_projection.up", middle, config.image_proj_dim);
    schema.linear("image_projection.down", dim, middle);
    schema.in_f32(|schema| {
        stream_blocks::add_embedders(schema, dim, config.told());
        schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
        let outputs = PATCH * PATCH * config.out_channels();
        schema.linear("final_layer.linear", outputs, dim);
    });
}

fn add_text(schema: &mut Schema, config: &FramePackTransformerConfig, is_split: bool) {
    let (dim, text) = (config.dim(), config.text_embed_dim);
    schema.linear("txt_in.input_embedder", dim, text);
    schema.in_f32(|schema| {
        stream_blocks::embedder(schema, "txt_in.t_embedder", dim, SINUSOIDS);
        stream_blocks::embedder(schema, "txt_in.c_embedder", dim, text);
    });
    let mlp_dim = config.refiner_mlp_dim();
    for block in 0..config.num_refiner_layers {
        let name = |part: &str| format!("txt_in.individual_token_refiner.blocks.{block}.{part}");
        schema.in_f32(|schema| {
            schema.norm(&name("norm1"), dim);
            schema.norm(&name("norm2"), dim);
        });
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        stream_blocks::fused(schema, &name("self_attn.qkv"), &parts, dim, is_split);
        schema.linear(&name("self_attn.proj"), dim, dim);
        schema.linear(&name("mlp.0"), mlp_dim, dim);
        schema.linear(&name("mlp.2"), dim, mlp_dim);
        schema.modulation(&name("adaLN_modulation.1"), 2 * dim, dim);
    }
}
