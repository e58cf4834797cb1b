//! The authors' names and joined matrices for diffusers' tensors.

use crate::families::tests::{Tensors, renamed, with_halves_swapped};

/// Original names, and diffusers' names of what is joined there. Networks that came of Flux have many of them.
pub(crate) const NAMES: &str = "\
img_in -> x_embedder
txt_in -> context_embedder
time_in.in_layer -> time_text_embed.timestep_embedder.linear_1
time_in.out_layer -> time_text_embed.timestep_embedder.linear_2
vector_in.in_layer -> time_text_embed.text_embedder.linear_1
vector_in.out_layer -> time_text_embed.text_embedder.linear_2
guidance_in.in_layer -> time_text_embed.guidance_embedder.linear_1
guidance_in.out_layer -> time_text_embed.guidance_embedder.linear_2
double_blocks.N.img_mod.lin -> transformer_blocks.N.norm1.linear
double_blocks.N.txt_mod.lin -> transformer_blocks.N.norm1_context.linear
double_blocks.N.img_attn.qkv -> transformer_blocks.N.attn.to_q to_k to_v
double_blocks.N.txt_attn.qkv -> transformer_blocks.N.attn.add_q_proj add_k_proj add_v_proj
double_blocks.N.img_attn.proj -> transformer_blocks.N.attn.to_out.0
double_blocks.N.txt_attn.proj -> transformer_blocks.N.attn.to_add_out
double_blocks.N.img_attn.norm.query_norm.scale -> transformer_blocks.N.attn.norm_q.weight
double_blocks.N.img_attn.norm.key_norm.scale -> transformer_blocks.N.attn.norm_k.weight
double_blocks.N.txt_attn.norm.query_norm.scale -> transformer_blocks.N.attn.norm_added_q.weight
double_blocks.N.txt_attn.norm.key_norm.scale -> transformer_blocks.N.attn.norm_added_k.weight
double_blocks.N.img_mlp.0 -> transformer_blocks.N.ff.net.0.proj
double_blocks.N.img_mlp.2 -> transformer_blocks.N.ff.net.2
double_blocks.N.txt_mlp.0 -> transformer_blocks.N.ff_context.net.0.proj
double_blocks.N.txt_mlp.2 -> transformer_blocks.N.ff_context.net.2
single_blocks.N.modulation.lin -> single_transformer_blocks.N.norm.linear
single_blocks.N.linear1 -> single_transformer_blocks.N.attn.to_q to_k to_v ../proj_mlp
single_blocks.N.linear2 -> single_transformer_blocks.N.proj_out
single_blocks.N.norm.query_norm.scale -> single_transformer_blocks.N.attn.norm_q.weight
single_blocks.N.norm.key_norm.scale -> single_transformer_blocks.N.attn.norm_k.weight
final_layer.linear -> proj_out
final_layer.adaLN_modulation.1 -> norm_out.linear";

pub(crate) fn originals(diffusers: &Tensors) -> Tensors {
    with_halves_swapped(renamed(NAMES, diffusers))
}
