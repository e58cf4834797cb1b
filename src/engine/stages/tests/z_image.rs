//! Whole jobs of Z-Image, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/z_image`).

use serde_json::{Value, json};

use super::images::{Shapes, TinyJobs, jobs_of, with_kl_vae};
use super::jobs::json_of;
use crate::families::family::ImageFamily;
use crate::families::z_image::{FAMILY, ZImageTransformer};

impl TinyJobs for ImageFamily<ZImageTransformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "ZImagePipeline",
            "ZImageTransformer2DModel",
            "AutoencoderKL",
            "Qwen3Model",
            "Qwen2Tokenizer",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["turbo", "base"]
    }

    fn scheduler(&self, variant: &str) -> Value {
        json!({"shift": if variant == "base" { 6.0 } else { 3.0 }})
    }

    fn config(&self, component: &str, _variant: &str) -> Value {
        match component {
            "vae" => json_of("vae/kl/flux/config.json"),
            "text_encoder" => json_of("text/qwen/qwen3.json"),
            _ => json_of("z_image/transformer.json"),
        }
    }

    fn shapes(&self, size: &str) -> Shapes {
        with_kl_vae(json_of("z_image/shapes.json"), size)
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3_4b.transformer."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "turbo_a",
        "turbo_b",
        "base_plain",
        // A negative prompt
        "turbo_cfg",
        "base_a",
        "base_b",
        // From an image
        "image_a",
        "image_b",
        // Inside of a mask
        "inpaint_a",
        "inpaint_b",
    ]
);
