//! Fixtures of the tiny transformer, and its quirks. Tests of every transformer are in `families/tests`, whole jobs in
//! `stages/tests`.

use super::*;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, diffusers, model_of, renamed, with_halves_swapped,
};
use crate::hooks::NoHooks;
use crate::weights::tests::made_up::made_up;

/// The authors' names of diffusers' layers; those within blocks are in [`LAYERS`].
const NAMES: &str = "
emb_in.image -> x_embedders.image
emb_in.image_cond -> x_embedders.image_cond
txt_in -> context_embedder
time_in.in_layer -> timestep_embedder.linear_1
time_in.out_layer -> timestep_embedder.linear_2
ref_time_in.in_layer -> target_timestep_embedder.linear_1
ref_time_in.out_layer -> target_timestep_embedder.linear_2
final_layer.image.linear -> proj_out
final_layer.image.adaLN_modulation.1 -> norm_out.linear";

const LISTS: [[&str; 2]; 4] = [
    ["txt_mode_blocks", "txt_mode_blocks"],
    ["content_mode_blocks.image", "mode_blocks.image"],
    ["content_mode_blocks.image_cond", "mode_blocks.image_cond"],
    ["single_blocks", "single_transformer_blocks"],
];

const LAYERS: [[&str; 2]; 8] = [
    ["q_proj", "attn.to_q"],
    ["k_proj", "attn.to_k"],
    ["v_proj", "attn.to_v"],
    ["attn_out", "attn.to_out.0"],
    ["norm.query_norm.scale", "attn.norm_q.weight"],
    ["norm.key_norm.scale", "attn.norm_k.weight"],
    ["mlp_in", "ff.linear_in"],
    ["mlp_out", "ff.linear_out"],
];

impl TinyModel for Flux3Transformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures::of("flux3"),
            timestep: 750.0,
            size: (48, 32),
            input: "in.latents",
            // Another order of sums, and the frequencies of timesteps: the reference's limit for LoRAs.
            limits: [3e-5, 3e-5],
            loras: &["comfy", "peft"],
            other_loras: &["comfy_alpha", "kohya"],
            streamed_loras: ["comfy", "kohya"],
            named: ["blocks.1.", "txt_in.weight"],
            fp8: 0.45,
            has_skips: false,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        let blocks = LISTS.iter().flat_map(|[own, other]| {
            let layers = LAYERS.iter();
            layers.map(move |[layer, theirs]| format!("\n{own}.N.{layer} -> {other}.N.{theirs}"))
        });
        let modulations = ["early", "single"].into_iter().flat_map(|stage| {
            let name = format!("{stage}_stream_modulations");
            MODES.map(|mode| format!("\n{name}.{mode}.lin -> {name}.{mode}.linear"))
        });
        let rows: String = blocks.chain(modulations).collect();
        with_halves_swapped(renamed(format!("{NAMES}{rows}").trim(), diffusers))
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
    }
}

#[test]
fn ids_are_halved_rows_and_columns_of_images_and_orders_below_0_of_references() {
    let row = |ids: &Tensor, index: i64| -> Vec<f32> { ids.get(index).try_into().unwrap() };
    let shape = LatentForm::FoldedTokens.shape(3, 48, 32).unwrap();
    assert_eq!(row(&img_ids(&shape, 0), 5), [0.0, 0.5, 1.0, 0.0]);
    assert_eq!(row(&img_ids(&shape, 2), 5), [0.0, 0.5, 1.0, -2.0]);
}

#[test]
fn a_step_ends_at_the_next_timestep_of_the_schedule_and_the_last_one_at_0() {
    let model = model_of::<Flux3Transformer>(&diffusers::<Flux3Transformer>());
    let shape = LatentForm::FoldedTokens.shape(32, 48, 32).unwrap();
    let text = Flux3Transformer::text(model.config(), 5);
    let conditioning = ImageConditioning::of_prompt(shape, &text);
    let input = ContextInput {
        text: &text,
        conditioning: &conditioning,
        num_images: 1,
        // Of a sampler with two calls in a step.
        timesteps: &[1000.0, 700.0, 700.0, 300.0],
        hooks: &NoHooks,
    };
    let context = model.context(&input).unwrap();
    let ends = [1000.0, 700.0, 300.0].map(|timestep| context.target(timestep));
    assert_eq!(ends, [700.0, 300.0, 0.0]);
}
