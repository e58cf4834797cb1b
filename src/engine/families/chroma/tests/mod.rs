//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

mod padding;

use safelight_core::networks::DenoiserConfig as _;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::closeness::assert_close;
use crate::families::flux::tests::dialects::NAMES;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, diffusers, model_of, predictions_of, renamed,
};
use crate::hooks::NoHooks;
use crate::stages::images::{ImageConditioning, ImageLatentShape};
use crate::step_cache::SkipOptions;
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for ChromaTransformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("chroma"),
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
        let own = "
            distilled_guidance_layer.layers.N.in_layer -> distilled_guidance_layer.layers.N.linear_1
            distilled_guidance_layer.layers.N.out_layer -> distilled_guidance_layer.layers.N.linear_2
            distilled_guidance_layer.norms.N.scale -> distilled_guidance_layer.norms.N.weight";
        renamed(&[NAMES, own].concat(), diffusers)
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
fn merged_identical_padding_tokens_do_not_change_the_prediction() {
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
fn modulations_of_many_timesteps_match_those_computed_alone() {
    let transformer = model_of::<ChromaTransformer>(&diffusers::<ChromaTransformer>());
    let timesteps: Vec<f32> = (1..=19).map(|i| i as f32 * 50.0).collect();
    let text = ChromaTransformer::text(transformer.config(), 5);
    let shape = ImageLatentShape::new(transformer.config().latent_channels(), 48, 32).unwrap();
    let conditioning = ImageConditioning::of_prompt(shape, &text);
    let context = transformer
        .context(&ContextInput {
            text: &text,
            conditioning: &conditioning,
            num_images: 1,
            timesteps: &timesteps,
            hooks: &NoHooks,
        })
        .unwrap();
    let all = transformer.modulations(&timesteps, &context);
    assert_eq!(all.len(), 19);
    for i in [0, 7, 8, 18] {
        let alone = &transformer.modulations(&timesteps[i..=i], &context)[0];
        assert_eq!(all[i].blocks.len(), alone.blocks.len());
        for (found, expected) in all[i].blocks.iter().zip(&alone.blocks) {
            assert_close("blocks", found, expected, 1e-6);
        }
        let [found, expected] = [&all[i], alone].map(|it| it.final_layer.as_ref().unwrap());
        assert_close("last", found, expected, 1e-6);
    }
}
