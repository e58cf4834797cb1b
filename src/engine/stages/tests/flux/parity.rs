//! Every tensor that diffusers recorded is there, under its name and within its limit, and none besides.

use safelight_core::job::LoraChoice;

use super::*;
use crate::stages::tests::jobs::Run;
use crate::weights::tests::made_up::write_lora_of;

/// The job of a recorded run.
pub(in crate::stages::tests) fn job(run: &Run) -> Job {
    let mut facts = run.facts.clone();
    let fields = facts.as_object_mut().unwrap();
    for ours in ["same", "unchecked", "variant", "role", "lora"] {
        fields.remove(ours);
    }
    let variant = run.facts["variant"].as_str().unwrap();
    if run.facts["role"] == "reference" {
        let seen = run.given("image").into_iter();
        return Job::new(variant, &facts, None, None).with_references(seen);
    }
    fields.insert("image_role".to_owned(), run.facts["role"].clone());
    let mut job = Job::new(variant, &facts, run.given("image"), run.given("mask"));
    if let Some(form) = run.facts["lora"].as_str() {
        let list = jobs::fixtures().join("control/flux_lora.json");
        let path = write_lora_of(&list, job.folder.path(), form, None);
        job.request.loras.push(LoraChoice {
            path,
            strength: 1.0,
            strength_2: None,
        });
    }
    job.with_controls(run.given("control.0").into_iter())
}

/// Recorded runs by what they make.
const RUNS: [(&str, &[&str]); 9] = [
    ("text", &["dev_a", "dev_b", "schnell_a", "schnell_b"]),
    ("a text of full length", &["long", "long_schnell"]),
    ("a negative prompt", &["true_cfg_a", "true_cfg_b"]),
    ("an image", &["image_a", "image_b"]),
    ("a mask", &["inpaint", "inpaint_cfg"]),
    ("a filled mask", &["fill", "fill_part"]),
    ("an edited image", &["kontext", "kontext_cfg"]),
    ("a control LoRA", &["control_lora"]),
    (
        "control",
        &["control", "control_image", "control_10", "control_30"],
    ),
];

#[test]
fn recorded_runs_are_those_of_the_reference() {
    for name in RUNS.into_iter().flat_map(|(_, names)| names) {
        jobs::check(&format!("flux/stages/{name}"), job);
    }
}
