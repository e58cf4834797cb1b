//! Whole jobs with ControlNets, stage by stage as the worker orders them: against recorded runs of diffusers
//! (`tests/fixtures/control`), and what jobs promise.

use safelight_core::media;
use serde_json::{Value, json};
use tch::Tensor;

use super::flux::parity;
use super::images::{TinyJobs, job, mask, one_image, pixels, recorded};
use super::jobs::{self, Job, assert_goes_on, assert_stops, image, try_stage};
use super::*;
use crate::families::family::EngineFamily;
use crate::families::tests::ControlFixture;

/// Copies the networks that the request names by kind into the model's folder, and adds its control images.
pub(super) fn with_networks<'a>(
    family: &dyn EngineFamily,
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

/// A family with ControlNets, and how its tiny jobs are made.
struct Family {
    engine: &'static dyn EngineFamily,
    job: fn(&str, &Value, [Option<&Tensor>; 2]) -> Job,
}

const Z_IMAGE: Family = Family {
    engine: &families::z_image::FAMILY,
    job: |variant, facts, given| job(&families::z_image::FAMILY, variant, facts, given),
};
const QWEN_IMAGE: Family = Family {
    engine: &families::qwen_image::FAMILY,
    job: |variant, facts, given| job(&families::qwen_image::FAMILY, variant, facts, given),
};
const FLUX: Family = Family {
    engine: &families::flux::FAMILY,
    job: |variant, facts, [image, mask]| {
        let mut facts = facts.clone();
        facts["image_role"] = json!("base");
        // What the others call so is what they are guided with by a negative prompt.
        if let Some(scale) = facts.get("guidance_scale").cloned() {
            facts["true_cfg_scale"] = scale;
        }
        Job::new(variant, &facts, image, mask)
    },
};
const SDXL: Family = Family {
    engine: &families::sdxl::FAMILY,
    job: super::sdxl::job_of,
};

impl Family {
    /// A job with one control of each kind at a strength; those whose kind must be stated see a depth map.
    fn controlled(
        &self,
        variant: &str,
        facts: &Value,
        kinds: &[(&str, f64)],
        given: [Option<&Tensor>; 2],
    ) -> Job {
        let mut facts = facts.clone();
        let of = |(kind, strength): &(&str, f64)| json!({"file": "given.png", "network": kind, "strength": strength, "kind": "depth"});
        facts["controls"] = kinds.iter().map(of).collect();
        let images: Vec<Tensor> = (0..kinds.len())
            .map(|index| pixels(&format!("control {index}"), 20, 30))
            .collect();
        let job = (self.job)(variant, &facts, given);
        with_networks(self.engine, job, images.iter())
    }
}

fn check(family: &dyn TinyJobs, runs: &[&str]) {
    for run in runs {
        jobs::check(&format!("control/{run}"), |run| {
            let given = (0..).map_while(|index| run.given(&format!("control.{index}")));
            with_networks(family, recorded(family, run), given)
        });
    }
}

#[test]
fn recorded_runs_with_networks_are_those_of_the_reference() {
    let z_image = ["z_image_10", "z_image_20", "z_image_21"];
    check(&families::z_image::FAMILY, &z_image);
    let qwen_image = ["qwen_image_one", "qwen_image_two"];
    check(&families::qwen_image::FAMILY, &qwen_image);
    for run in ["union", "plain", "schnell", "two", "image", "inpaint"] {
        jobs::check(&format!("control/flux_{run}"), |run| {
            let controls = run.facts["controls"].clone();
            let mut job = parity::job(run);
            job.request.controls = serde_json::from_value(controls).unwrap();
            let given = (0..).map_while(|index| run.given(&format!("control.{index}")));
            with_networks(&families::flux::FAMILY, job, given)
        });
    }
}

/// Guided ones.
const GUIDED: [(Family, &str, &str); 4] = [
    (Z_IMAGE, "base", "2.1"),
    (QWEN_IMAGE, "base", "union"),
    (FLUX, "dev", "union"),
    (SDXL, "base", "union"),
];

#[test]
fn a_control_that_acts_in_no_step_makes_the_image_that_no_control_makes() {
    let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
    let expected = one_image(&job(&families::z_image::FAMILY, "base", &facts, [None; 2]));
    let made = |strength: f64, until: f64| {
        let mut job = Z_IMAGE.controlled("base", &facts, &[("2.1", strength)], [None; 2]);
        job.request.controls[0].settings.until = until;
        one_image(&job)
    };
    assert!(made(0.0, 1.0) == expected && made(1.0, 0.4) == expected);
    assert!(made(1.0, 0.5) != expected);
}

#[test]
fn jobs_with_controlnets_resume_bit_for_bit_and_can_be_cancelled() {
    for (family, variant, kind) in GUIDED {
        let facts =
            json!({"num_steps": 7, "batch_size": 2, "sampler": "dpmpp_2m", "guidance_scale": 3.0});
        let job = || family.controlled(variant, &facts, &[(kind, 0.8)], [None; 2]);
        assert_goes_on(&job(), family.engine.id());
        assert_stops(&job());
    }
}

#[test]
fn streamed_jobs_with_controls_make_the_latents_of_those_that_stay() {
    for (family, variant, kind) in GUIDED {
        let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
        let kinds = [(kind, 0.8), (kind, 0.4)];
        let job = family.controlled(variant, &facts, &kinds, [None; 2]);
        job.stage(Stage::EncodeText, false);
        job.stage(Stage::EncodeImage, false);
        job.assert_streams();
    }
}

#[test]
fn every_image_of_a_batch_is_the_one_that_its_seed_alone_makes_with_a_control() {
    for (family, variant, kind) in GUIDED {
        let made = |seed: u64, batch_size: u32| {
            let facts = json!({"seed": seed, "batch_size": batch_size, "guidance_scale": 3.0});
            let job = family.controlled(variant, &facts, &[(kind, 0.8)], [None; 2]);
            job.run(false);
            job.latents()
        };
        let batch = made(7, 2);
        for index in 0..2 {
            let of_batch = batch.narrow(0, index as i64, 1);
            assert_eq!(of_batch, made(7 + index, 1), "{}", family.engine.id());
        }
    }
}

#[test]
fn a_control_steers_a_job_from_an_image_and_its_second_pass() {
    for (family, variant, kind) in GUIDED {
        let image = pixels("pixels", 32, 32);
        let facts = json!({
            "width": 48, "height": 80, "num_steps": 4, "strength": 0.7,
            "second_pass": {"scale": 1.6, "strength": 0.5, "first_width": 32, "first_height": 48},
        });
        let made = |strength: f64| {
            let given = [Some(&image), None];
            one_image(&family.controlled(variant, &facts, &[(kind, strength)], given))
        };
        assert!(made(1.0) != made(0.0), "{}", family.engine.id());
    }
}

#[test]
fn a_network_that_a_control_does_not_fit_is_named() {
    let facts = json!({});
    let fills = QWEN_IMAGE.controlled("base", &facts, &[("inpainting", 1.0)], [None; 2]);
    for stage in [Stage::EncodeText, Stage::EncodeImage] {
        fills.stage(stage, false);
    }
    let (done, _) = try_stage(&fills.order(Stage::Denoise, false), &|_, _| {});
    let text = done.unwrap_err().to_string();
    assert!(text.contains("needs a mask"), "{text}");
}

#[test]
fn control_image_hidden_by_its_mask_has_no_effect() {
    let made = |value: f64| {
        let facts = json!({"num_steps": 2});
        let mut job = QWEN_IMAGE.controlled("base", &facts, &[("inpainting", 1.0)], [None; 2]);
        let seen = pixels("control", 32, 32);
        drop(seen.narrow(1, 16, 16).fill_(value));
        job.request.controls[0].mask = Some("mask.png".into());
        let folder = JobFolder::open(job.folder.path());
        let write = |path: PathBuf, xs: &Tensor| media::write_png(&path, &image(xs)).unwrap();
        write(folder.control(0), &seen);
        write(folder.control_mask(0), &mask(32, 32));
        one_image(&job)
    };
    assert!(made(10.0) == made(200.0));
}
