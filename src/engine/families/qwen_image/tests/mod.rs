//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::networks::ZERO_TIME;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::families::tests::{Facts, Fixtures, TinyModel, config_of, diffusers, opened, written};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for QwenImageTransformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("qwen_image"),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            // Adding the change to the weights first is 6e-6 off.
            limits: [1e-5, 1e-5],
            loras: &["musubi", "comfy", "comfy_alpha", "lightning", "peft"],
            other_loras: &[],
            streamed_loras: ["musubi", "lightning"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
            has_skips: true,
        }
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn edit_2511_marker_is_not_reported_as_an_unexpected_key() {
    let mut tensors = diffusers::<QwenImageTransformer>();
    let mark = Tensor::zeros([0], (Kind::Float, Device::Cpu));
    tensors.insert(ZERO_TIME.to_owned(), mark);
    let (_folder, path) = written(&tensors);
    let config = config_of::<QwenImageTransformer>();
    let w = opened(&path);
    QwenImageTransformer::new(&config, &w).unwrap();
    let found = WeightsDialect::of::<QwenImageTransformer>(&w).unexpected_keys(&w);
    assert_eq!(found, [""; 0]);
}
