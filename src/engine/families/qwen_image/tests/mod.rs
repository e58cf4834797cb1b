//! The transformer by itself: its names behind every prefix, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/qwen_image`, where its weights are from in `tests/fixtures/image_families.py`.

mod control;

use safelight_core::networks::{QwenImageTransformerConfig, ZERO_TIME};
use tch::{Device, Kind, Tensor};

use super::*;
use crate::families::tests::{
    Facts, MadeUp, assert_each_its_own, config_of, diffusers, opened, tests_of, written,
};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::weights::tests::made_up::made_up;

impl MadeUp for QwenImage {
    fn facts(&self) -> Facts {
        Facts {
            recorded_at: 750.0,
            // Adding the change to the weights first is 6e-6 off.
            limits: [1e-5, 1e-5],
            loras: &["musubi", "comfy", "comfy_alpha", "lightning", "peft"],
            other_loras: &[],
            streamed_loras: ["musubi", "lightning"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
        }
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
        let config = config_of::<QwenImageTransformerConfig>(self);
        let transformer = QwenImageTransformer::new(&config, w)?;
        let unread = QwenImageTransformer::unexpected_keys(w);
        let text = made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]);
        let tokens = made_up("in.latents", &[1, 6, config.in_channels]);
        let context = transformer.context(&text, [2, 3], &[], 1);
        let told = transformer.modulations(timesteps);
        let ask = |told| transformer.forward_cached(&tokens, told, &context, shortcut, &NoHooks);
        Ok((told.iter().filter_map(ask).collect(), unread))
    }
}

tests_of!(QwenImage, 1);

#[test]
fn a_batch_on_any_device_is_asked_at_once_and_gives_each_picture_its_own() {
    let (_folder, path) = written(&diffusers(&QwenImage));
    let config = config_of::<QwenImageTransformerConfig>(&QwenImage);
    let transformer = QwenImageTransformer::new(&config, &opened(&path)).unwrap();
    let text = made_up("in.prompt_embeds", &[1, 40, config.joint_attention_dim]);
    let tokens = made_up("in.two", &[2, 35, config.in_channels]);
    let told = &transformer.modulations(&[300.0])[0];
    assert_each_its_own(&tokens, |xs| {
        let context = transformer.context(&text, [5, 7], &[], xs.size()[0]);
        transformer.forward(xs, told, &context, &NoHooks).unwrap()
    });
}

#[test]
fn the_mark_by_which_files_tell_edit_2511_is_not_told_of_as_unused() {
    let mut tensors = diffusers(&QwenImage);
    let mark = Tensor::zeros([0], (Kind::Float, Device::Cpu));
    tensors.insert(ZERO_TIME.to_owned(), mark);
    let (_folder, path) = written(&tensors);
    let config = config_of::<QwenImageTransformerConfig>(&QwenImage);
    let w = opened(&path);
    QwenImageTransformer::new(&config, &w).unwrap();
    assert_eq!(QwenImageTransformer::unexpected_keys(&w), [""; 0]);
}
