//! Whole jobs with ControlNets, stage by stage as the worker orders them: against recorded runs of diffusers
//! (`tests/fixtures/control`), and what jobs promise.

use safelight_core::media;
use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{self, Job, assert_goes_on, assert_stops, picture, try_stage};
use super::stills::{Still, job, mask, one_picture, pixels, recorded};
use super::*;
use crate::families::qwen_image::QwenImage;
use crate::families::tests::ControlFixture;
use crate::families::z_image::ZImage;

/// Puts the networks, which the request names by their kinds, beside the model, and gives it its control pictures.
fn with_networks<'a>(
    family: &dyn Still,
    mut job: Job,
    pixels: impl Iterator<Item = &'a Tensor>,
) -> Job {
    let controls = std::mem::take(&mut job.request.controls);
    job = job.with_controls(pixels);
    job.request.controls = controls;
    for control in &mut job.request.controls {
        let network = control.settings.network.as_mut().unwrap();
        let kind = network.to_str().unwrap().to_owned();
        let fixture = ControlFixture::<Value>::of(family, &kind);
        *network = job.model.path().join(format!("control {kind}"));
        fs::create_dir_all(&*network).unwrap();
        fs::write(network.join("config.json"), fixture.config.to_string()).unwrap();
        let tensors: Vec<_> = fixture.tensors.into_iter().collect();
        let file = network.join("diffusion_pytorch_model.safetensors");
        Tensor::write_safetensors(&tensors, file).unwrap();
    }
    job
}

/// A job with one control of each kind at a strength.
fn controlled(family: &dyn Still, variant: &str, facts: &Value, kinds: &[(&str, f64)]) -> Job {
    let mut facts = facts.clone();
    let of = |(kind, strength): &(&str, f64)| json!({"file": "given.png", "network": kind, "strength": strength});
    facts["controls"] = kinds.iter().map(of).collect();
    let given: Vec<Tensor> = (0..kinds.len())
        .map(|index| pixels(&format!("control {index}"), 20, 30))
        .collect();
    let job = job(family, variant, &facts, [None; 2]);
    with_networks(family, job, given.iter())
}

fn check(family: &dyn Still, runs: &[&str]) {
    for run in runs {
        jobs::check(&format!("control/{run}"), |run| {
            let given = (0..).map_while(|index| run.given(&format!("control.{index}")));
            with_networks(family, recorded(family, run), given)
        });
    }
}

#[test]
fn every_version_for_z_image_steers_jobs_as_in_the_reference() {
    check(&ZImage, &["z_image_10", "z_image_20", "z_image_21"]);
}

#[test]
fn one_and_two_pictures_steer_jobs_of_qwen_image_as_in_the_reference() {
    check(&QwenImage, &["qwen_image_one", "qwen_image_two"]);
}

const GUIDED: [(&dyn Still, &str, &str); 2] =
    [(&ZImage, "base", "2.1"), (&QwenImage, "base", "union")];

#[test]
fn a_control_that_acts_in_no_step_makes_the_picture_that_no_control_makes() {
    let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
    let expected = one_picture(&job(&ZImage, "base", &facts, [None; 2]));
    let made = |strength: f64, until: f64| {
        let mut job = controlled(&ZImage, "base", &facts, &[("2.1", strength)]);
        job.request.controls[0].settings.until = until;
        one_picture(&job)
    };
    assert!(made(0.0, 1.0) == expected && made(1.0, 0.4) == expected);
    assert!(made(1.0, 0.5) != expected);
}

#[test]
fn jobs_with_controls_go_on_bit_for_bit_and_stop_when_they_are_asked_to() {
    for (family, variant, kind) in GUIDED {
        let facts =
            json!({"num_steps": 7, "batch_size": 2, "sampler": "dpmpp_2m", "guidance_scale": 3.0});
        let job = controlled(family, variant, &facts, &[(kind, 0.8)]);
        assert_goes_on(&job, family.id());
        assert_stops(&controlled(family, variant, &facts, &[(kind, 0.8)]));
    }
}

#[test]
fn streamed_jobs_with_controls_make_the_latents_of_those_that_stay() {
    for (family, variant, kind) in GUIDED {
        let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
        let job = controlled(family, variant, &facts, &[(kind, 0.8), (kind, 0.4)]);
        for stage in [Stage::EncodeText, Stage::EncodeImage, Stage::Denoise] {
            job.stage(stage, false);
        }
        let whole = job.latents();
        for resident_bytes in [0, 100_000] {
            let mut order = job.order(Stage::Denoise, false);
            order.memory.resident_bytes = Some(resident_bytes);
            let (done, _) = try_stage(&order, &|_, _| {});
            done.unwrap();
            assert_eq!(job.latents(), whole, "{resident_bytes}");
        }
    }
}

#[test]
fn every_picture_of_a_batch_is_the_one_that_its_seed_alone_makes_with_a_control() {
    for (family, variant, kind) in GUIDED {
        let made = |seed: u64, batch_size: u32| {
            let facts = json!({"seed": seed, "batch_size": batch_size, "guidance_scale": 3.0});
            let job = controlled(family, variant, &facts, &[(kind, 0.8)]);
            job.run(false);
            job.latents()
        };
        let batch = made(7, 2);
        for index in 0..2 {
            let alone = made(7 + index, 1);
            assert_eq!(batch.narrow(0, index as i64, 1), alone, "{}", family.id());
        }
    }
}

#[test]
fn a_control_steers_a_job_from_a_picture_and_its_second_pass() {
    for (family, variant, kind) in GUIDED {
        let image = pixels("pixels", 32, 32);
        let facts = json!({
            "width": 48, "height": 80, "num_steps": 4, "strength": 0.7,
            "second_pass": {"scale": 1.6, "strength": 0.5, "first_width": 32, "first_height": 48},
            "controls": [{"file": "given.png", "network": kind}],
        });
        let made = |strength: f64| {
            let mut facts = facts.clone();
            facts["controls"][0]["strength"] = json!(strength);
            let given = pixels("control", 20, 30);
            let job = job(family, variant, &facts, [Some(&image), None]);
            one_picture(&with_networks(family, job, [&given].into_iter()))
        };
        assert!(made(1.0) != made(0.0), "{}", family.id());
    }
}

#[test]
fn a_network_that_a_control_does_not_fit_is_named() {
    let facts = json!({});
    let fills = controlled(&QwenImage, "base", &facts, &[("inpainting", 1.0)]);
    for stage in [Stage::EncodeText, Stage::EncodeImage] {
        fills.stage(stage, false);
    }
    let (done, _) = try_stage(&fills.order(Stage::Denoise, false), &|_, _| {});
    let text = done.unwrap_err().to_string();
    assert!(text.contains("needs a mask"), "{text}");
}

#[test]
fn what_the_mask_of_a_control_hides_is_not_seen() {
    let made = |value: f64| {
        let facts = json!({"num_steps": 2});
        let mut job = controlled(&QwenImage, "base", &facts, &[("inpainting", 1.0)]);
        let seen = pixels("control", 32, 32);
        drop(seen.narrow(1, 16, 16).fill_(value));
        job.request.controls[0].mask = Some("mask.png".into());
        let folder = JobFolder::at(job.folder.path());
        let write = |path: PathBuf, xs: &Tensor| media::write_png(&path, &picture(xs)).unwrap();
        write(folder.control(0), &seen);
        write(folder.control_mask(0), &mask(32, 32));
        one_picture(&job)
    };
    assert!(made(10.0) == made(200.0));
}
