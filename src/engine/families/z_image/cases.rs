//! Measured calls of Z-Image: a step of the transformer, and the text encoder. The autoencoder is FLUX.1's.

use safelight_core::families::z_image::{LANGUAGE, PROMPT};
use safelight_core::networks::{LanguageConfig, ZImageTransformerConfig};
use serde_json::json;

use super::ZImageTransformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench, TEXT_LENGTH};

pub(crate) const CASES: &[BenchCase] = &[
    BenchCase::step("z_image_1024", [1024, 1024, 1], transformer).reported(
        "Z-Image, a step at 1024×1024",
        12.5,
        60.0,
    ),
    BenchCase::step("z_image_2048", [2048, 2048, 1], transformer),
    BenchCase::text("qwen3_4b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 5,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64});
        bench.language(&LanguageConfig::qwen3_4b(LANGUAGE.tap), small, PROMPT.room)
    })
    .reported("Qwen 3 reads a prompt", 8.0, 4.0),
];

fn transformer(bench: &CaseBench) -> BenchLines {
    let small = json!({"dim": 256, "n_layers": 4, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2,
        "cap_feat_dim": 64});
    let published = ZImageTransformerConfig::default();
    bench.image_step::<ZImageTransformer>(published, small, |config| {
        bench.text(TEXT_LENGTH, config.cap_feat_dim)
    })
}
