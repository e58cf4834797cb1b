//! What the transformer's files may look like: names of keys, prefixes, and configurations.

use super::*;
use crate::families::tests::{renamed, table, with_halves_swapped};

/// Names of HunyuanVideo's authors, and diffusers' names of what is joined there.
const NAMES: &str = "\
double_blocks.N.img_attn_qkv -> transformer_blocks.N.attn.to_q to_k to_v
double_blocks.N.txt_attn_qkv -> transformer_blocks.N.attn.add_q_proj add_k_proj add_v_proj
double_blocks.N.img_attn_proj -> transformer_blocks.N.attn.to_out.0
double_blocks.N.txt_attn_proj -> transformer_blocks.N.attn.to_add_out
double_blocks.N.img_attn_q_norm -> transformer_blocks.N.attn.norm_q
double_blocks.N.img_attn_k_norm -> transformer_blocks.N.attn.norm_k
double_blocks.N.txt_attn_q_norm -> transformer_blocks.N.attn.norm_added_q
double_blocks.N.txt_attn_k_norm -> transformer_blocks.N.attn.norm_added_k
double_blocks.N.img_mod.linear -> transformer_blocks.N.norm1.linear
double_blocks.N.txt_mod.linear -> transformer_blocks.N.norm1_context.linear
double_blocks.N.img_mlp.fc1 -> transformer_blocks.N.ff.net.0.proj
double_blocks.N.img_mlp.fc2 -> transformer_blocks.N.ff.net.2
double_blocks.N.txt_mlp.fc1 -> transformer_blocks.N.ff_context.net.0.proj
double_blocks.N.txt_mlp.fc2 -> transformer_blocks.N.ff_context.net.2
single_blocks.N.linear1 -> single_transformer_blocks.N.attn.to_q to_k to_v ../proj_mlp
single_blocks.N.linear2 -> single_transformer_blocks.N.proj_out
single_blocks.N.modulation.linear -> single_transformer_blocks.N.norm.linear
single_blocks.N.q_norm -> single_transformer_blocks.N.attn.norm_q
single_blocks.N.k_norm -> single_transformer_blocks.N.attn.norm_k
txt_in.individual_token_refiner.blocks.N.self_attn_qkv -> context_embedder.token_refiner.refiner_blocks.N.attn.to_q to_k to_v
txt_in.individual_token_refiner.blocks.N.self_attn_proj -> context_embedder.token_refiner.refiner_blocks.N.attn.to_out.0
txt_in.individual_token_refiner.blocks.N.mlp.fc1 -> context_embedder.token_refiner.refiner_blocks.N.ff.net.0.proj
txt_in.individual_token_refiner.blocks.N.mlp.fc2 -> context_embedder.token_refiner.refiner_blocks.N.ff.net.2
txt_in.individual_token_refiner.blocks.N.adaLN_modulation.1 -> context_embedder.token_refiner.refiner_blocks.N.norm_out.linear
txt_in.individual_token_refiner.blocks -> context_embedder.token_refiner.refiner_blocks
txt_in.t_embedder.mlp.0 -> context_embedder.time_text_embed.timestep_embedder.linear_1
txt_in.t_embedder.mlp.2 -> context_embedder.time_text_embed.timestep_embedder.linear_2
txt_in.c_embedder -> context_embedder.time_text_embed.text_embedder
txt_in.input_embedder -> context_embedder.proj_in
time_in.mlp.0 -> time_text_embed.timestep_embedder.linear_1
time_in.mlp.2 -> time_text_embed.timestep_embedder.linear_2
guidance_in.mlp.0 -> time_text_embed.guidance_embedder.linear_1
guidance_in.mlp.2 -> time_text_embed.guidance_embedder.linear_2
vector_in.in_layer -> time_text_embed.text_embedder.linear_1
vector_in.out_layer -> time_text_embed.text_embedder.linear_2
img_in.proj -> x_embedder.proj
final_layer.linear -> proj_out
final_layer.adaLN_modulation.1 -> norm_out.linear";

/// The fixture under the names of HunyuanVideo's authors, written the other way round than `keys.rs`.
pub(super) fn authors(config: &str) -> Vec<(String, Tensor)> {
    let all = renamed(NAMES, &tensors(config).into_iter().collect());
    with_halves_swapped(all).into_iter().collect()
}

fn comfy_name(authors: &str) -> String {
    let mut name = authors.to_owned();
    for (theirs, ours) in table(
        "c_embedder.linear_1 -> c_embedder.in_layer
         c_embedder.linear_2 -> c_embedder.out_layer
         er.mlp.0 -> er.in_layer
         er.mlp.2 -> er.out_layer
         _in.mlp.0 -> _in.in_layer
         _in.mlp.2 -> _in.out_layer
         _mod.linear -> _mod.lin
         modulation.linear -> modulation.lin
         _attn_qkv -> _attn.qkv
         _attn_proj -> _attn.proj
         mlp.fc1 -> mlp.0
         mlp.fc2 -> mlp.2
         _attn_q_norm.weight -> _attn.norm.query_norm.scale
         _attn_k_norm.weight -> _attn.norm.key_norm.scale
         .q_norm.weight -> .norm.query_norm.scale
         .k_norm.weight -> .norm.key_norm.scale",
    ) {
        name = name.replace(theirs, ours);
    }
    format!("model.model.{name}")
}

#[test]
fn files_in_the_names_of_the_authors_and_of_comfy_give_the_same_answer() {
    let authors = authors("tiny");
    let comfy = authors.iter();
    let comfy: Vec<_> = comfy
        .map(|(key, tensor)| (comfy_name(key), tensor.shallow_clone()))
        .collect();
    let prefixed = tensors("tiny").into_iter();
    let prefixed: Vec<_> = prefixed
        .map(|(key, tensor)| (format!("model.diffusion_model.{key}"), tensor))
        .collect();
    let case = &cases()["f1"];
    for (name, tensors, sample) in [
        ("authors", authors, "double_blocks.1.img_attn_q_norm.weight"),
        (
            "comfy",
            comfy,
            "model.model.txt_in.c_embedder.in_layer.bias",
        ),
        (
            "prefixed",
            prefixed,
            "model.diffusion_model.norm_out.linear.bias",
        ),
    ] {
        let (_folder, weights) = write(&tensors, Kind::Float);
        assert!(weights.has(sample), "{name}");
        let transformer = FramePackTransformer::new(&config("tiny"), &weights).unwrap();
        assert_answer(name, &case.ask("f1", &transformer), "f1");
        assert_eq!(FramePackTransformer::unexpected_keys(&weights), [""; 0]);
    }
}

#[test]
fn framepack_config_is_inferred_from_tensor_shapes() {
    let (_folder, weights) = write(&tensors("wide"), Kind::Float);
    let found = FramePackTransformerConfig::read(weights.path()).unwrap();
    assert_eq!(found, config("wide"));
}

#[test]
fn incomplete_or_unsupported_framepack_transformers_are_refused() {
    let without = |start: &str| {
        let mut tensors = tensors("wide");
        tensors.retain(|(key, _)| !key.starts_with(start));
        let (_folder, weights) = write(&tensors, Kind::Float);
        let found = FramePackTransformerConfig::read(weights.path());
        found.unwrap_err().to_string()
    };
    assert!(without("image_projection").contains("image_projection.up.weight"));
    assert!(without("x_embedder").contains("x_embedder.proj.weight"));
    let (_folder, weights) = write(&tensors("tiny"), Kind::Float);
    let err = FramePackTransformerConfig::read(weights.path()).unwrap_err();
    assert!(err.to_string().contains("expected heads of 128"), "{err}");
}
