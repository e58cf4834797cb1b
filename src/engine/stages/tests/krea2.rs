//! Whole jobs of Krea 2, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/krea2`).

use serde_json::{Value, json};

use super::images::{TinyJobs, jobs_of};
use crate::families::family::ImageFamily;
use crate::families::krea2::{FAMILY, Krea2Transformer};

impl TinyJobs for ImageFamily<Krea2Transformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "Krea2Pipeline",
            "Krea2Transformer2DModel",
            "AutoencoderKLQwenImage",
            "Qwen3VLModel",
            "Qwen2Tokenizer",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["turbo", "raw"]
    }

    fn marks(&self, variant: &str) -> Value {
        json!({"is_distilled": variant == "turbo"})
    }

    fn scheduler(&self, _variant: &str) -> Value {
        json!({"shift": 1.0, "use_dynamic_shifting": true, "base_image_seq_len": 256, "max_image_seq_len": 6400})
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3vl_4b.transformer."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "turbo_a",
        "turbo_long",
        "raw_plain",
        // A negative prompt
        "turbo_cfg",
        "raw_a",
        "raw_b",
        // From an image
        "image_a",
        "image_b",
        // Inside of a mask
        "inpaint_a",
        "inpaint_b",
    ]
);
