//! Qwen-Image at full size: a step of its transformer and its text encoder. The autoencoder is Wan's.

use crate::error::EngineError;
use crate::families::qwen_image::QwenImageTransformer;
use crate::families::qwen_image::measured::measured;
use crate::hooks::NoHooks;
use crate::stages::stills::LatentShape;
use crate::text::LanguageEncoder;
use safelight_core::families::qwen_image::{LANGUAGE, PROMPT};
use safelight_core::networks::{LanguageConfig, QwenImageTransformerConfig};
use serde_json::json;
use tch::Kind;

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::bench::walks::Walked;

/// Tokens of a long prompt.
const TEXT_LENGTH: i64 = 256;
/// Of a job.
const STEPS: usize = 20;
/// Edge of a small picture.
const SMALL_SIDE: u32 = 128;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "qwen_image_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, 1024),
        told: Some(Told {
            rank: 31,
            label: "Qwen-Image, a step at 1024×1024",
            kind: CaseKind::Step,
            gib: 41.0,
            tflop: 97.0,
            options: &[],
        }),
    },
    Case {
        name: "qwen_image_1328",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, 1328),
        told: None,
    },
    Case {
        name: "qwen25_vl_7b",
        runs: 5,
        warm_ups: 2,
        call: qwen,
        told: Some(Told {
            rank: 74,
            label: "Qwen 2.5 VL reads a prompt",
            kind: CaseKind::Text,
            gib: 15.0,
            tflop: 7.5,
            options: &[],
        }),
    },
];

/// One step for a picture of `side` × `side` pixels. What a job makes once, the projected text, the turns of the tokens
/// and all steps' modulations, is made once here too.
fn transformer(bench: &Bench, side: u32) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "num_layers": 3, "num_attention_heads": 4, "attention_head_dim": 64, "axes_dims_rope": [8, 28, 28],
            "joint_attention_dim": 256,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (QwenImageTransformerConfig::default(), side)
    };
    let edge = |asked: Option<i64>| asked.map_or(Ok(side), u32::try_from).unwrap_or(side);
    let channels = config.latent_channels();
    let (width, height) = (edge(bench.sizes.width), edge(bench.sizes.height));
    let shape = LatentShape::new(channels, width, height)?;
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(QwenImageTransformer::new(&config, &bench.weights))?;
    let size = [1, TEXT_LENGTH, config.joint_attention_dim];
    let text = bench.random(&size, bench.weights.kind());
    let context = transformer.context(&text, shape.grid(), &[], pictures);
    let size = [pictures, shape.tokens(), config.in_channels];
    let latents = bench.random(&size, Kind::Float);
    let modulations = transformer.modulations(&bench.timesteps(STEPS));
    bench.steps(&Walked {
        input: latents,
        measured: &|calls| measured(false, calls),
        answer: &|latents, call, shortcut| {
            transformer.forward_cached(latents, &modulations[call], &context, shortcut, &NoHooks)
        },
    })
}

/// The text part of Qwen 2.5 VL of 7 billion.
fn qwen(bench: &Bench) -> Result<Measured, EngineError> {
    let published = LanguageConfig::qwen25_vl_7b(LANGUAGE.tap);
    let config = if bench.small {
        LanguageConfig {
            vocab_size: 1000,
            hidden_size: 256,
            intermediate_size: 512,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            num_key_value_heads: Some(2),
            head_dim: Some(64),
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
