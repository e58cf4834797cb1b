//! LoRAs of every form on both experts, against what diffusers recorded (`tests/fixtures/lora`).

use safelight_core::job::Lora;

use super::variants::VariantRun;
use super::*;
use crate::weights::made_up::{lora_fixtures, made_up, write_lora};

const STRENGTH: f64 = 0.65;
/// Another order of sums: adding the change to the weights first is 3e-6 off.
const LIMIT: f64 = 5e-6;
const FORMS: [&str; 5] = ["musubi", "comfy", "comfy_alpha", "peft", "comfy_diff_b"];

fn expected(name: &str) -> Tensor {
    let all = store::read(&lora_fixtures().join("expected.safetensors")).unwrap();
    let found = all.into_iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

/// The answer of an expert to made-up inputs.
fn answer(config: &WanConfig, loras: &[Lora], expert: Expert) -> Tensor {
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
    transformer
        .forward(&latents, &timesteps, &context, &rope, &NoHooks)
        .unwrap()
}

#[test]
fn every_form_on_both_experts_is_that_of_the_reference() {
    let model = VariantRun::open("t2v22");
    let folder = tempfile::tempdir().unwrap();
    for (expert, name) in [(Expert::HighNoise, "wan"), (Expert::LowNoise, "wan_low")] {
        let none = answer(&model.run.config, &[], expert);
        assert_close(name, &none, &expected(&format!("{name}.none")), LIMIT);
        for form in FORMS {
            let path = write_lora(folder.path(), &format!("wan.{form}"), None);
            // Each expert has a strength of its own.
            let (strength, strength_2) = match expert {
                Expert::LowNoise => (0.1, Some(STRENGTH)),
                _ => (STRENGTH, Some(0.1)),
            };
            let lora = Lora {
                path,
                strength,
                strength_2,
            };
            let found = answer(&model.run.config, &[lora], expert);
            assert_close(
                &format!("{form} on {name}"),
                &found,
                &expected(&format!("{name}.{form}")),
                LIMIT,
            );
        }
    }
}
