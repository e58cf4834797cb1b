//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/flux2`, where its weights are from in `tests/fixtures/image_families.py`.

use safelight_core::networks::Flux2TransformerConfig;
use tch::Tensor;

use super::*;
use crate::families::tests::{
    Facts, MadeUp, Tensors, assert_each_its_own, config_of, opened, originals, tests_of, written,
};
use crate::hooks::NoHooks;
use crate::stages::stills::LatentShape;
use crate::step_cache::Shortcut;
use crate::weights::tests::made_up::made_up;

/// What the authors call the layers of a block.
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

impl MadeUp for Flux2 {
    fn facts(&self) -> Facts {
        Facts {
            recorded_at: 750.0,
            // Another order of sums, and the frequencies of timesteps: the reference's limit for LoRAs.
            limits: [1e-5, 3e-5],
            loras: &["kohya", "aitoolkit", "base_model", "peft"],
            other_loras: &["comfy_alpha"],
            streamed_loras: ["kohya", "comfy_alpha"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
        }
    }

    fn originals(&self, diffusers: &Tensors) -> Tensors {
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

    fn with_loras(&self, w: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
        with_loras(w, loras)
    }

    fn answers(
        &self,
        w: &Weights,
        timesteps: &[f32],
        shortcut: Shortcut<'_>,
    ) -> Result<(Vec<Tensor>, Vec<String>), WeightsError> {
        let config = config_of::<Flux2TransformerConfig>(self);
        let transformer = Flux2Transformer::new(&config, w)?;
        let unread = Flux2Transformer::unexpected_keys(w);
        let text = made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]);
        let tokens = made_up("in.latents", &[1, 6, config.in_channels]);
        let context = transformer.context(&text);
        let shape = LatentShape::new(config.latent_channels(), 48, 32).unwrap();
        let rope = transformer.rope(&text_ids(5), &image_ids(shape), 1);
        let told = transformer.modulations(timesteps);
        let ask =
            |told| transformer.forward_cached(&tokens, told, &context, &rope, shortcut, &NoHooks);
        Ok((told.iter().filter_map(ask).collect(), unread))
    }
}

tests_of!(Flux2, 3);

#[test]
fn a_batch_on_any_device_is_asked_at_once_and_gives_each_picture_its_own() {
    let (_folder, path) = written(&originals(&Flux2));
    let config = config_of::<Flux2TransformerConfig>(&Flux2);
    let transformer = Flux2Transformer::new(&config, &opened(&path)).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.joint_attention_dim]);
    let latents = made_up("in.two", &[2, 35, config.in_channels]);
    let context = transformer.context(&text);
    let shape = LatentShape::new(config.latent_channels(), 112, 80).unwrap();
    let told = &transformer.modulations(&[300.0])[0];
    assert_each_its_own(&latents, |xs| {
        let rope = transformer.rope(&text_ids(40), &image_ids(shape), xs.size()[0]);
        let answer = transformer.forward(xs, told, &context, &rope, &NoHooks);
        answer.unwrap()
    });
}
