//! Whole jobs of FLUX.2 klein and dev, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux2` and `flux2_dev`).

use std::path::Path;

use serde_json::{Value, json};
use tch::Tensor;

use super::images::{TinyJobs, jobs_of};
use super::jobs::fixtures;
use crate::families::family::ImageFamily;
use crate::families::flux2::{DEV, Flux2Dev, Flux2Klein, Flux2Transformer, KLEIN};

fn scheduler() -> Value {
    json!({"shift": 3.0, "use_dynamic_shifting": true})
}

/// Changes the statistics of the autoencoder to what a formula alone would not give.
pub(super) fn adjust(component: &str, tensors: &mut Vec<(String, Tensor)>) {
    for (name, tensor) in tensors.iter_mut() {
        // A variance is above 0.
        if name == "bn.running_var" {
            *tensor = &*tensor + 1.5;
        }
    }
    if component == "vae" {
        tensors.push(("bn.num_batches_tracked".to_owned(), Tensor::from(0_i64)));
    }
}

impl TinyJobs for ImageFamily<Flux2Transformer<Flux2Klein>> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "Flux2KleinPipeline",
            "Flux2Transformer2DModel",
            "AutoencoderKLFlux2",
            "Qwen3ForCausalLM",
            "Qwen2TokenizerFast",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["distilled", "base"]
    }

    fn marks(&self, variant: &str) -> Value {
        json!({"is_distilled": variant == "distilled"})
    }

    fn scheduler(&self, _variant: &str) -> Value {
        scheduler()
    }

    fn adjust(&self, component: &str, _variant: &str, tensors: &mut Vec<(String, Tensor)>) {
        adjust(component, tensors);
    }

    fn takes_means(&self) -> bool {
        true
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3_4b.transformer."
    }
}

impl TinyJobs for ImageFamily<Flux2Transformer<Flux2Dev>> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "Flux2Pipeline",
            "Flux2Transformer2DModel",
            "AutoencoderKLFlux2",
            "Mistral3ForConditionalGeneration",
            "PixtralProcessor",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["dev", "dev"]
    }

    fn scheduler(&self, _variant: &str) -> Value {
        scheduler()
    }

    fn adjust(&self, component: &str, _variant: &str, tensors: &mut Vec<(String, Tensor)>) {
        adjust(component, tensors);
        if component == "text_encoder" {
            // Marks the file as Mistral's: its other tensors are a Llama's.
            let tekken = Tensor::from_slice(b"{}");
            tensors.push(("tekken_model".to_owned(), tekken));
        }
    }

    fn takes_means(&self) -> bool {
        true
    }

    fn write_tokenizer(&self, place: &Path) {
        std::fs::copy(fixtures().join("text/tekken/tokenizer.json"), place).unwrap();
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.mistral3_24b.transformer."
    }
}

mod klein {
    use super::*;

    jobs_of!(
        KLEIN,
        [
            // Text
            "distilled_a",
            "distilled_b",
            "base_plain",
            // A negative prompt
            "base_a",
            "base_b",
            // Images that are seen
            "reference_a",
            "reference_b",
            // From an image
            "image_a",
            // Inside of a mask
            "inpaint_a",
            "inpaint_b",
        ]
    );
}

mod dev {
    use super::*;

    jobs_of!(DEV, ["text_a", "text_b", "text_c", "reference_a"]);
}
