//! LoRAs of every form on both experts, against what diffusers recorded (`tests/fixtures/lora`).

use safelight_core::job::LoraChoice;

use super::variants::VariantRun;
use super::*;
use crate::families::tests::table;
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, write_changed};
use crate::weights::tests::made_up::{lora, made_up, write_lora, write_named};

const STRENGTH: f64 = 0.65;
/// Another order of sums: adding the change to the weights first is 3e-6 off.
const LIMIT: f64 = 5e-6;
const FORMS: [&str; 5] = ["musubi", "comfy", "comfy_alpha", "peft", "comfy_diff_b"];

#[track_caller]
fn assert_expected(what: &str, found: &Tensor, name: &str) {
    let limit = limit("lora/expected", name, LIMIT);
    let expected = fixtures::recorded("lora/expected.safetensors", name);
    assert_close(what, found, &expected, limit);
}

/// The answer of an expert to made-up inputs.
fn answer(config: &WanConfig, loras: &[LoraChoice], expert: Expert) -> Tensor {
    let place = match expert {
        Expert::LowNoise => config.files.transformer_2.as_ref().unwrap(),
        _ => &config.files.transformer,
    };
    let w = open_transformer(place, CPU, loras, expert).unwrap();
    let network = &config.transformer;
    let transformer = WanTransformer::new(network, &w).unwrap();
    let latents = made_up("in.hidden_states", &[1, network.in_channels, 2, 4, 6]);
    let embeds = made_up("in.prompt_embeds", &[1, 512, network.text_dim]);
    let context = transformer.context(&embeds, None);
    let timesteps = TokenTimesteps::uniform(600.0, 12);
    let rope = transformer.rope([1, network.in_channels, 2, 4, 6]);
    transformer.call(&latents, &timesteps, &context, &rope)
}

#[test]
fn every_form_on_both_experts_is_that_of_the_reference() {
    let model = VariantRun::open("t2v22");
    let folder = tempfile::tempdir().unwrap();
    for (expert, name) in [(Expert::HighNoise, "wan"), (Expert::LowNoise, "wan_low")] {
        let none = answer(&model.run.config, &[], expert);
        assert_expected(name, &none, &format!("{name}.none"));
        for form in FORMS {
            let path = write_lora(folder.path(), &format!("wan.{form}"), None);
            // Each expert has a strength of its own.
            let (strength, strength_2) = match expert {
                Expert::LowNoise => (0.1, Some(STRENGTH)),
                _ => (STRENGTH, Some(0.1)),
            };
            let lora = LoraChoice {
                path,
                strength,
                strength_2,
            };
            let found = answer(&model.run.config, &[lora], expert);
            let expected = format!("{name}.{form}");
            assert_expected(&format!("{form} on {name}"), &found, &expected);
        }
    }
}

/// A copy of the model's first transformer with `tensors` changed, and the answer of that.
fn answer_of_changed(config: &WanConfig, change: impl Fn(&str, Tensor) -> Tensor) -> Tensor {
    let file = Weights::read_all(&config.files.transformer).unwrap();
    let (_folder, path) = write_changed(file, |name, tensor| {
        Some((name.to_owned(), change(name, tensor)))
    });
    let mut config = config.clone();
    config.files.transformer = path;
    answer(&config, &[], Expert::HighNoise)
}

#[test]
fn differences_of_norms_modulations_and_whole_matrices_are_added_to_them() {
    let model = VariantRun::open("t2v22");
    let config = &model.run.config;
    let folder = tempfile::tempdir().unwrap();
    // The file's key, and the tensor in diffusers' names.
    let changes: Vec<(&str, &str)> = table(
        "diffusion_model.blocks.0.norm3.diff -> blocks.0.norm2.weight
         diffusion_model.blocks.0.norm3.diff_b -> blocks.0.norm2.bias
         diffusion_model.blocks.1.diff_m -> blocks.1.scale_shift_table
         diffusion_model.blocks.1.self_attn.norm_q.diff -> blocks.1.attn1.norm_q.weight
         diffusion_model.blocks.0.self_attn.v.diff -> blocks.0.attn1.to_v.weight
         diffusion_model.blocks.0.self_attn.v.diff_b -> blocks.0.attn1.to_v.bias
         diffusion_model.head.diff_m -> scale_shift_table
         diffusion_model.patch_embedding.diff -> patch_embedding.weight",
    )
    .collect();
    let file = tensors_in(&config.files.transformer);
    let difference = |key: &str, shape: &[i64]| made_up(&format!("{key}.difference"), shape);
    let named = changes.iter().map(|(key, changed)| {
        let tensor = difference(key, &file[*changed].size());
        ((*key).to_owned(), tensor)
    });
    let path = folder.path().join("differences.safetensors");
    write_named(&path, &named.collect::<BTreeMap<_, _>>());
    let strength = 0.3;
    let found = answer(config, &[lora(path, strength)], Expert::HighNoise);
    let expected = answer_of_changed(config, |name, tensor| {
        match changes.iter().find(|(_, changed)| *changed == name) {
            Some((key, _)) => &tensor + difference(key, &tensor.size()) * strength,
            None => tensor,
        }
    });
    assert_close("differences", &found, &expected, LIMIT);
    assert!(distance(&found, &answer(config, &[], Expert::HighNoise)) > 1e-2);
}

#[test]
fn a_layer_with_a_broken_alpha_is_left_out_and_an_empty_strength_opens_nothing() {
    let model = VariantRun::open("t2v22");
    let config = &model.run.config;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let dim = config.transformer.dim();
    let layer = "blocks.0.self_attn.q";
    let without = answer(config, &[], Expert::HighNoise);
    for (alpha, strength, acts) in [
        (Tensor::from_slice(&[f32::NAN]), 1.0, false),
        (Tensor::from_slice(&[2.0_f32, 2.0]), 1.0, false),
        (Tensor::from_slice(&[2_i64]), 0.0, false),
        (Tensor::from_slice(&[2_i64]), 1.0, true),
    ] {
        let tensors = BTreeMap::from([
            (format!("{layer}.lora_down.weight"), made_up("a", &[2, dim])),
            (format!("{layer}.lora_up.weight"), made_up("b", &[dim, 2])),
            (format!("{layer}.alpha"), alpha),
        ]);
        write_named(&path, &tensors);
        let with = answer(config, &[lora(path.clone(), strength)], Expert::HighNoise);
        assert_eq!(distance(&with, &without) > 0.0, acts);
    }
}
