//! Whole jobs of FLUX.3 klein, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux3`).

use serde_json::{Value, json};
use tch::Tensor;

use super::flux2::adjust;
use super::images::{TinyJobs, jobs_of};
use super::jobs::json_of;
use crate::families::family::ImageFamily;
use crate::families::flux3::{FAMILY, Flux3Transformer};

const BASE: &str = "base";

impl TinyJobs for ImageFamily<Flux3Transformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "Flux3ModularPipeline",
            "Flux3Transformer2DModel",
            "AutoencoderKLFlux2",
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLProcessor",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["distilled", BASE]
    }

    fn scheduler(&self, _variant: &str) -> Value {
        json!({"shift": 6.93})
    }

    fn config(&self, component: &str, variant: &str) -> Value {
        let mut config = json_of(format!("flux3/{component}.json"));
        if (component, variant) == ("transformer", BASE) {
            config["flow_map"] = json!(false);
        }
        config
    }

    /// Only distilled models embed the end of a step.
    fn adjust(&self, component: &str, variant: &str, tensors: &mut Vec<(String, Tensor)>) {
        adjust(component, tensors);
        if variant == BASE {
            tensors.retain(|(name, _)| !name.starts_with("target_timestep_embedder."));
        }
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3vl_4b.transformer."
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
        "reference_c",
    ]
);
