//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use tch::Tensor;

use super::*;
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

/// diffusers' and the authors' names of a block's layers.
const RENAMED: [(&str, &str); 16] = [
    ("attn.norm_q.weight", "img_attn.norm.query_norm.scale"),
    ("attn.norm_k.weight", "img_attn.norm.key_norm.scale"),
    ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"),
    ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"),
    ("attn.to_out.0.", "img_attn.proj."),
    ("attn.to_add_out.", "txt_attn.proj."),
    ("ff.linear_in.", "img_mlp.0."),
    ("ff.linear_out.", "img_mlp.2."),
    ("ff_context.linear_in.", "txt_mlp.0."),
    ("ff_context.linear_out.", "txt_mlp.2."),
    ("x_embedder.", "img_in."),
    ("context_embedder.", "txt_in."),
    (
        "time_guidance_embed.timestep_embedder.linear_1.",
        "time_in.in_layer.",
    ),
    (
        "time_guidance_embed.timestep_embedder.linear_2.",
        "time_in.out_layer.",
    ),
    ("_modulation_img.linear.", "_modulation_img.lin."),
    ("_modulation_txt.linear.", "_modulation_txt.lin."),
];

impl TinyModel for Flux2Transformer {
    const FAMILY: &'static ImageFamily<Self> = &FAMILY;

    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of(
                "flux2/transformer.json",
                "flux2/shapes.json",
                ("flux2/lora.json", "flux2."),
                "flux2/lora",
            ),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            // Another order of sums, and the frequencies of timesteps: the reference's limit for LoRAs.
            limits: [1e-5, 3e-5],
            loras: &["kohya", "aitoolkit", "base_model", "peft"],
            other_loras: &["comfy_alpha"],
            streamed_loras: ["kohya", "comfy_alpha"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
            has_skips: true,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        let mut made = Tensors::new();
        for (name, tensor) in diffusers {
            let mut name = name.clone();
            let mut tensor = tensor.shallow_clone();
            let joined = |parts: [&str; 3], own: &str| {
                let parts = parts.map(|part| &diffusers[&own.replace(parts[0], part)]);
                Tensor::cat(&parts, 0)
            };
            if name.starts_with("single_transformer_blocks") {
                name = name
                    .replace("single_transformer_blocks", "single_blocks")
                    .replace("attn.to_qkv_mlp_proj", "linear1")
                    .replace("attn.to_out", "linear2")
                    .replace("attn.norm_q.weight", "norm.query_norm.scale")
                    .replace("attn.norm_k.weight", "norm.key_norm.scale");
            } else if name.contains("attn.to_q.") {
                tensor = joined(["to_q", "to_k", "to_v"], &name);
                name = name.replace("attn.to_q", "img_attn.qkv");
            } else if name.contains("add_q_proj") {
                tensor = joined(["add_q_proj", "add_k_proj", "add_v_proj"], &name);
                name = name.replace("attn.add_q_proj", "txt_attn.qkv");
            } else if ["to_k.", "to_v.", "add_k_proj", "add_v_proj"]
                .iter()
                .any(|part| name.contains(part))
            {
                continue;
            } else if name == "norm_out.linear.weight" {
                let halves = tensor.chunk(2, 0);
                tensor = Tensor::cat(&[&halves[1], &halves[0]], 0);
                name = "final_layer.adaLN_modulation.1.weight".to_owned();
            } else if name == "proj_out.weight" {
                name = "final_layer.linear.weight".to_owned();
            }
            for (theirs, own) in RENAMED {
                if name.starts_with("single_blocks") {
                    break;
                }
                name = name.replace(theirs, own);
            }
            name = name.replace(
                "single_stream_modulation.linear",
                "single_stream_modulation.lin",
            );
            made.insert(name.replace("transformer_blocks", "double_blocks"), tensor);
        }
        made
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}
