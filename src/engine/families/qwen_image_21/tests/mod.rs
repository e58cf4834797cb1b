//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::networks::QwenImage21TransformerConfig;
use tch::{Kind, Tensor};

use super::{QwenImage21Transformer, stretches};
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel, renamed};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for QwenImage21Transformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("qwen_image_21"),
            timestep: 750.0,
            size: (64, 32),
            input: "in.latents",
            limits: [1e-5, 1e-5],
            loras: &["peft", "comfy_split", "comfy_split_alpha", "lightning"],
            other_loras: &["comfy", "comfy_alpha", "musubi"],
            streamed_loras: ["comfy", "lightning"],
            named: ["transformer_blocks.1.", "img_in.weight"],
            fp8: 0.4,
            has_skips: false,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        renamed(
            "transformer_blocks.N.img_mlp.gate_up -> transformer_blocks.N.img_mlp.gate_layer proj",
            diffusers,
        )
    }

    fn text(config: &QwenImage21TransformerConfig, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.context_in_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn a_text_is_cut_where_its_image_tokens_begin_and_end() {
    let states = Tensor::zeros([1, 6, 4], (Kind::Float, tch::Device::Cpu));
    let mut text = TextEmbeds::of_states(states);
    assert_eq!(stretches(&text).unwrap(), [(6, true)]);
    text.mask = Some(Tensor::from_slice(&[1_i64, 0, 0, 1, 1, 0]).view([1, 6]));
    let expected = [(1, true), (2, false), (2, true), (1, false)];
    assert_eq!(stretches(&text).unwrap(), expected);
}
