//! Whole jobs of Chroma, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/chroma`).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{self, Job, Run, json_of};
use super::*;
use crate::text::tests::published::write_t5_json;
use crate::weights::tests::made_up::made_up;

mod layouts;
mod promises;

/// Names and shapes of the tensors of each component.
type Shapes = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

/// `size`: `tiny`, or `wide` with heads as large as the published ones, of which files without configs can be read.
fn shapes_of(size: &str) -> Shapes {
    let mut shapes: Shapes =
        serde_json::from_value(json_of("chroma/shapes.json")[size].take()).unwrap();
    let vae = match size {
        "wide" => json_of("flux/stages/wide.json")["vae"].take(),
        _ => json_of("vae/kl/flux/shapes.json"),
    };
    shapes.insert("vae".to_owned(), serde_json::from_value(vae).unwrap());
    shapes
}

fn tensors_of(component: &str, shapes: &Shapes) -> Vec<(String, Tensor)> {
    let named = shapes[component].iter();
    named
        .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
        .collect()
}

/// The tokenizer with which the runs were made.
fn write_tokenizer(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let mut pieces = json_of("text/flux/tokens.json");
    let pieces = pieces["t5_pieces"].as_array_mut().unwrap();
    write_t5_json(&folder.join("tokenizer.json"), pieces);
}

/// A whole diffusers folder.
fn write_model(folder: &Path) {
    for (name, value) in [
        (
            "model_index.json",
            json!({
                "_class_name": "ChromaPipeline",
                "transformer": ["diffusers", "ChromaTransformer2DModel"],
                "vae": ["diffusers", "AutoencoderKL"],
                "text_encoder": ["transformers", "T5EncoderModel"],
                "tokenizer": ["transformers", "T5TokenizerFast"],
                "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            }),
        ),
        (
            "transformer/config.json",
            json_of("chroma/transformer.json"),
        ),
        (
            "scheduler/scheduler_config.json",
            json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1.0}),
        ),
        ("vae/config.json", json_of("vae/kl/flux/config.json")),
        (
            "text_encoder/config.json",
            json_of("text/flux/text_encoder_2.json"),
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
fn job(facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    let mut request = json!({
        "model": "tiny", "family": "chroma", "out": "a.png", "fps": 1.0, "num_frames": 1, "image_role": "base",
        "sampler": "euler", "prompt": "a red boat", "negative_prompt": "", "width": 32, "height": 32,
        "num_steps": 2, "guidance_scale": 1.0, "seed": 5, "max_sequence_length": 12,
    });
    for (name, value) in facts.as_object().unwrap() {
        request[name] = value.clone();
    }
    Job::of(write_model, request, image, mask)
}

fn recorded(run: &Run) -> Job {
    let mut facts = run.facts.clone();
    for ours in ["same", "unchecked"] {
        facts.as_object_mut().unwrap().remove(ours);
    }
    job(&facts, run.given("image"), run.given("mask"))
}

fn check(name: &str) {
    jobs::check(&format!("chroma/{name}"), recorded);
}

#[test]
fn text_becomes_a_picture_as_in_the_reference() {
    for name in ["text_a", "text_b", "plain"] {
        check(name);
    }
}

#[test]
fn a_negative_prompt_guides_as_in_the_reference() {
    for name in ["text_cfg", "text_empty"] {
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
