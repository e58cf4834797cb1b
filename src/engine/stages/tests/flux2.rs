//! Whole jobs of FLUX.2 klein, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux2`).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{self, Job, Run, fixtures, json_of};
use super::*;
use crate::weights::tests::made_up::made_up;

mod layouts;
mod promises;

/// Names and shapes of the tensors of each component.
type Shapes = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

/// `size`: `tiny`, or `wide` with heads as large as the published ones.
fn shapes_of(size: &str) -> Shapes {
    serde_json::from_value(json_of("flux2/shapes.json")[size].take()).unwrap()
}

fn tensors_of(component: &str, shapes: &Shapes) -> Vec<(String, Tensor)> {
    let named = shapes[component].iter();
    let mut all: Vec<(String, Tensor)> = named
        .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
        .collect();
    for (name, tensor) in &mut all {
        // A variance is above 0.
        if name == "bn.running_var" {
            *tensor = &*tensor + 1.5;
        }
    }
    if component == "vae" {
        all.push(("bn.num_batches_tracked".to_owned(), Tensor::from(0_i64)));
    }
    all
}

/// The tokenizer with which the runs were made.
fn write_tokenizer(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let from = fixtures().join("text/qwen/tokenizer.json");
    fs::copy(from, folder.join("tokenizer.json")).unwrap();
}

/// A whole diffusers folder.
fn write_model(variant: &str, folder: &Path) {
    for (name, value) in [
        (
            "model_index.json",
            json!({
                "_class_name": "Flux2KleinPipeline",
                "is_distilled": variant == "distilled",
                "transformer": ["diffusers", "Flux2Transformer2DModel"],
                "vae": ["diffusers", "AutoencoderKLFlux2"],
                "text_encoder": ["transformers", "Qwen3ForCausalLM"],
                "tokenizer": ["transformers", "Qwen2TokenizerFast"],
                "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            }),
        ),
        ("transformer/config.json", json_of("flux2/transformer.json")),
        (
            "scheduler/scheduler_config.json",
            json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0, "use_dynamic_shifting": true}),
        ),
        ("vae/config.json", json_of("flux2/vae.json")),
        (
            "text_encoder/config.json",
            json_of("flux2/text_encoder.json"),
        ),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }
    write_tokenizer(&folder.join("tokenizer"));
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
fn job(variant: &str, facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    let mut request = json!({
        "model": "tiny", "family": "flux2", "out": "a.png", "fps": 1.0, "num_frames": 1, "image_role": "base",
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
    let job = job(variant, &facts, run.given("image"), run.given("mask"));
    let references = (0..).map_while(|index| run.given(&format!("reference.{index}")));
    job.with_references(references)
}

fn check(name: &str) {
    jobs::check(&format!("flux2/{name}"), recorded);
}

#[test]
fn text_becomes_a_picture_as_in_the_reference() {
    for name in ["distilled_a", "distilled_b", "base_plain"] {
        check(name);
    }
}

#[test]
fn a_negative_prompt_guides_as_in_the_reference() {
    for name in ["base_a", "base_b"] {
        check(name);
    }
}

#[test]
fn pictures_are_seen_beside_the_one_that_is_made_as_in_the_reference() {
    for name in ["reference_a", "reference_b"] {
        check(name);
    }
}

#[test]
fn a_picture_becomes_another_as_in_the_reference() {
    check("image_a");
}

#[test]
fn what_a_mask_hides_is_made_anew_as_in_the_reference() {
    for name in ["inpaint_a", "inpaint_b"] {
        check(name);
    }
}
