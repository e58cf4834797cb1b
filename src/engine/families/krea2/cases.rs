//! Measured calls of Krea 2: a step of the transformer, and the text encoder. The autoencoder is Wan 2.1's.

use safelight_core::families::krea2::{LANGUAGE, PROMPT};
use safelight_core::networks::{Krea2TransformerConfig, LanguageConfig};
use serde_json::json;

use super::Krea2Transformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench, TEXT_LENGTH};

pub(crate) const CASES: &[BenchCase] = &[
    BenchCase::step("krea2_1024", [1024, 1024, 1], transformer).reported(
        "Krea 2, a step at 1024×1024",
        26.0,
        120.0,
    ),
    BenchCase::text("qwen3_vl_4b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 32});
        let published = LanguageConfig::qwen3_4b(LANGUAGE.tap);
        bench.language(&published, small, PROMPT.length())
    })
    .reported("Qwen 3 VL reads a prompt", 8.5, 4.0),
];

fn transformer(bench: &CaseBench) -> BenchLines {
    let small = json!({"num_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 512,
        "text_hidden_dim": 128, "text_num_attention_heads": 1, "text_num_key_value_heads": 1,
        "text_intermediate_size": 256});
    let published = Krea2TransformerConfig::default();
    bench.image_step::<Krea2Transformer>(published, small, |config| {
        bench.text(TEXT_LENGTH, config.num_text_layers * config.text_hidden_dim)
    })
}
