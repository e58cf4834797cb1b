//! Krea 2 at full size: a step of its transformer and its text encoder. The autoencoder is Wan 2.1's.

use safelight_core::families::krea2::{LANGUAGE, PROMPT};
use safelight_core::networks::{Krea2TransformerConfig, LanguageConfig};
use serde_json::json;
use tch::Kind;

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::error::EngineError;
use crate::families::krea2::Krea2Transformer;
use crate::hooks::NoHooks;
use crate::text::LanguageEncoder;

/// Tokens of a long prompt.
const TEXT_LENGTH: i64 = 256;
/// Of a job.
const STEPS: usize = 8;
/// Edge of a small picture.
const SMALL_SIDE: u32 = 128;
/// Pixels of one token along an edge.
const FACTOR: i64 = 16;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "krea2_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, 1024),
        told: Some(Told {
            rank: 31,
            label: "Krea 2, a step at 1024×1024",
            kind: CaseKind::Step,
            gib: 26.0,
            tflop: 120.0,
            options: &[],
        }),
    },
    Case {
        name: "krea2_2048",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, 2048),
        told: None,
    },
    Case {
        name: "qwen3_vl_4b",
        runs: 5,
        warm_ups: 2,
        call: qwen,
        told: Some(Told {
            rank: 74,
            label: "Qwen 3 VL reads a prompt",
            kind: CaseKind::Text,
            gib: 8.5,
            tflop: 4.0,
            options: &[],
        }),
    },
];

/// One step for a picture of `side` × `side` pixels. What a job makes once, the text and all steps' modulations, is made
/// once here too.
fn transformer(bench: &Bench, side: u32) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "num_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 512,
            "text_hidden_dim": 128, "text_num_attention_heads": 1, "text_num_key_value_heads": 1,
            "text_intermediate_size": 256,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (Krea2TransformerConfig::default(), side)
    };
    let edge = |asked: Option<i64>| asked.unwrap_or_else(|| i64::from(side)) / FACTOR;
    let grid = [edge(bench.sizes.height), edge(bench.sizes.width)];
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(Krea2Transformer::new(&config, &bench.weights))?;
    let states = config.num_text_layers * config.text_hidden_dim;
    let text = bench.random(&[1, TEXT_LENGTH, states], bench.weights.kind());
    let context = transformer.context(&text, grid, &NoHooks);
    let context = context.ok_or(EngineError::Cancelled)?;
    let size = [pictures, grid[0] * grid[1], config.in_channels];
    let tokens = bench.random(&size, Kind::Float);
    let modulations = transformer.modulations(&[0.5; STEPS]);
    bench.timed_answer(&mut || transformer.forward(&tokens, &modulations[0], &context, &NoHooks))
}

/// The text half of Qwen 3 VL of 4 billion, as far as it is read.
fn qwen(bench: &Bench) -> Result<Measured, EngineError> {
    let published = LanguageConfig::qwen3_4b(LANGUAGE.tap);
    let config = if bench.small {
        LanguageConfig {
            vocab_size: 1000,
            hidden_size: 64,
            intermediate_size: 128,
            num_attention_heads: 2,
            num_key_value_heads: Some(1),
            head_dim: Some(32),
            ..published
        }
    } else {
        published
    };
    let encoder = bench.built(LanguageEncoder::new(&config, &bench.weights))?;
    let ids = bench.random_ids(config.vocab_size, PROMPT.length() as i64);
    let mask = ids.ones_like();
    bench.timed_answer(&mut || encoder.forward(&ids, &mask, &NoHooks))
}
