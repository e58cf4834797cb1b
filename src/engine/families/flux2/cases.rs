//! FLUX.2 klein at full size: a step of its transformers and the larger text encoder. The smaller one is Z-Image's, the
//! autoencoder nearly Flux's.

use crate::error::EngineError;
use crate::families::flux2::{Flux2Transformer, image_ids, text_ids};
use crate::hooks::NoHooks;
use crate::stages::stills::LatentShape;
use crate::text::LanguageEncoder;
use safelight_core::families::flux2::{LANGUAGE, PROMPT};
use safelight_core::networks::{Flux2TransformerConfig, LanguageConfig};
use serde_json::json;
use tch::Kind;

use crate::bench::cases::{Bench, Case, from_json};
use crate::bench::measure::Measured;

/// Of a job.
const STEPS: usize = 4;
/// Edge of a picture, and of a small one.
const SIDE: u32 = 1024;
const SMALL_SIDE: u32 = 128;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "klein_4b_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, &Flux2TransformerConfig::klein_4b()),
        told: None,
    },
    Case {
        name: "klein_9b_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, &Flux2TransformerConfig::klein_9b()),
        told: None,
    },
    Case {
        name: "qwen3_8b",
        runs: 5,
        warm_ups: 2,
        call: qwen,
        told: None,
    },
];

fn transformer(bench: &Bench, published: &Flux2TransformerConfig) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "num_layers": 1, "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 64,
            "guidance_embeds": false,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (published.clone(), SIDE)
    };
    let edge = |asked: Option<i64>| asked.and_then(|it| u32::try_from(it).ok()).unwrap_or(side);
    let (width, height) = (edge(bench.sizes.width), edge(bench.sizes.height));
    let shape = LatentShape::new(config.latent_channels(), width, height)?;
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(Flux2Transformer::new(&config, &bench.weights))?;
    let length = PROMPT.room as i64;
    let text = [1, length, config.joint_attention_dim];
    let context = transformer.context(&bench.random(&text, bench.weights.kind()));
    let rope = transformer.rope(&text_ids(length), &image_ids(shape), pictures);
    let latents = bench.random(&[pictures, shape.tokens(), config.in_channels], Kind::Float);
    let modulations = transformer.modulations(&[500.0; STEPS]);
    bench.timed_answer(&mut || {
        transformer.forward(&latents, &modulations[0], &context, &rope, &NoHooks)
    })
}

/// Qwen 3 of 8 billion, as far as it is read.
fn qwen(bench: &Bench) -> Result<Measured, EngineError> {
    let published = LanguageConfig::qwen3_8b(LANGUAGE.tap);
    let config = if bench.small {
        LanguageConfig {
            vocab_size: 1000,
            hidden_size: 128,
            intermediate_size: 256,
            num_hidden_layers: 28,
            num_attention_heads: 2,
            num_key_value_heads: Some(1),
            head_dim: Some(64),
            ..published
        }
    } else {
        published
    };
    let encoder = bench.built(LanguageEncoder::new(&config, &bench.weights))?;
    let ids = bench.random_ids(config.vocab_size, PROMPT.room as i64);
    let mask = ids.ones_like();
    bench.timed_answer(&mut || encoder.forward(&ids, &mask, &NoHooks))
}
