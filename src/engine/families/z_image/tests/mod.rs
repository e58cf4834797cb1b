//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use tch::Tensor;

use super::*;
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel, originals, prediction_of};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for ZImageTransformer {
    const FAMILY: &'static ImageFamily<Self> = &FAMILY;

    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of(
                "z_image/transformer.json",
                "z_image/shapes.json",
                ("z_image/lora.json", "z_image."),
                "z_image/lora",
            ),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            // Adding the change to the weights first is 3e-6 off.
            limits: [2e-5, 5e-6],
            loras: &["kohya", "kohya_fused", "aitoolkit", "comfy_alpha", "peft"],
            other_loras: &["comfy_fused"],
            streamed_loras: ["kohya", "comfy_fused"],
            named: ["layers.1.", "x_embedder.weight"],
            fp8: 0.4,
            has_skips: true,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
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

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.cap_feat_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn what_is_left_of_lumina_and_squeezed_by_converters_changes_nothing() {
    let mut tensors = originals::<ZImageTransformer>();
    let plain = prediction_of::<ZImageTransformer>(&tensors);
    tensors.insert("norm_final.weight".to_owned(), made_up("x", &[64]));
    for pad in ["x_pad_token", "cap_pad_token"] {
        let squeezed = tensors[pad].view([-1]);
        tensors.insert(pad.to_owned(), squeezed);
    }
    assert_eq!(prediction_of::<ZImageTransformer>(&tensors), plain);
}
