//! Whole jobs of Qwen-Image, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/qwen_image`).

use safelight_core::job::SamplerKind;
use serde_json::{Value, json};

use super::images::{TinyJobs, job, jobs_of, one_image, pixels};
use super::jobs::{assert_stops, json_of};
use super::*;
use crate::families::family::ImageFamily;
use crate::families::qwen_image::{FAMILY, QwenImageTransformer};

impl TinyJobs for ImageFamily<QwenImageTransformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "QwenImagePipeline",
            "QwenImageTransformer2DModel",
            "AutoencoderKLQwenImage",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen2Tokenizer",
        ]
    }

    /// Beside these, `edit` and `edit2511`, as the reference calls them.
    fn variants(&self) -> [&'static str; 2] {
        ["base"; 2]
    }

    fn scheduler(&self, _variant: &str) -> Value {
        json_of("qwen_image/scheduler.json")
    }

    fn config(&self, component: &str, variant: &str) -> Value {
        let mut config = json_of(format!("qwen_image/{component}.json"));
        if component == "transformer" {
            config["zero_cond_t"] = json!(variant == "edit2511");
        }
        config
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen25_7b.transformer."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "text_a",
        "text_b",
        "text_c",
        "text_d",
        // Images that are edited
        "edit_a",
        "edit_b",
        // From an image
        "image_a",
        "image_b",
        // Inside of a mask
        "inpaint_a",
        "inpaint_b",
    ]
);

#[test]
fn every_image_of_a_batch_that_is_edited_is_the_one_that_its_seed_alone_makes() {
    let seen = pixels("seen", 24, 16);
    let made = |seed: u64, batch_size: u32| {
        let facts = json!({"seed": seed, "batch_size": batch_size, "num_steps": 1});
        let job = job(&FAMILY, "edit2511", &facts, [None; 2]);
        let job = job.with_references([&seen].into_iter());
        assert_eq!(job.run(false).frames.len(), batch_size as usize);
        job.latents()
    };
    let batch = made(7, 2);
    assert_eq!(batch.narrow(0, 1, 1), made(8, 1));
}

#[test]
fn qwen_image_edit_job_can_be_cancelled() {
    let seen = pixels("seen", 24, 16);
    let job = job(&FAMILY, "edit2511", &json!({"num_steps": 1}), [None; 2]);
    assert_stops(&job.with_references([&seen].into_iter()));
}

#[test]
fn one_step_and_every_sampler_make_an_image() {
    let one = std::iter::once((SamplerKind::Euler, 1));
    for (sampler, num_steps) in one.chain(SamplerKind::ALL.map(|sampler| (sampler, 3))) {
        let facts = json!({"num_steps": num_steps, "sampler": sampler, "guidance_scale": 4.0});
        let job = job(&FAMILY, "base", &facts, [None; 2]);
        assert_eq!(job.run(false).frames.len(), 1, "{sampler}");
        let sum = job.latents().sum(Kind::Float).double_value(&[]);
        assert!(sum.is_finite(), "{sampler}");
    }
}

#[test]
fn a_scheduler_that_is_missing_is_the_published_one() {
    let facts = json!({"width": 48, "num_steps": 3});
    let [with, mut without] = [(); 2].map(|()| job(&FAMILY, "base", &facts, [None; 2]));
    without.request.files.scheduler = None;
    assert!(one_image(&with) == one_image(&without));
    // One shift for all sizes is neither stretched nor the same.
    without.request.sampling.shift = Some(3.0);
    assert!(one_image(&with) != one_image(&without));
}
