//! Guiders on recorded answers (`tests/fixtures/guiders`), against diffusers' own.

use std::cell::Cell;
use std::collections::BTreeMap;

use safelight_core::job::BlockSet;
use tch::Device;

use super::*;
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{fixture, tensors_in};

const STEPS: usize = 5;
const SCALE: f64 = 4.5;

fn recorded() -> BTreeMap<String, Tensor> {
    tensors_in(&fixture("guiders/recorded.safetensors"))
}

fn text() -> TextEmbeds {
    TextEmbeds {
        prompt: Tensor::zeros([1, 1, 1], (Kind::Float, Device::Cpu)),
        mask: None,
        pooled: None,
    }
}

fn call(index: usize, step: usize) -> ModelCall {
    ModelCall {
        index,
        number: index,
        step,
        num_steps: STEPS,
        timestep: 0.0,
        sigma: 1.0,
        timestep_tensor: Tensor::from(0.0),
    }
}

/// Guided passes whose texts are named in the order in which they are read.
fn guidance(guiding: GuidanceParams) -> GuidedPasses<&'static str> {
    let texts = Cell::new(0);
    let read = |_: &TextEmbeds| Ok(["cond", "uncond"][texts.replace(texts.get() + 1)]);
    let guidance = GuidedPasses::new(&text(), Some(&text()), guiding, read);
    guidance.expect("both texts can be read")
}

fn velocity(
    guidance: &GuidedPasses<&'static str>,
    call: &ModelCall,
    model: impl Fn(&str) -> Tensor,
) -> Tensor {
    let ask = |context: &&'static str, without: BlockSet| {
        Some(model(if without.is_empty() {
            context
        } else {
            "skipped"
        }))
    };
    let latents = model("cond");
    let own = Tensor::shallow_clone;
    let answer = guidance.velocity(call, &latents, &mut StageCapture::off(), own, ask);
    answer.expect("nobody cancels")
}

#[test]
fn every_guider_matches_diffusers_at_each_step() {
    let recorded = recorded();
    let names = recorded.keys().filter_map(|key| key.split_once(".0."));
    let runs: Vec<_> = names.filter(|(_, name)| name.contains('/')).collect();
    assert_eq!(runs.len(), 22);
    for (size, name) in runs {
        let (guider, range) = name.split_once('/').unwrap();
        let guidance = guidance(GuidanceParams {
            scale: SCALE,
            guider: guider.parse().unwrap(),
            range: range.parse().unwrap(),
        });
        for step in 0..STEPS {
            let model = |text: &str| recorded[&format!("{size}.{step}.{text}")].copy();
            let found = velocity(&guidance, &call(step, step), model);
            let expected = &recorded[&format!("{size}.{step}.{name}")];
            if expected.count_nonzero(None).int64_value(&[]) == 0 {
                assert_eq!(&found, expected, "{name} {step}");
            } else {
                assert_close(&format!("{name} {step}"), &found, expected, 1e-6);
            }
        }
    }
}

#[test]
fn rescaled_predictions_deviate_as_the_conditional_ones_do() {
    let recorded = recorded();
    let model = |text: &str| recorded[&format!("video.0.{text}")].copy();
    let found = |guider: &str| {
        let guidance = guidance(GuidanceParams {
            guider: guider.parse().unwrap(),
            ..SCALE.into()
        });
        velocity(&guidance, &call(0, 0), model)
    };
    let plain = found("cfg");
    assert_close("share 0", &found("rescale:0"), &plain, 1e-6);
    let deviation = |xs: &Tensor| xs.std(true).double_value(&[]);
    let (whole, cond) = (found("rescale:1"), deviation(&model("cond")));
    assert!(deviation(&plain) > 1.1 * cond);
    assert!((deviation(&whole) / cond - 1.0).abs() < 1e-5);
    assert_close(
        "half",
        &found("rescale:0.5"),
        &((plain + whole) * 0.5),
        1e-6,
    );
}

#[test]
fn without_a_negative_prompt_only_skipped_blocks_guide() {
    let recorded = recorded();
    let guiding = GuidanceParams {
        scale: 1.0,
        guider: "slg:9:2.8:0-0.9".parse().unwrap(),
        range: GuidanceRange::default(),
    };
    let guidance = GuidedPasses::new(&text(), None, guiding, |_| Ok("cond")).unwrap();
    for step in 0..STEPS {
        let model = |text: &str| recorded[&format!("video.{step}.{text}")].copy();
        let found = velocity(&guidance, &call(step, step), model);
        let expected = &recorded[&format!("video.{step}.slg:9:2.8:0-0.9")];
        assert_close(&step.to_string(), &found, expected, 1e-6);
    }
}

#[test]
fn a_block_that_a_model_does_not_have_is_refused_by_its_number() {
    let guiding = |text: &str| GuidanceParams {
        guider: text.parse().unwrap(),
        ..SCALE.into()
    };
    let message = guiding("slg:3,30:1:0-1").check_blocks(30).unwrap_err();
    let message = message.to_string();
    let holds = message.contains("block 30: this model has 30 blocks");
    assert!(holds, "{message}");
    guiding("slg:3,29:1:0-1").check_blocks(30).unwrap();
    guiding("apg").check_blocks(1).unwrap();
}

#[test]
fn guidance_range_and_zero_steps_limit_the_model_calls_per_step() {
    let recorded = recorded();
    let asked = Cell::new(0);
    let model = |text: &str| {
        asked.set(asked.get() + 1);
        recorded[&format!("tokens.0.{text}")].copy()
    };
    let guidance = guidance(GuidanceParams {
        scale: SCALE,
        guider: Guider::CfgZero { zero_steps: 1 },
        range: "0.4-0.8".parse().unwrap(),
    });
    let counts = (0..STEPS).map(|step| {
        // What stands for the latents is asked for, too.
        asked.set(-1);
        drop(velocity(&guidance, &call(step, step), model));
        asked.get()
    });
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 2, 2, 1]);
}

#[test]
fn a_call_that_is_made_again_counts_once_in_the_momentum() {
    let recorded = recorded();
    let run = |calls: &[(usize, usize)]| {
        let guidance = guidance(GuidanceParams {
            guider: Guider::Apg {
                eta: 0.0,
                longest: 0.0,
                momentum: -0.5,
            },
            ..SCALE.into()
        });
        let answers = calls.iter().map(|&(index, step)| {
            let model = |text: &str| recorded[&format!("video.{step}.{text}")].copy();
            velocity(&guidance, &call(index, step), model)
        });
        answers.last().unwrap()
    };
    let once = run(&[(0, 0), (1, 1), (2, 2)]);
    assert_eq!(run(&[(0, 0), (0, 0), (1, 4), (1, 1), (2, 2)]), once);
    assert_ne!(run(&[(0, 1), (1, 1), (2, 2)]), once);
}
