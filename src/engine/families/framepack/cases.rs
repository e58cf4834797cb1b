//! FramePack at full size: a step of a section, the decoding of one, and Llama.

use crate::error::EngineError;
use crate::families::framepack::{FramePackTransformer, History, Layout};
use crate::hooks::NoHooks;
use crate::step_cache::Shortcut;
use crate::text::LanguageEncoder;
use crate::vae::{HunyuanVaeDecoder, Tiling};
use safelight_core::families::framepack::LANGUAGE;
use safelight_core::networks::{FramePackTransformerConfig, HunyuanVaeConfig, LanguageConfig};
use safelight_core::tokens::HUNYUAN_PROMPT;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use crate::bench::cases::{Bench, Case, CaseKind, Told, from_json};
use crate::bench::measure::Measured;

/// Tokens of a prompt, and of a picture.
const TEXT_LENGTH: i64 = 512;
const IMAGE_LENGTH: i64 = 729;
/// Of a job.
const STEPS: usize = 25;
/// Latent frames of a section, and rows and columns of 544 × 704 pixels.
const WINDOW: i64 = 9;
const SIZE: [i64; 2] = [88, 68];
const SMALL_SIZE: [i64; 2] = [8, 12];
/// Edge of small tiles, in pixels.
const SMALL_TILE: i64 = 64;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "framepack",
        runs: 5,
        warm_ups: 2,
        call: section_step,
        told: Some(Told {
            rank: 60,
            label: "FramePack, a step of a section at 544×704",
            kind: CaseKind::Step,
            gib: 26.5,
            tflop: 500.0,
            options: &[],
        }),
    },
    Case {
        name: "vae_hunyuan_9",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WINDOW, true),
        told: Some(Told {
            rank: 61,
            label: "HunyuanVideo's autoencoder, a section at 544×704 in tiles",
            kind: CaseKind::Decode,
            gib: 3.5,
            tflop: 400.0,
            options: &[],
        }),
    },
    Case {
        name: "vae_hunyuan_9_untiled",
        runs: 3,
        warm_ups: 1,
        call: |bench| vae_decode(bench, WINDOW, false),
        told: None,
    },
    Case {
        name: "vae_hunyuan_18_untiled",
        runs: 3,
        warm_ups: 1,
        // What every section but the first decodes.
        call: |bench| vae_decode(bench, 2 * WINDOW, false),
        told: None,
    },
    Case {
        name: "llama3",
        runs: 5,
        warm_ups: 2,
        call: llama,
        told: Some(Told {
            rank: 72,
            label: "Llama 3 reads a prompt",
            kind: CaseKind::Text,
            gib: 14.0,
            tflop: 5.0,
            options: &[],
        }),
    },
];

/// One step of the second of three sections. What a section makes once, the packed history, the turns of the tokens and
/// all steps' modulations, is made once here too.
fn section_step(bench: &Bench) -> Result<Measured, EngineError> {
    let (config, size) = if bench.small {
        let small = json!({
            "num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
            "rope_axes_dim": [8, 28, 28], "text_embed_dim": 256, "pooled_projection_dim": 64, "image_proj_dim": 72,
        });
        (from_json(small)?, SMALL_SIZE)
    } else {
        (FramePackTransformerConfig::default(), size_of(bench))
    };
    let config: FramePackTransformerConfig = config;
    let kind = bench.weights.kind();
    let transformer = bench.built(FramePackTransformer::new(&config, &bench.weights))?;
    let text = bench.random(&[1, TEXT_LENGTH, config.text_embed_dim], kind);
    let pooled = bench.random(&[1, config.pooled_projection_dim], kind);
    let image = bench.random(&[1, IMAGE_LENGTH, config.image_proj_dim], kind);
    let context = transformer.context(&text, TEXT_LENGTH, &pooled, &image, 10.0);
    drop((text, pooled, image));
    let layout = layout();
    let frames = |places: &[i64]| {
        let [height, width] = size;
        let count = places.len() as i64;
        bench.random(&[1, config.in_channels, count, height, width], Kind::Float)
    };
    let history = History {
        clean: frames(&layout.clean),
        history_2x: frames(&layout.history_2x),
        history_4x: frames(&layout.history_4x),
    };
    let section = transformer.section(&history, &layout, size);
    let rope = transformer.rope(&context, &section);
    let latents = frames(&layout.latents);
    let modulations = transformer.modulations(&[500.0; STEPS], &context);
    bench.timed_answer(&mut || {
        let told = &modulations[0];
        transformer.forward(
            &latents,
            told,
            &context,
            &section,
            &rope,
            Shortcut::default(),
            &NoHooks,
        )
    })
}

/// Rows and columns of latents: what was asked for, else the published size.
fn size_of(bench: &Bench) -> [i64; 2] {
    let edge = |asked: Option<i64>, own: i64| asked.map_or(own, |edge| edge / 16 * 2);
    [
        edge(bench.sizes.height, SIZE[0]),
        edge(bench.sizes.width, SIZE[1]),
    ]
}

/// As the first FramePack has it, with a gap of one section.
fn layout() -> Layout {
    let first = 1 + WINDOW;
    let behind = first + WINDOW;
    Layout {
        latents: (first..behind).collect(),
        clean: vec![0, behind],
        history_2x: (behind + 1..behind + 3).collect(),
        history_4x: (behind + 3..behind + 19).collect(),
    }
}

/// `frames` latent frames to pixels, in the numbers that jobs have.
fn vae_decode(bench: &Bench, frames: i64, is_tiled: bool) -> Result<Measured, EngineError> {
    let width = if bench.small { 32 } else { 128 };
    let config = HunyuanVaeConfig {
        block_out_channels: [1, 2, 4, 4].map(|factor| factor * width).to_vec(),
        ..HunyuanVaeConfig::default()
    };
    let ([height, width], tile) = if bench.small {
        (SMALL_SIZE, Tiling::of_size(SMALL_TILE))
    } else {
        let tile = bench.sizes.tile;
        (
            size_of(bench),
            tile.map_or_else(Tiling::default, Tiling::of_size),
        )
    };
    let kind = match (bench.weights.kind(), bench.weights.device()) {
        (Kind::BFloat16, device) if device != Device::Cpu => Kind::Half,
        (kind, _) => kind,
    };
    let decoder = HunyuanVaeDecoder::new(&config, &bench.weights.with_kind(kind));
    let decoder = bench.built(decoder)?;
    let frames = if bench.small { 2 } else { frames };
    let latents = bench.random(&[1, config.latent_channels, frames, height, width], kind);
    let tiling = is_tiled.then_some(tile);
    bench.timed(&mut || {
        decoder.decode(&latents, tiling, &|| false, &mut |pixels| {
            bench.keep(pixels);
        })
    })
}

/// Llama 3 with 8 billion weights, as far as it is read.
fn llama(bench: &Bench) -> Result<Measured, EngineError> {
    let config: LanguageConfig = from_json(if bench.small {
        json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 500_000.0})
    } else {
        json!({"vocab_size": 128_320, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "rope_theta": 500_000.0})
    })?;
    let config = LANGUAGE.of(config).map_err(EngineError::internal)?;
    let encoder = bench.built(LanguageEncoder::new(&config, &bench.weights))?;
    let length = HUNYUAN_PROMPT.length() as i64;
    let ids = bench.random_ids(config.vocab_size.min(128_000), length);
    let mask = Tensor::ones([1, length], (Kind::Int64, Device::Cpu));
    bench.timed_answer(&mut || encoder.forward(&ids, &mask, &NoHooks))
}
