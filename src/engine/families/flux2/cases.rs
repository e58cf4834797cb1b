//! Measured calls of FLUX.2 klein: a step of both transformers, and the larger text encoder. The smaller one is
//! Z-Image's, the autoencoder nearly FLUX.1's.

use safelight_core::families::flux2::{LANGUAGE, PROMPT};
use safelight_core::networks::{Flux2TransformerConfig, LanguageConfig};
use serde_json::json;

use super::Flux2Transformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench};

pub(crate) const CASES: &[BenchCase] = &[
    BenchCase::step("klein_4b_1024", [1024, 1024, 1], |bench| {
        transformer(bench, &Flux2TransformerConfig::klein_4b())
    }),
    BenchCase::step("klein_9b_1024", [1024, 1024, 1], |bench| {
        transformer(bench, &Flux2TransformerConfig::klein_9b())
    }),
    BenchCase::text("qwen3_8b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 28,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64});
        bench.language(&LanguageConfig::qwen3_8b(LANGUAGE.tap), small, PROMPT.room)
    }),
];

fn transformer(bench: &CaseBench, published: &Flux2TransformerConfig) -> BenchLines {
    let small = json!({"num_layers": 1, "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 64});
    bench.image_step::<Flux2Transformer>(published, small, |config| {
        bench.text(PROMPT.room as i64, config.joint_attention_dim)
    })
}
