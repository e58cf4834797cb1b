//! Whole jobs of Qwen-Image 2.1, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/qwen_image_21`).

use serde_json::{Value, json};

use super::images::{TinyJobs, jobs_of};
use super::jobs::json_of;
use crate::families::family::ImageFamily;
use crate::families::qwen_image_21::{FAMILY, QwenImage21Transformer};

impl TinyJobs for ImageFamily<QwenImage21Transformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "QwenImage21Pipeline",
            "QwenImage21Transformer2DModel",
            "AutoencoderKLQwenImage21",
            "Qwen3VLForConditionalGeneration",
            "Qwen2Tokenizer",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["base"; 2]
    }

    fn marks(&self, variant: &str) -> Value {
        if variant != "turbo" {
            return json!({});
        }
        json!({"sample_sigmas": [1.0, 0.978453, 0.95418, 0.926626, 0.89508, 0.845148, 0.704534, 0.414568]})
    }

    fn scheduler(&self, variant: &str) -> Value {
        if variant == "turbo" {
            return json!({"shift": 1.0});
        }
        json_of("qwen_image_21/scheduler.json")
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3vl_8b.transformer."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "text_a", "text_b", "text_c", "turbo_a", // Images that are edited
        "edit_a", "edit_b",
    ]
);
