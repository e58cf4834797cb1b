//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::networks::Krea2TransformerKeys;

use super::*;
use crate::families::tests::{Facts, Fixtures, Tensors, TinyModel, originals, prediction_of};
use crate::text::TextEmbeds;
use crate::weights::tests::made_up::made_up;

impl TinyModel for Krea2Transformer {
    const FAMILY: &'static ImageFamily<Self> = &FAMILY;

    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of(
                "krea2/transformer.json",
                "krea2/shapes.json",
                ("krea2/lora.json", "krea2."),
                "krea2/lora",
            ),
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
        let named = diffusers.iter().map(|(name, tensor)| {
            let mut own = name
                .replace("text_fusion.", "txtfusion.")
                .replace("transformer_blocks.", "blocks.")
                .replace("attn.to_q.", "attn.wq.")
                .replace("attn.to_k.", "attn.wk.")
                .replace("attn.to_v.", "attn.wv.")
                .replace("attn.to_out.0.", "attn.wo.")
                .replace("attn.to_gate.", "attn.gate.")
                .replace("attn.norm_q.weight", "attn.qknorm.qnorm.scale")
                .replace("attn.norm_k.weight", "attn.qknorm.knorm.scale")
                .replace(".ff.", ".mlp.")
                .replace(".norm1.weight", ".prenorm.scale")
                .replace(".norm2.weight", ".postnorm.scale");
            for (theirs, authors) in [
                ("img_in.", "first."),
                ("time_embed.linear_1.", "tmlp.0."),
                ("time_embed.linear_2.", "tmlp.2."),
                ("time_mod_proj.", "tproj.1."),
                ("txt_in.norm.weight", "txtmlp.0.scale"),
                ("txt_in.linear_1.", "txtmlp.1."),
                ("txt_in.linear_2.", "txtmlp.3."),
                ("final_layer.linear.", "last.linear."),
                ("final_layer.norm.weight", "last.norm.scale"),
                ("final_layer.scale_shift_table", "last.modulation.lin"),
            ] {
                if let Some(rest) = own.strip_prefix(theirs) {
                    own = format!("{authors}{rest}");
                }
            }
            if own.starts_with("blocks.") && own.ends_with("scale_shift_table") {
                let own = own.replace("scale_shift_table", "mod.lin");
                return (own, tensor.flatten(0, 1));
            }
            (own, tensor.shallow_clone())
        });
        named.collect()
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.num_text_layers, config.text_hidden_dim];
        TextEmbeds::of_states(made_up("in.states", &size).flatten(2, 3))
    }
}

#[test]
fn what_authors_leave_behind_and_converters_squeeze_changes_nothing() {
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
