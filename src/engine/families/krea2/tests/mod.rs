//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::networks::Krea2TransformerKeys;

use super::*;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, originals, prediction_of, renamed,
};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

/// Authors' and diffusers' names in a list of blocks.
const BLOCK: &str = "\
OURS.N.attn.wq -> THEIRS.N.attn.to_q
OURS.N.attn.wk -> THEIRS.N.attn.to_k
OURS.N.attn.wv -> THEIRS.N.attn.to_v
OURS.N.attn.wo -> THEIRS.N.attn.to_out.0
OURS.N.attn.gate -> THEIRS.N.attn.to_gate
OURS.N.attn.qknorm.qnorm.scale -> THEIRS.N.attn.norm_q.weight
OURS.N.attn.qknorm.knorm.scale -> THEIRS.N.attn.norm_k.weight
OURS.N.mlp -> THEIRS.N.ff
OURS.N.prenorm.scale -> THEIRS.N.norm1.weight
OURS.N.postnorm.scale -> THEIRS.N.norm2.weight
OURS.N.mod.lin -> THEIRS.N.scale_shift_table
";

const OTHERS: &str = "\
txtfusion -> text_fusion
first -> img_in
tmlp.0 -> time_embed.linear_1
tmlp.2 -> time_embed.linear_2
tproj.1 -> time_mod_proj
txtmlp.0.scale -> txt_in.norm.weight
txtmlp.1 -> txt_in.linear_1
txtmlp.3 -> txt_in.linear_2
last.linear -> final_layer.linear
last.norm.scale -> final_layer.norm.weight
last.modulation.lin -> final_layer.scale_shift_table";

impl TinyModel for Krea2Transformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("krea2"),
            timestep: 250.0,
            size: (48, 32),
            input: "in.tokens",
            // Adding the change to the weights first is 3e-6 off.
            limits: [2e-5, 5e-6],
            loras: &["comfy", "aitoolkit", "peft"],
            other_loras: &["comfy_alpha", "kohya"],
            streamed_loras: ["kohya", "comfy"],
            named: ["blocks.1.", "first.weight"],
            // The made-up norms double their output in every block.
            fp8: 0.8,
            has_skips: true,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        let blocks = [
            ("blocks", "transformer_blocks"),
            ("txtfusion.layerwise_blocks", "text_fusion.layerwise_blocks"),
            ("txtfusion.refiner_blocks", "text_fusion.refiner_blocks"),
        ]
        .map(|(ours, theirs)| BLOCK.replace("OURS", ours).replace("THEIRS", theirs));
        let mut made = renamed(&[&blocks.concat(), OTHERS].concat(), diffusers);
        for (name, tensor) in &mut made {
            if name.ends_with("mod.lin") {
                *tensor = tensor.flatten(0, 1);
            }
        }
        made
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.num_text_layers, config.text_hidden_dim];
        TextEmbeds::of_states(made_up("in.states", &size).flatten(2, 3))
    }
}

#[test]
fn leftover_and_squeezed_krea2_tensors_do_not_change_the_prediction() {
    let mut tensors = originals::<Krea2Transformer>();
    let plain = prediction_of::<Krea2Transformer>(&tensors);
    for name in Krea2TransformerKeys::UNREAD {
        tensors.insert(name.to_owned(), made_up("x", &[4, 4]));
    }
    let projector = "txtfusion.projector.weight";
    let squeezed = tensors[projector].view([-1]);
    tensors.insert(projector.to_owned(), squeezed);
    assert_eq!(prediction_of::<Krea2Transformer>(&tensors), plain);
}
