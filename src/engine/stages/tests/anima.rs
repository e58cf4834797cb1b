//! Whole jobs of Anima, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/anima`).

use serde_json::{Value, json};

use super::images::{TinyJobs, job, jobs_of};
use super::jobs::json_of;
use super::*;
use crate::closeness::distance;
use crate::families::anima::{AnimaTransformer, FAMILY};
use crate::families::family::ImageFamily;
use crate::text::tests::published::write_t5_json;

impl TinyJobs for ImageFamily<AnimaTransformer> {
    fn classes(&self) -> [&'static str; 5] {
        [
            "AnimaModularPipeline",
            "CosmosTransformer3DModel",
            "AutoencoderKLQwenImage",
            "Qwen3Model",
            "Qwen2Tokenizer",
        ]
    }

    fn variants(&self) -> [&'static str; 2] {
        ["base"; 2]
    }

    fn marks(&self, _variant: &str) -> Value {
        json!({
            "text_conditioner": ["diffusers", "AnimaTextConditioner"],
            "t5_tokenizer": ["transformers", "T5Tokenizer"],
        })
    }

    fn scheduler(&self, _variant: &str) -> Value {
        json!({"shift": 3.0})
    }

    fn adapter(&self) -> Option<(&'static str, &'static str)> {
        Some(("text_conditioner", "llm_adapter."))
    }

    /// Of both tokenizers.
    fn write_tokenizer(&self, place: &Path) {
        fs::copy(jobs::fixtures().join("text/qwen/tokenizer.json"), place).unwrap();
        let folder = place.ancestors().nth(2).unwrap().join("t5_tokenizer");
        fs::create_dir_all(&folder).unwrap();
        let mut pieces = json_of("text/flux/tokens.json");
        let pieces = pieces["t5_pieces"].as_array_mut().unwrap();
        write_t5_json(&folder.join("tokenizer.json"), pieces);
    }

    fn takes_means(&self) -> bool {
        true
    }

    fn text_prefix(&self) -> &'static str {
        "text_encoders.qwen3_06b.transformer.model."
    }
}

jobs_of!(
    FAMILY,
    [
        // Text
        "text_a", "text_b", // An empty negative prompt
        "text_c", // From an image
        "image_a", "image_b",
    ]
);

/// The embeddings of a prompt.
fn embeds(prompt: &str) -> Tensor {
    let facts = json!({"prompt": prompt, "prompt_weights": "comfyui"});
    let job = job(&FAMILY, "base", &facts, [None; 2]);
    job.stage(Stage::EncodeText, false);
    let embeds = PromptEmbeds::load(&job.result(Stage::EncodeText)).unwrap();
    embeds.prompt.prompt
}

#[test]
fn a_weight_multiplies_the_rows_of_its_words_and_leaves_the_others() {
    let (plain, weighted) = (embeds("red boat"), embeds("(red boat:1.5)"));
    // Magnitude of each row: 0 after the end-of-text token.
    let rows = |xs: &Tensor| {
        xs.abs()
            .sum_dim_intlist([2].as_slice(), false, Kind::Double)
    };
    let (plain, weighted) = (rows(&plain), rows(&weighted));
    let words = plain.gt(0.0).sum(Kind::Int64).int64_value(&[]) - 1;
    let (all, more) = (plain.narrow(1, 0, words), weighted.narrow(1, 0, words));
    assert!(distance(&more, &(all * 1.5)) < 1e-6);
    let end = |xs: &Tensor| xs.narrow(1, words, 1);
    assert!(distance(&end(&weighted), &end(&plain)) < 1e-6);
}
