//! Measured calls of Chroma: a step of the transformer. Text encoder and autoencoder are FLUX.1's.

use safelight_core::networks::ChromaTransformerConfig;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use super::ChromaTransformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench, T5_LENGTH};
use crate::text::TextEmbeds;

/// Tokens of the prompt, and of the padding that is computed once.
const COUNTED: i64 = 64;
const ALIKE: i64 = T5_LENGTH - COUNTED - 91;

pub(crate) const CASES: &[BenchCase] =
    &[
        BenchCase::step("chroma_1024", [1024, 1024, 1], transformer).reported(
            "Chroma, a step at 1024×1024",
            17.5,
            74.0,
        ),
    ];

fn transformer(bench: &CaseBench) -> BenchLines {
    let small = json!({"num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
        "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256, "approximator_hidden_dim": 128,
        "approximator_layers": 2});
    let published = ChromaTransformerConfig::default();
    bench.image_step::<ChromaTransformer>(published, small, |config| {
        let text = bench.text(T5_LENGTH, config.joint_attention_dim);
        drop(text.prompt.narrow(1, T5_LENGTH - ALIKE, ALIKE).fill_(1.0));
        let mask = Tensor::zeros([1, T5_LENGTH], (Kind::Float, Device::Cpu));
        drop(mask.narrow(1, 0, COUNTED).fill_(1.0));
        TextEmbeds {
            mask: Some(mask),
            ..text
        }
    })
}
