//! Whole jobs of FLUX.2 klein, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux2`).

use serde_json::{Value, json};
use tch::Tensor;

use super::images::{TinyJobs, jobs_of};
use crate::families::family::ImageFamily;
use crate::families::flux2::{FAMILY, Flux2Transformer};

impl TinyJobs for ImageFamily<Flux2Transformer> {
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
        json!({"shift": 3.0, "use_dynamic_shifting": true})
    }

    fn adjust(&self, component: &str, tensors: &mut Vec<(String, Tensor)>) {
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

    fn takes_means(&self) -> bool {
        true
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3_4b.transformer."
    }
}

jobs_of!(
    FAMILY,
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
