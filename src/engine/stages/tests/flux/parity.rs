//! Every tensor that diffusers recorded is there, under its name and within its limit, and none besides.

use safelight_core::job::LoraChoice;

use super::*;
use crate::stages::tests::jobs::Run;
use crate::weights::tests::made_up::write_lora_of;

fn check(name: &str) {
    jobs::check(&format!("flux/stages/{name}"), job);
}

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

#[test]
fn text_becomes_a_picture_as_in_the_reference() {
    for name in ["dev_a", "dev_b", "schnell_a", "schnell_b"] {
        check(name);
    }
}

#[test]
fn texts_have_the_length_that_the_model_was_trained_with() {
    for name in ["long", "long_schnell"] {
        check(name);
    }
}

#[test]
fn a_negative_prompt_guides_as_in_the_reference() {
    for name in ["true_cfg_a", "true_cfg_b"] {
        check(name);
    }
}

#[test]
fn a_picture_becomes_another_as_in_the_reference() {
    for name in ["image_a", "image_b"] {
        check(name);
    }
}

#[test]
fn what_a_mask_hides_is_made_anew_as_in_the_reference() {
    for name in ["inpaint", "inpaint_cfg"] {
        check(name);
    }
}

#[test]
fn what_a_mask_hides_is_filled_as_in_the_reference() {
    for name in ["fill", "fill_part"] {
        check(name);
    }
}

#[test]
fn a_control_picture_is_followed_as_in_the_reference() {
    for name in ["control", "control_image", "control_10", "control_30"] {
        check(name);
    }
}

#[test]
fn dev_follows_a_control_picture_with_a_lora_as_in_the_reference() {
    check("control_lora");
}

#[test]
fn a_picture_is_edited_as_in_the_reference() {
    for name in ["kontext", "kontext_cfg"] {
        check(name);
    }
}
