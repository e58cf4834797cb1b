//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use safelight_core::lora::{ANIMA_ADAPTER, Expert};
use safelight_core::networks::AnimaAdapterConfig;

use super::adapter::{TextAdapter, named};
use super::*;
use crate::closeness::{assert_close, distance};
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, json_of, opened, originals, prediction_of, renamed,
    written,
};
use crate::hooks::NoHooks;
use crate::text::TokenBatch;
use crate::weights::tests::fixtures::{fixture, recorded, tensors_of};
use crate::weights::tests::made_up::{lora, made_up, write_lora_of};

/// The authors' names of diffusers' layers.
const NAMES: &str = "
x_embedder.proj.1 -> patch_embed.proj
t_embedder.1 -> time_embed.t_embedder
t_embedding_norm -> time_embed.norm
final_layer.adaln_modulation.1 -> norm_out.linear_1
final_layer.adaln_modulation.2 -> norm_out.linear_2
final_layer.linear -> proj_out
blocks.N.adaln_modulation_self_attn.1 -> transformer_blocks.N.norm1.linear_1
blocks.N.adaln_modulation_self_attn.2 -> transformer_blocks.N.norm1.linear_2
blocks.N.adaln_modulation_cross_attn.1 -> transformer_blocks.N.norm2.linear_1
blocks.N.adaln_modulation_cross_attn.2 -> transformer_blocks.N.norm2.linear_2
blocks.N.adaln_modulation_mlp.1 -> transformer_blocks.N.norm3.linear_1
blocks.N.adaln_modulation_mlp.2 -> transformer_blocks.N.norm3.linear_2
blocks.N.mlp.layer1 -> transformer_blocks.N.ff.net.0.proj
blocks.N.mlp.layer2 -> transformer_blocks.N.ff.net.2";

impl TinyModel for AnimaTransformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("anima"),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            limits: [5e-6, 3e-5],
            loras: &["comfy", "peft", "comfy_transformer_only"],
            other_loras: &["comfy_alpha", "kohya"],
            streamed_loras: ["comfy", "kohya"],
            named: ["blocks.1.", "x_embedder.proj.1.weight"],
            fp8: 0.4,
            has_skips: false,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        let attentions = [("self_attn", "attn1"), ("cross_attn", "attn2")].map(|(own, other)| {
            "\nblocks.N.OWN.q_proj -> transformer_blocks.N.OTHER.to_q
             blocks.N.OWN.k_proj -> transformer_blocks.N.OTHER.to_k
             blocks.N.OWN.v_proj -> transformer_blocks.N.OTHER.to_v
             blocks.N.OWN.output_proj -> transformer_blocks.N.OTHER.to_out.0
             blocks.N.OWN.q_norm -> transformer_blocks.N.OTHER.norm_q
             blocks.N.OWN.k_norm -> transformer_blocks.N.OTHER.norm_k"
                .replace("OWN", own)
                .replace("OTHER", other)
        });
        renamed([NAMES, &attentions.concat()].concat().trim(), diffusers)
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.text_embed_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn tensors_of_the_text_adapter_and_of_training_do_not_change_the_prediction() {
    let mut tensors = originals::<AnimaTransformer>();
    let plain = prediction_of::<AnimaTransformer>(&tensors);
    for name in [
        "llm_adapter.norm.weight",
        "pos_embedder.seq",
        "accum_iteration",
        "blocks.0.mlp.layer1._extra_state",
    ] {
        tensors.insert(name.to_owned(), made_up("x", &[64]));
    }
    assert_eq!(prediction_of::<AnimaTransformer>(&tensors), plain);
}

/// Embeddings of the recorded ids and states by an adapter, with a form of LoRA.
fn adapted(tensors: &Tensors, form: Option<&str>) -> Tensor {
    let (folder, path) = written(tensors);
    let form = form.map(|form| {
        let form = format!("anima.{form}");
        let file = write_lora_of(&fixture("anima/lora.json"), folder.path(), &form, None);
        lora(file, 0.65)
    });
    let config = json_of("anima/text_conditioner.json");
    let config: AnimaAdapterConfig = serde_json::from_value(config).unwrap();
    let w = opened(&path);
    let loras: Vec<_> = form.into_iter().collect();
    let w = w.with_loras(&loras, Expert::Only, ANIMA_ADAPTER, &named(&w));
    let w = w.unwrap();
    let adapter = TextAdapter::new(&config, &w).unwrap();
    assert_eq!(TextAdapter::unexpected_keys(&w), Vec::<String>::new());
    let ids = Tensor::from_slice(&[5_i64, 17, 3, 250, 1]).unsqueeze(0);
    let tokens = TokenBatch {
        mask: ids.ones_like(),
        ids,
        weights: None,
        num_tokens: 5,
        num_cut: 0,
    };
    let states = made_up("in.states", &[1, 4, config.source_dim]);
    let embeds = adapter.forward(&tokens, &states, &NoHooks).unwrap();
    assert_eq!(embeds.size()[1], config.min_sequence_length);
    embeds.narrow(1, 0, 6)
}

#[test]
fn loras_change_the_text_adapter_in_every_dialect_as_the_reference_does() {
    let shapes = &json_of("anima/shapes.json")["tiny"]["text_conditioner"];
    let own: Tensors = tensors_of(shapes, "text_conditioner.")
        .into_iter()
        .collect();
    let behind = |prefix: &str| {
        let tensors = own.iter();
        let renamed = tensors.map(|(name, xs)| (format!("{prefix}{name}"), xs.shallow_clone()));
        renamed.collect::<Tensors>()
    };
    let plain = recorded("anima/adapter.safetensors", "none");
    let changed = recorded("anima/adapter.safetensors", "comfy");
    for prefix in ["", "llm_adapter.", "net.llm_adapter."] {
        let tensors = behind(prefix);
        assert_close(prefix, &adapted(&tensors, None), &plain, 1e-5);
        assert_close(prefix, &adapted(&tensors, Some("comfy")), &changed, 3e-5);
        for form in ["peft", "comfy_alpha", "kohya"] {
            let far = distance(&adapted(&tensors, Some(form)), &plain);
            assert!(far > 0.01, "{form}: {far}");
        }
        // It has no layers of the adapter.
        let other = adapted(&tensors, Some("comfy_transformer_only"));
        assert_close(prefix, &other, &plain, 1e-5);
    }
}
