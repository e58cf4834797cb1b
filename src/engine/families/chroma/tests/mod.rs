//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use tch::{Device, Kind, Tensor};

use super::*;
use crate::closeness::assert_close;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, diffusers, model_of, predictions_of,
};
use crate::hooks::NoHooks;
use crate::stages::images::{ImageConditioning, ImageLatentShape, ImageModel as _};
use crate::step_cache::SkipOptions;
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for ChromaTransformer {
    const FAMILY: &'static ImageFamily<Self> = &FAMILY;

    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of(
                "chroma/transformer.json",
                "chroma/shapes.json",
                ("chroma/lora.json", "chroma."),
                "chroma/lora",
            ),
            timestep: 250.0,
            size: (48, 32),
            input: "in.latents",
            // Adding the change to the weights first is 3e-6 off.
            limits: [2e-5, 5e-6],
            loras: &["kohya", "comfy", "peft", "peft_alpha"],
            other_loras: &[],
            streamed_loras: ["kohya", "peft"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
            has_skips: true,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        // What diffusers calls a layer of both kinds of block and of none.
        const NAMES: [(&str, &str); 19] = [
            ("single_transformer_blocks.", "single_blocks."),
            ("transformer_blocks.", "double_blocks."),
            ("context_embedder.", "txt_in."),
            ("x_embedder.", "img_in."),
            ("attn.norm_added_q.weight", "txt_attn.norm.query_norm.scale"),
            ("attn.norm_added_k.weight", "txt_attn.norm.key_norm.scale"),
            ("attn.to_add_out.", "txt_attn.proj."),
            ("attn.to_out.0.", "img_attn.proj."),
            ("attn.add_q_proj.", "txt_attn.qkv."),
            ("ff_context.net.0.proj.", "txt_mlp.0."),
            ("ff_context.net.2.", "txt_mlp.2."),
            ("ff.net.0.proj.", "img_mlp.0."),
            ("ff.net.2.", "img_mlp.2."),
            (".linear_1.", ".in_layer."),
            (".linear_2.", ".out_layer."),
            ("attn.norm_q.weight", "img_attn.norm.query_norm.scale"),
            ("attn.norm_k.weight", "img_attn.norm.key_norm.scale"),
            ("attn.to_q.", "img_attn.qkv."),
            ("proj_out.", "linear2."),
        ];
        let mut made = Tensors::new();
        for (name, tensor) in diffusers {
            let is_single = name.starts_with("single_transformer_blocks.");
            let parts: &[&str] = if name.contains("attn.to_q.") && is_single {
                &["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"]
            } else if name.contains("attn.to_q.") {
                &["attn.to_q", "attn.to_k", "attn.to_v"]
            } else if name.contains("attn.add_q_proj.") {
                &["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"]
            } else if ["to_k.", "to_v.", "add_k_proj.", "add_v_proj.", "proj_mlp."]
                .iter()
                .any(|part| name.contains(part))
            {
                continue;
            } else {
                &[]
            };
            let joined = parts.first().map(|first| {
                let all = parts
                    .iter()
                    .map(|part| &diffusers[&name.replace(first, part)]);
                Tensor::cat(&all.collect::<Vec<_>>(), 0)
            });
            let mut original = name.clone();
            if is_single {
                original = original
                    .replace("attn.norm_q.weight", "norm.query_norm.scale")
                    .replace("attn.norm_k.weight", "norm.key_norm.scale")
                    .replace("attn.to_q.", "linear1.");
            } else if name.starts_with("proj_out.") {
                original = original.replace("proj_out.", "final_layer.linear.");
            }
            if name.contains(".norms.") {
                original = original.replace(".weight", ".scale");
            }
            for (theirs, ours) in NAMES {
                original = original.replace(theirs, ours);
            }
            made.insert(original, joined.unwrap_or_else(|| tensor.shallow_clone()));
        }
        made
    }

    /// Two tokens are padding.
    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        let mask = Tensor::ones([1, tokens], (Kind::Float, Device::Cpu));
        drop(mask.narrow(1, tokens - 2, 2).fill_(0.0));
        TextEmbeds {
            mask: Some(mask),
            ..TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
        }
    }
}

#[test]
fn padding_that_is_alike_gives_the_answer_of_each_token_by_itself() {
    let transformer = model_of::<ChromaTransformer>(&diffusers::<ChromaTransformer>());
    let config = transformer.config();
    let text = made_up("in.prompt_embeds", &[1, 30, config.joint_attention_dim]);
    let last = text.narrow(1, 29, 1).copy();
    text.narrow(1, 10, 20)
        .copy_(&last.expand([1, 20, -1], false));
    let mask = Tensor::zeros([1, 30], (Kind::Float, Device::Cpu));
    drop(mask.narrow(1, 0, 4).fill_(1.0));
    let shape = ImageLatentShape::new(config.latent_channels(), 48, 32).unwrap();
    let latents = made_up("in.latents", &[1, 6, config.in_channels]);
    let ask = |text: &Tensor| {
        let text = TextEmbeds {
            mask: Some(mask.shallow_clone()),
            ..TextEmbeds::of_states(text.shallow_clone())
        };
        let conditioning = ImageConditioning::of_prompt(shape, &text);
        let skip = SkipOptions::default();
        predictions_of(&transformer, &latents, &conditioning, &[300.0], skip).remove(0)
    };
    let joined = ask(&text);
    // One that differs by less than a rounding of the answer keeps each of them apart.
    drop(text.narrow(1, 28, 1).g_add_scalar_(1e-7));
    assert_close("alike", &joined, &ask(&text), 1e-6);
}

#[test]
fn many_timesteps_are_told_what_each_is_told_alone() {
    let transformer = model_of::<ChromaTransformer>(&diffusers::<ChromaTransformer>());
    let timesteps: Vec<f32> = (1..=19).map(|i| i as f32 * 50.0).collect();
    let text = ChromaTransformer::text(transformer.config(), 5);
    let shape = ImageLatentShape::new(transformer.config().latent_channels(), 48, 32).unwrap();
    let conditioning = ImageConditioning::of_prompt(shape, &text);
    let context = transformer
        .context(&text, &conditioning, 1, &NoHooks)
        .unwrap();
    let all = transformer.modulations(&timesteps, &context);
    assert_eq!(all.len(), 19);
    for i in [0, 7, 8, 18] {
        let alone = &transformer.modulations(&timesteps[i..=i], &context)[0];
        assert_eq!(all[i].blocks.len(), alone.blocks.len());
        for (found, expected) in all[i].blocks.iter().zip(&alone.blocks) {
            assert_close("blocks", found, expected, 1e-6);
        }
        assert_close("last", &all[i].final_layer, &alone.final_layer, 1e-6);
    }
}
