//! The transformer by itself: its names in every dialect, LoRAs, fp8, GGUF, streaming. Whole jobs are in
//! `stages/tests/krea2`, where its weights are from in `tests/fixtures/image_families.py`.

use safelight_core::networks::Krea2TransformerConfig;
use tch::Tensor;

use super::*;
use crate::families::tests::{
    Facts, MadeUp, Tensors, answer_of, assert_each_its_own, config_of, opened, originals, tests_of,
    written,
};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::weights::tests::made_up::made_up;

impl MadeUp for Krea2 {
    fn facts(&self) -> Facts {
        Facts {
            recorded_at: 0.25,
            // Adding the change to the weights first is 3e-6 off.
            limits: [2e-5, 5e-6],
            loras: &["comfy", "aitoolkit", "peft"],
            other_loras: &["comfy_alpha", "kohya"],
            streamed_loras: ["kohya", "comfy"],
            named: ["blocks.1.", "first.weight"],
            // The made-up norms double what they give, in every block.
            fp8: 0.8,
        }
    }

    fn originals(&self, diffusers: &Tensors) -> Tensors {
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

    fn with_loras(&self, w: &Weights, loras: &[Lora]) -> Result<Weights, WeightsError> {
        with_loras(w, loras)
    }

    fn answers(
        &self,
        w: &Weights,
        timesteps: &[f32],
        shortcut: Shortcut<'_>,
    ) -> Result<(Vec<Tensor>, Vec<String>), WeightsError> {
        let config = config_of::<Krea2TransformerConfig>(self);
        let transformer = Krea2Transformer::new(&config, w)?;
        let unread = Krea2Transformer::unexpected_keys(w);
        let states = [config.num_text_layers, config.text_hidden_dim];
        let text = made_up("in.states", &[1, 5, states[0], states[1]]);
        let tokens = made_up("in.tokens", &[1, 6, config.in_channels]);
        let context = transformer.context(&text.flatten(2, 3), [2, 3], &NoHooks);
        let context = context.unwrap();
        let told = transformer.modulations(timesteps);
        let ask = |told| transformer.forward_cached(&tokens, told, &context, shortcut, &NoHooks);
        Ok((told.iter().filter_map(ask).collect(), unread))
    }
}

tests_of!(Krea2, 1);

#[test]
fn what_authors_leave_behind_and_converters_squeeze_changes_nothing() {
    let mut tensors = originals(&Krea2);
    let plain = answer_of(&Krea2, &tensors);
    for name in Krea2TransformerKeys::UNREAD {
        tensors.insert(name.to_owned(), made_up("x", &[4, 4]));
    }
    let projector = "txtfusion.projector.weight";
    let squeezed = tensors[projector].view([-1]);
    tensors.insert(projector.to_owned(), squeezed);
    assert_eq!(answer_of(&Krea2, &tensors), plain);
}

#[test]
fn a_batch_on_any_device_is_asked_at_once_and_gives_each_picture_its_own() {
    let (_folder, path) = written(&originals(&Krea2));
    let config = config_of::<Krea2TransformerConfig>(&Krea2);
    let transformer = Krea2Transformer::new(&config, &opened(&path)).unwrap();
    let states = config.num_text_layers * config.text_hidden_dim;
    let text = made_up("in.prompt_embeds", &[1, 40, states]);
    let tokens = made_up("in.two", &[2, 35, config.in_channels]);
    let context = transformer.context(&text, [5, 7], &NoHooks).unwrap();
    let told = &transformer.modulations(&[0.3])[0];
    assert_each_its_own(&tokens, |xs| {
        transformer.forward(xs, told, &context, &NoHooks).unwrap()
    });
}
