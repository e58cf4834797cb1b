//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/z_image`, where its weights are from in `tests/fixtures/image_families.py`.

mod control;

use safelight_core::networks::ZImageTransformerConfig;
use tch::Tensor;

use super::*;
use crate::families::tests::{
    Facts, MadeUp, Tensors, answer_of, assert_each_its_own, config_of, opened, originals, tests_of,
    written,
};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::weights::tests::made_up::made_up;

impl MadeUp for ZImage {
    fn facts(&self) -> Facts {
        Facts {
            recorded_at: 750.0,
            // Adding the change to the weights first is 3e-6 off.
            limits: [2e-5, 5e-6],
            loras: &["kohya", "kohya_fused", "aitoolkit", "comfy_alpha", "peft"],
            other_loras: &["comfy_fused"],
            streamed_loras: ["kohya", "comfy_fused"],
            named: ["layers.1.", "x_embedder.weight"],
            fp8: 0.4,
        }
    }

    fn originals(&self, diffusers: &Tensors) -> Tensors {
        let mut made = Tensors::new();
        for (name, tensor) in diffusers {
            if name.contains("to_k.") || name.contains("to_v.") {
                continue;
            }
            if name.contains("to_q.") {
                let parts =
                    ["to_q", "to_k", "to_v"].map(|part| &diffusers[&name.replace("to_q", part)]);
                made.insert(name.replace("to_q", "qkv"), Tensor::cat(&parts, 0));
                continue;
            }
            let name = name
                .replace("all_x_embedder.2-1.", "x_embedder.")
                .replace("all_final_layer.2-1.", "final_layer.")
                .replace("attention.norm_q.", "attention.q_norm.")
                .replace("attention.norm_k.", "attention.k_norm.")
                .replace("attention.to_out.0.", "attention.out.");
            made.insert(name, tensor.shallow_clone());
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
        let config = config_of::<ZImageTransformerConfig>(self);
        let transformer = ZImageTransformer::new(&config, w)?;
        let unread = ZImageTransformer::unexpected_keys(w);
        let text = made_up("in.prompt_embeds", &[1, 5, config.cap_feat_dim]);
        let latents = made_up("in.latents", &[1, config.in_channels, 4, 6]);
        let context = transformer.context(&text, [4, 6], &NoHooks).unwrap();
        let told = transformer.modulations(&transformer.told(timesteps));
        let ask = |told| transformer.forward_cached(&latents, told, &context, shortcut, &NoHooks);
        Ok((told.iter().filter_map(ask).collect(), unread))
    }
}

tests_of!(ZImage, 1);

#[test]
fn what_is_left_of_lumina_and_squeezed_by_converters_changes_nothing() {
    let mut tensors = originals(&ZImage);
    let plain = answer_of(&ZImage, &tensors);
    tensors.insert("norm_final.weight".to_owned(), made_up("x", &[64]));
    for pad in ["x_pad_token", "cap_pad_token"] {
        let squeezed = tensors[pad].view([-1]);
        tensors.insert(pad.to_owned(), squeezed);
    }
    assert_eq!(answer_of(&ZImage, &tensors), plain);
}

#[test]
fn a_batch_on_any_device_is_asked_at_once_and_gives_each_picture_its_own() {
    let (_folder, path) = written(&originals(&ZImage));
    let config = config_of::<ZImageTransformerConfig>(&ZImage);
    let transformer = ZImageTransformer::new(&config, &opened(&path)).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.cap_feat_dim]);
    let latents = made_up("in.two", &[2, config.in_channels, 10, 14]);
    let context = transformer.context(&text, [10, 14], &NoHooks).unwrap();
    let told = &transformer.modulations(&transformer.told(&[300.0]))[0];
    assert_each_its_own(&latents, |xs| {
        transformer.forward(xs, told, &context, &NoHooks).unwrap()
    });
}
