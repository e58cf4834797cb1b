//! Chroma at full size: a step of its transformer. Text encoder and autoencoder are FLUX.1's.

use safelight_core::networks::ChromaTransformerConfig;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::error::EngineError;
use crate::families::chroma::ChromaTransformer;
use crate::hooks::NoHooks;
use crate::stages::stills::LatentShape;

/// Tokens of a text with its padding, of which so many count as text, and so many at the end are alike.
const TEXT_LENGTH: i64 = 512;
const COUNTED: i64 = 64;
const ALIKE: i64 = TEXT_LENGTH - COUNTED - 91;
/// Of a job.
const STEPS: usize = 40;
/// Edge of a small picture.
const SMALL_SIDE: u32 = 128;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "chroma_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, 1024),
        told: Some(Told {
            rank: 12,
            label: "Chroma, a step at 1024×1024",
            kind: CaseKind::Step,
            gib: 17.5,
            tflop: 74.0,
            options: &[],
        }),
    },
    Case {
        name: "chroma_2048",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, 2048),
        told: None,
    },
];

/// One step for a picture of `side` × `side` pixels. What a job makes once, the projected text, the turns of the
/// tokens and all steps' modulations, is made once here too.
fn transformer(bench: &Bench, side: u32) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
            "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256, "approximator_hidden_dim": 128,
            "approximator_layers": 2,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (ChromaTransformerConfig::default(), side)
    };
    let edge = |asked: Option<i64>| asked.map_or(side, |edge| edge as u32);
    let (width, height) = (edge(bench.sizes.width), edge(bench.sizes.height));
    let shape = LatentShape::new(config.latent_channels(), width, height)?;
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(ChromaTransformer::new(&config, &bench.weights))?;
    let text = bench.random(
        &[1, TEXT_LENGTH, config.joint_attention_dim],
        bench.weights.kind(),
    );
    drop(text.narrow(1, TEXT_LENGTH - ALIKE, ALIKE).fill_(1.0));
    let mask = Tensor::zeros([1, TEXT_LENGTH], (Kind::Float, Device::Cpu));
    drop(mask.narrow(1, 0, COUNTED).fill_(1.0));
    let context = transformer.context(&text, &mask, shape, pictures);
    drop(text);
    let latents = bench.random(&[pictures, shape.tokens(), config.in_channels], Kind::Float);
    let modulations = transformer.modulations(&[500.0; STEPS]);
    bench.timed_answer(&mut || transformer.forward(&latents, &modulations[0], &context, &NoHooks))
}
