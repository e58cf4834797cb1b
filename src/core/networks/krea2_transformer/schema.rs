//! Every tensor of Krea 2's transformer with its shape and role, as a file has them and as readers ask for them.

use super::keys::{LISTS, PROJECTOR};
use super::{BlockShape, Krea2TransformerConfig, Krea2TransformerKeys};
use crate::networks::{Role, Schema, TensorSpec};

/// As a file has them: queries, keys, values and gates apart.
pub fn schema(config: &Krea2TransformerConfig, keys: Krea2TransformerKeys) -> Vec<TensorSpec> {
    let vectors: &[i64] = if keys.is_diffusers {
        &[6, config.dim()]
    } else {
        &[6 * config.dim()]
    };
    described(config, vectors, true).renamed(|name| keys.file_key(name))
}

/// As readers ask for them, with what goes into an attention in one.
pub(crate) fn own_schema(config: &Krea2TransformerConfig) -> Vec<TensorSpec> {
    described(config, &[6 * config.dim()], false).into_tensors()
}

/// `vectors`: the size of the tensor with a block's six vectors; `is_split`: whether what goes into an attention is
/// several matrices.
fn described(config: &Krea2TransformerConfig, vectors: &[i64], is_split: bool) -> Schema {
    let (dim, text) = (config.dim(), config.text_hidden_dim);
    let mut schema = Schema::default();
    schema.linear("first", dim, config.in_channels);
    // What is made of a text once, or of all timesteps at once.
    schema.modulation("tmlp.0", dim, config.timestep_embed_dim);
    schema.modulation("tmlp.2", dim, dim);
    schema.modulation("tproj.1", 6 * dim, dim);
    let name = PROJECTOR.to_owned();
    schema.add(name, &[1, config.num_text_layers], Role::Modulation);
    schema.in_f32(|schema| schema.vector("txtmlp.0.scale", text));
    schema.modulation("txtmlp.1", dim, text);
    schema.modulation("txtmlp.3", dim, dim);
    let of_text = config.text_block();
    for ((list, _, _), (count, shape)) in LISTS.into_iter().zip([
        (config.num_layers, config.block()),
        (config.num_layerwise_text_blocks, of_text),
        (config.num_refiner_text_blocks, of_text),
    ]) {
        let is_told = list == LISTS[0].0;
        for number in 0..count {
            let block = format!("{list}.{number}");
            // What is not told the timestep is used once for each text.
            let role = if is_told {
                Role::Matrix
            } else {
                Role::Modulation
            };
            add_block(&mut schema, &block, shape, role, is_split);
            if is_told {
                let name = format!("{block}.mod.lin");
                schema.in_f32(|schema| schema.add(name, vectors, Role::Fixed));
            }
        }
    }
    schema.in_f32(|schema| {
        schema.vector("last.norm.scale", dim);
        schema.add("last.modulation.lin", &[2, dim], Role::Fixed);
    });
    schema.linear("last.linear", config.in_channels, dim);
    schema
}

/// `role`: that of its matrices.
fn add_block(schema: &mut Schema, block: &str, shape: BlockShape, role: Role, is_split: bool) {
    let BlockShape {
        dim,
        head_dim,
        wide,
        ..
    } = shape;
    let mut matrix = |part: &str, output: i64, input: i64| {
        schema.add(format!("{block}.{part}.weight"), &[output, input], role);
    };
    if is_split {
        for (part, rows) in shape.parts() {
            matrix(&format!("attn.heads.{part}"), rows, dim);
        }
    } else {
        let rows = shape.parts().iter().map(|(_, rows)| rows).sum();
        matrix("attn.heads", rows, dim);
    }
    matrix("attn.wo", dim, dim);
    matrix("mlp.gate", wide, dim);
    matrix("mlp.up", wide, dim);
    matrix("mlp.down", dim, wide);
    schema.in_f32(|schema| {
        for norm in ["qnorm", "knorm"] {
            schema.vector(&format!("{block}.attn.qknorm.{norm}.scale"), head_dim);
        }
        for norm in ["prenorm", "postnorm"] {
            schema.vector(&format!("{block}.{norm}.scale"), dim);
        }
    });
}
