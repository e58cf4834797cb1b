//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use super::*;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, originals, prediction_of, renamed,
};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for ZImageTransformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("z_image"),
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
        let blocks = ["layers", "noise_refiner", "context_refiner"].map(|list| {
            "\nLIST.N.attention.qkv -> LIST.N.attention.to_q to_k to_v
             LIST.N.attention.q_norm -> LIST.N.attention.norm_q
             LIST.N.attention.k_norm -> LIST.N.attention.norm_k
             LIST.N.attention.out -> LIST.N.attention.to_out.0"
                .replace("LIST", list)
        });
        let others = "x_embedder -> all_x_embedder.2-1\nfinal_layer -> all_final_layer.2-1";
        renamed(&[others, &blocks.concat()].concat(), diffusers)
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.cap_feat_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn leftover_and_squeezed_z_image_tensors_do_not_change_the_prediction() {
    let mut tensors = originals::<ZImageTransformer>();
    let plain = prediction_of::<ZImageTransformer>(&tensors);
    tensors.insert("norm_final.weight".to_owned(), made_up("x", &[64]));
    for pad in ["x_pad_token", "cap_pad_token"] {
        let squeezed = tensors[pad].view([-1]);
        tensors.insert(pad.to_owned(), squeezed);
    }
    assert_eq!(prediction_of::<ZImageTransformer>(&tensors), plain);
}
