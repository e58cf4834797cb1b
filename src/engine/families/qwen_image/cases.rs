//! Measured calls of Qwen-Image: a step of the transformer, and the text encoder. Its autoencoder, that of Wan, is measured there.

use safelight_core::families::qwen_image::{LANGUAGE, PROMPT};
use safelight_core::networks::{LanguageConfig, QwenImageTransformerConfig};
use serde_json::json;

use super::QwenImageTransformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench, TEXT_LENGTH};

pub(crate) const CASES: &[BenchCase] = &[
    BenchCase::step("qwen_image_1024", [1024, 1024, 1], transformer).reported(
        "Qwen-Image, a step at 1024×1024",
        41.0,
        97.0,
    ),
    BenchCase::text("qwen25_vl_7b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64});
        let published = LanguageConfig::qwen25_vl_7b(LANGUAGE.tap);
        bench.language(&published, small, PROMPT.length())
    })
    .reported("Qwen 2.5 VL reads a prompt", 15.0, 7.5),
];

fn transformer(bench: &CaseBench) -> BenchLines {
    let small = json!({"num_layers": 3, "num_attention_heads": 4, "attention_head_dim": 64,
        "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256});
    let published = QwenImageTransformerConfig::default();
    bench.image_step::<QwenImageTransformer>(published, small, |config| {
        bench.text(TEXT_LENGTH, config.joint_attention_dim)
    })
}
