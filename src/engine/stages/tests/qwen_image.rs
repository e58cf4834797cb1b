//! Whole jobs of Qwen-Image, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/qwen_image`).

use std::collections::BTreeMap;

use safelight_core::media;
use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{self, Job, Run, fixtures, json_of};
use super::*;
use crate::weights::tests::made_up::made_up;

mod layouts;
mod promises;

/// Names and shapes of the tensors of each component.
type Shapes = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

/// `size`: `tiny`, or `wide` with heads as large as the published ones, of which files without configs can be read.
fn shapes_of(size: &str) -> Shapes {
    serde_json::from_value(json_of("qwen_image/shapes.json")[size].take()).unwrap()
}

fn tensors_of(component: &str, shapes: &Shapes) -> Vec<(String, Tensor)> {
    let named = shapes[component].iter();
    named
        .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
        .collect()
}

/// A whole diffusers folder. `variant`: `base`, `edit` or `edit2511`, as the reference calls them
fn write_model(variant: &str, folder: &Path) {
    let mut transformer = json_of("qwen_image/transformer.json");
    transformer["zero_cond_t"] = json!(variant == "edit2511");
    let of_fixture = |name: &str| json_of(format!("qwen_image/{name}.json"));
    for (name, value) in [
        (
            "model_index.json",
            json!({
                "_class_name": "QwenImagePipeline",
                "transformer": ["diffusers", "QwenImageTransformer2DModel"],
                "vae": ["diffusers", "AutoencoderKLQwenImage"],
                "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
                "tokenizer": ["transformers", "Qwen2Tokenizer"],
                "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            }),
        ),
        ("transformer/config.json", transformer),
        ("scheduler/scheduler_config.json", of_fixture("scheduler")),
        ("vae/config.json", of_fixture("vae")),
        ("text_encoder/config.json", of_fixture("text_encoder")),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }
    // The tokenizer with which the runs were made.
    fs::create_dir_all(folder.join("tokenizer")).unwrap();
    let from = fixtures().join("text/qwen/tokenizer.json");
    fs::copy(from, folder.join("tokenizer/tokenizer.json")).unwrap();
    let shapes = shapes_of("tiny");
    for (component, stem) in [
        ("transformer", "diffusion_pytorch_model.safetensors"),
        ("vae", "diffusion_pytorch_model.safetensors"),
        ("text_encoder", "model.safetensors"),
    ] {
        let tensors = tensors_of(component, &shapes);
        Tensor::write_safetensors(&tensors, folder.join(component).join(stem)).unwrap();
    }
}

/// `facts`: what the request has beside the model; pictures by their pixels, `(H, W, 3)`.
fn job(facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    job_of("base", facts, image, mask)
}

fn job_of(variant: &str, facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    let mut request = json!({
        "model": "tiny", "family": "qwen_image", "out": "a.png", "fps": 1.0, "num_frames": 1, "image_role": "base",
        "sampler": "euler", "prompt": "a red boat", "negative_prompt": "", "width": 32, "height": 32,
        "num_steps": 2, "guidance_scale": 1.0, "seed": 5,
    });
    for (name, value) in facts.as_object().unwrap() {
        request[name] = value.clone();
    }
    Job::of(|folder| write_model(variant, folder), request, image, mask)
}

fn recorded(run: &Run) -> Job {
    let mut facts = run.facts.clone();
    for ours in ["same", "unchecked", "variant"] {
        facts.as_object_mut().unwrap().remove(ours);
    }
    let variant = run.facts["variant"].as_str().unwrap();
    let references: Vec<&Tensor> = (0..)
        .map_while(|index| run.given(&format!("reference.{index}")))
        .collect();
    let job = job_of(variant, &facts, run.given("image"), run.given("mask"));
    with_references(job, &references)
}

/// The same job with pictures that it sees.
fn with_references(mut job: Job, references: &[&Tensor]) -> Job {
    let folder = JobFolder::at(job.folder.path());
    for (index, pixels) in references.iter().enumerate() {
        let place = folder.reference(index);
        media::write_png(&place, &jobs::picture(pixels)).unwrap();
        job.request.references.push(place);
    }
    job
}

fn check(name: &str) {
    jobs::check(&format!("qwen_image/{name}"), recorded);
}

#[test]
fn text_becomes_a_picture_as_in_the_reference() {
    for name in ["text_a", "text_b", "text_c", "text_d"] {
        check(name);
    }
}

#[test]
fn pictures_are_edited_as_in_the_reference() {
    for name in ["edit_a", "edit_b"] {
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
    for name in ["inpaint_a", "inpaint_b"] {
        check(name);
    }
}
