//! FLUX.1 dev at full size: a step of its transformer, its autoencoder and its text encoders.

use crate::error::EngineError;
use crate::families::flux::measured::measured;
use crate::families::flux::{FluxTransformer, image_ids, text_ids};
use crate::hooks::NoHooks;
use crate::stages::stills::LatentShape;
use crate::text::{ClipTextEncoder, T5Encoder};
use crate::vae::{Bands, KlVaeDecoder, KlWay, Tiling};
use safelight_core::networks::{ClipTextConfig, FluxTransformerConfig, KlVaeConfig, T5Config};
use serde_json::json;
use tch::Kind;

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;
use crate::bench::walks::Walked;

/// Tokens of a prompt.
const TEXT_LENGTH: i64 = 512;
const CLIP_LENGTH: i64 = 77;
/// Of a job.
const STEPS: usize = 28;
/// Edge of a small picture, and of its tiles.
const SMALL_SIDE: u32 = 128;
const SMALL_TILE: i64 = 64;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "flux_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| transformer(bench, 1024),
        told: Some(Told {
            rank: 10,
            label: "Flux, a step at 1024×1024",
            kind: CaseKind::Step,
            gib: 23.5,
            tflop: 74.0,
            options: &[],
        }),
    },
    Case {
        name: "flux_2048",
        runs: 3,
        warm_ups: 1,
        call: |bench| transformer(bench, 2048),
        told: None,
    },
    Case {
        name: "vae_flux_1024",
        runs: 5,
        warm_ups: 2,
        call: |bench| vae_decode(bench, 1024, Form::Whole),
        told: None,
    },
    Case {
        name: "vae_flux_1024_tiled",
        runs: 5,
        warm_ups: 2,
        call: |bench| vae_decode(bench, 1024, Form::Tiles),
        told: None,
    },
    Case {
        name: "vae_flux_2048",
        runs: 5,
        warm_ups: 2,
        call: |bench| vae_decode(bench, 2048, Form::Whole),
        told: None,
    },
    Case {
        name: "vae_flux_2048_tiled",
        runs: 5,
        warm_ups: 2,
        call: |bench| vae_decode(bench, 2048, Form::Tiles),
        told: None,
    },
    Case {
        name: "vae_flux_1024_bands",
        runs: 5,
        warm_ups: 2,
        call: |bench| vae_decode(bench, 1024, Form::Bands),
        told: Some(Told {
            rank: 11,
            label: "Flux's autoencoder, a picture of 1024×1024",
            kind: CaseKind::Decode,
            gib: 2.5,
            tflop: 10.0,
            options: &[],
        }),
    },
    Case {
        name: "t5xxl",
        runs: 5,
        warm_ups: 2,
        call: t5,
        told: Some(Told {
            rank: 70,
            label: "T5-XXL reads a prompt",
            kind: CaseKind::Text,
            gib: 9.5,
            tflop: 5.0,
            options: &[],
        }),
    },
    Case {
        name: "clip_l",
        runs: 5,
        warm_ups: 2,
        call: clip,
        told: None,
    },
];

/// One step for a picture of `side` × `side` pixels. What a job makes once, the projected text, the turns of the
/// tokens and all steps' modulations, is made once here too.
fn transformer(bench: &Bench, side: u32) -> Result<Measured, EngineError> {
    let (config, side) = if bench.small {
        let small = json!({
            "num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
            "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256, "pooled_projection_dim": 64,
            "guidance_embeds": true,
        });
        (from_json(small)?, SMALL_SIDE)
    } else {
        (from_json(json!({"guidance_embeds": true}))?, side)
    };
    let config: FluxTransformerConfig = config;
    let edge = |asked: Option<i64>| asked.map_or(side, |edge| edge as u32);
    let (width, height) = (edge(bench.sizes.width), edge(bench.sizes.height));
    let shape = LatentShape::new(config.latent_channels(), width, height)?;
    let pictures = bench.sizes.batch.unwrap_or(1);
    let transformer = bench.built(FluxTransformer::new(&config, &bench.weights))?;
    let text = bench.random(
        &[1, TEXT_LENGTH, config.joint_attention_dim],
        bench.weights.kind(),
    );
    let pooled = bench.random(&[1, config.pooled_projection_dim], bench.weights.kind());
    let context = transformer.context(&text, &pooled, 3.5);
    drop((text, pooled));
    let rope = transformer.rope(&text_ids(TEXT_LENGTH), &image_ids(shape), pictures);
    let latents = bench.random(&[pictures, shape.tokens(), config.in_channels], Kind::Float);
    let modulations = transformer.modulations(&bench.timesteps(STEPS), &context);
    bench.steps(&Walked {
        input: latents,
        measured: &measured,
        answer: &|latents, call, shortcut| {
            let told = &modulations[call];
            transformer.forward_cached(latents, told, &context, &rope, shortcut, &NoHooks)
        },
    })
}

/// How the autoencoder goes over a picture.
#[derive(Clone, Copy, Debug)]
enum Form {
    Whole,
    Tiles,
    /// As jobs do where nothing else is asked for.
    Bands,
}

/// Latents to the pixels of a picture of `side` × `side`.
fn vae_decode(bench: &Bench, side: i64, form: Form) -> Result<Measured, EngineError> {
    let width = if bench.small { 32 } else { 128 };
    let config = KlVaeConfig {
        block_out_channels: [1, 2, 4, 4].map(|factor| factor * width).to_vec(),
        layers_per_block: 2,
        latent_channels: 16,
        use_quant_conv: false,
        use_post_quant_conv: false,
        ..KlVaeConfig::default()
    };
    let (side, tiling) = if bench.small {
        (i64::from(SMALL_SIDE), Tiling::of_size(SMALL_TILE))
    } else {
        (
            side,
            bench
                .sizes
                .tile
                .map_or_else(Tiling::default, Tiling::of_size),
        )
    };
    let decoder = bench.built(KlVaeDecoder::new(&config, &bench.weights))?;
    let edge = |asked: Option<i64>| asked.unwrap_or(side) / config.spatial_factor();
    let (height, width) = (edge(bench.sizes.height), edge(bench.sizes.width));
    let latents = bench.random(
        &[1, config.latent_channels, height, width],
        bench.weights.kind(),
    );
    bench.timed(&mut || {
        let way = match form {
            Form::Tiles => KlWay::Tiles(tiling),
            Form::Bands => KlWay::Bands(Bands::default()),
            Form::Whole => KlWay::Whole,
        };
        decoder
            .decode(&latents, way, &|| false)
            .map(|pixels| bench.keep(pixels))
    })
}

/// T5-XXL.
fn t5(bench: &Bench) -> Result<Measured, EngineError> {
    let config: T5Config = from_json(if bench.small {
        json!({"vocab_size": 1000, "d_model": 256, "d_ff": 512, "num_layers": 4, "num_heads": 4, "d_kv": 64,
            "feed_forward_proj": "gated-gelu"})
    } else {
        json!({"vocab_size": 32_128, "d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "d_kv": 64,
            "feed_forward_proj": "gated-gelu"})
    })?;
    let encoder = bench.built(T5Encoder::new(&config, &bench.weights))?;
    let ids = bench.random_ids(config.vocab_size.min(32000), TEXT_LENGTH);
    bench.timed_answer(&mut || encoder.forward(&ids, None, &NoHooks))
}

/// CLIP-L's text half.
fn clip(bench: &Bench) -> Result<Measured, EngineError> {
    let config: ClipTextConfig = from_json(if bench.small {
        json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4,
            "num_attention_heads": 4})
    } else {
        json!({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12})
    })?;
    let encoder = bench.built(ClipTextEncoder::new(&config, &bench.weights))?;
    let ids = bench.random_ids(config.vocab_size, CLIP_LENGTH);
    bench.timed(&mut || encoder.forward(&ids, &NoHooks).map(drop))
}
