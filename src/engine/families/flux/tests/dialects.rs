//! The authors' names and joined matrices for diffusers' tensors.

use tch::Tensor;

use crate::families::tests::{Tensors, table};

/// Original names, and diffusers' names of what is joined there, the first with its place.
const JOINED: &str = "\
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
double_blocks.N.img_mlp.0 -> transformer_blocks.N.ff.net.0.proj
double_blocks.N.img_mlp.2 -> transformer_blocks.N.ff.net.2
double_blocks.N.txt_mlp.0 -> transformer_blocks.N.ff_context.net.0.proj
double_blocks.N.txt_mlp.2 -> transformer_blocks.N.ff_context.net.2
single_blocks.N.modulation.lin -> single_transformer_blocks.N.norm.linear
single_blocks.N.linear1 -> single_transformer_blocks.N.attn.to_q to_k to_v ../proj_mlp
single_blocks.N.linear2 -> single_transformer_blocks.N.proj_out
final_layer.linear -> proj_out
final_layer.adaLN_modulation.1 -> norm_out.linear";

/// Norms of heads, which are `scale` here and `weight` there.
const SCALES: &str = "\
double_blocks.N.img_attn.norm.query_norm -> transformer_blocks.N.attn.norm_q
double_blocks.N.img_attn.norm.key_norm -> transformer_blocks.N.attn.norm_k
double_blocks.N.txt_attn.norm.query_norm -> transformer_blocks.N.attn.norm_added_q
double_blocks.N.txt_attn.norm.key_norm -> transformer_blocks.N.attn.norm_added_k
single_blocks.N.norm.query_norm -> single_transformer_blocks.N.attn.norm_q
single_blocks.N.norm.key_norm -> single_transformer_blocks.N.attn.norm_k";

/// Names and joins as the authors of Flux have them.
pub(crate) fn originals(diffusers: &Tensors) -> Tensors {
    let mut left: Tensors = diffusers
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.shallow_clone()))
        .collect();
    let mut made = Tensors::new();
    let mut take = |name: &str| left.remove(name).unwrap_or_else(|| panic!("{name}"));
    for (ours, names) in table(JOINED) {
        for number in ["0", "1"] {
            let place = |name: &str| name.replace(".N.", &format!(".{number}."));
            for end in ["weight", "bias"] {
                let (first, others) = names.split_once(' ').unwrap_or((names, ""));
                let (parent, _) = first.rsplit_once('.').unwrap_or(("", ""));
                let sibling = |name: &str| match name.strip_prefix("../") {
                    Some(name) => format!("{}.{name}", parent.rsplit_once('.').unwrap().0),
                    None => format!("{parent}.{name}"),
                };
                let parts: Vec<Tensor> = [first.to_owned()]
                    .into_iter()
                    .chain(others.split_whitespace().map(sibling))
                    .map(|name| take(&format!("{}.{end}", place(&name))))
                    .collect();
                let mut joined = Tensor::cat(&parts, 0);
                if ours.ends_with("adaLN_modulation.1") {
                    let halves = joined.chunk(2, 0);
                    joined = Tensor::cat(&[&halves[1], &halves[0]], 0);
                }
                made.insert(format!("{}.{end}", place(ours)), joined);
            }
            if !ours.contains(".N.") {
                break;
            }
        }
    }
    for number in 0..2 {
        for (ours, theirs) in table(SCALES) {
            let place = |name: &str| name.replace(".N.", &format!(".{number}."));
            made.insert(
                format!("{}.scale", place(ours)),
                take(&format!("{}.weight", place(theirs))),
            );
        }
    }
    assert!(left.is_empty(), "{:?}", left.keys());
    made
}
