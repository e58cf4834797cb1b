//! Whole jobs of Chroma, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/chroma`).

use serde_json::{Value, json};

use super::images::{Shapes, TinyJobs, jobs_of, with_kl_vae};
use super::jobs::json_of;
use super::*;
use crate::families::chroma::{ChromaTransformer, FAMILY};
use crate::families::family::ImageFamily;
use crate::text::tests::published::write_t5_json;

impl TinyJobs for ImageFamily<ChromaTransformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "ChromaPipeline",
            "ChromaTransformer2DModel",
            "AutoencoderKL",
            "T5EncoderModel",
            "T5TokenizerFast",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["base"; 2]
    }

    fn scheduler(&self, _variant: &str) -> Value {
        json!({"shift": 1.0})
    }

    fn config(&self, component: &str, _variant: &str) -> Value {
        match component {
            "vae" => json_of("vae/kl/flux/config.json"),
            "text_encoder" => json_of("text/flux/text_encoder_2.json"),
            _ => json_of("chroma/transformer.json"),
        }
    }

    fn shapes(&self, size: &str) -> Shapes {
        with_kl_vae(json_of("chroma/shapes.json"), size)
    }

    fn write_tokenizer(&self, place: &Path) {
        let mut pieces = json_of("text/flux/tokens.json");
        write_t5_json(place, pieces["t5_pieces"].as_array_mut().unwrap());
    }

    fn request_fields(&self) -> Value {
        json!({"max_sequence_length": 12})
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.t5xxl.transformer."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "text_a",
        "text_b",
        "plain",
        // A negative prompt
        "text_cfg",
        "text_empty",
        // From an image
        "image_a",
        "image_b",
        // Inside of a mask
        "inpaint_a",
        "inpaint_b",
    ]
);
