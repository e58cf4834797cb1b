//! Z-Image at full size: a step of its transformer and its text encoder. The autoencoder is Flux's.

use crate::error::EngineError;
use crate::families::z_image::ZImageTransformer;
use crate::hooks::NoHooks;
use crate::step_cache::Measured as Numbers;
use crate::text::LanguageEncoder;
use safelight_core::families::z_image::{LANGUAGE, PROMPT};
use safelight_core::networks::{LanguageConfig, ZImageTransformerConfig};
use serde_json::json;
use tch::Kind;

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::bench::walks::Walked;

/// Tokens of a long prompt.
const TEXT_LENGTH: i64 = 256;
/// Of a job.
const STEPS: usize = 8;
/// Edge of a small picture.
const SMALL_SIDE: u32 = 128;
/// Pixels of one latent along an edge.
const FACTOR: i64 = 8;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "z_image_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, 1024),
        told: Some(Told {
            rank: 30,
            label: "Z-Image, a step at 1024×1024",
            kind: CaseKind::Step,
            gib: 12.5,
            tflop: 60.0,
            options: &[],
        }),
    },
    Case {
        name: "z_image_2048",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, 2048),
        told: None,
    },
    Case {
        name: "qwen3_4b",
        runs: 5,
        warm_ups: 2,
        call: qwen,
        told: Some(Told {
            rank: 73,
            label: "Qwen 3 reads a prompt",
            kind: CaseKind::Text,
            gib: 8.0,
            tflop: 4.0,
            options: &[],
        }),
    },
];

/// One step for a picture of `side` × `side` pixels. What a job makes once, the refined text and all steps' modulations,
/// is made once here too.
fn transformer(bench: &Bench, side: u32) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "dim": 256, "n_layers": 4, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2, "cap_feat_dim": 64,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (ZImageTransformerConfig::default(), side)
    };
    let edge = |asked: Option<i64>| asked.unwrap_or_else(|| i64::from(side)) / FACTOR;
    let size = [edge(bench.sizes.height), edge(bench.sizes.width)];
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(ZImageTransformer::new(&config, &bench.weights))?;
    let text = bench.random(&[1, TEXT_LENGTH, config.cap_feat_dim], bench.weights.kind());
    let context = transformer.context(&text, size, &NoHooks);
    let context = context.ok_or(EngineError::Cancelled)?;
    let latents = bench.random(
        &[pictures, config.in_channels, size[0], size[1]],
        Kind::Float,
    );
    let modulations = transformer.modulations(&transformer.told(&bench.timesteps(STEPS)));
    bench.steps(&Walked {
        input: latents,
        measured: &|_| Numbers::default(),
        answer: &|latents, call, shortcut| {
            transformer.forward_cached(latents, &modulations[call], &context, shortcut, &NoHooks)
        },
    })
}

/// Qwen 3 of 4 billion, as far as it is read.
fn qwen(bench: &Bench) -> Result<Measured, EngineError> {
    let published = LanguageConfig::qwen3_4b(LANGUAGE.tap);
    let config = if bench.small {
        LanguageConfig {
            vocab_size: 1000,
            hidden_size: 256,
            intermediate_size: 512,
            num_hidden_layers: 5,
            num_attention_heads: 4,
            num_key_value_heads: Some(2),
            head_dim: Some(64),
            ..published
        }
    } else {
        published
    };
    let encoder = bench.built(LanguageEncoder::new(&config, &bench.weights))?;
    let length = PROMPT.room as i64;
    let ids = bench.random_ids(config.vocab_size, length);
    let mask = ids.ones_like();
    bench.timed_answer(&mut || encoder.forward(&ids, &mask, &NoHooks))
}
