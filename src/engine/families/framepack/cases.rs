//! Measured calls of FramePack: a step of a section, the decoding of one, and Llama.

use safelight_core::families::framepack::LANGUAGE;
use safelight_core::job::{SectionOrder, VideoSections, WINDOW};
use safelight_core::networks::{FramePackTransformerConfig, HunyuanVaeConfig, LanguageConfig};
use safelight_core::tokens::HUNYUAN_PROMPT;
use serde_json::{Value, json};
use tch::{Device, Kind};

use super::{FramePackTransformer, SectionHistory, layout};
use crate::families::bench_cases::{
    BenchCase, BenchLine, CaseBench, TIMESTEPS, decode, step, text,
};
use crate::hooks::NoHooks;
use crate::step_cache::SkipOptions;
use crate::vae::HunyuanVaeDecoder;

/// Tokens of a prompt, and of an image.
const TEXT_LENGTH: i64 = 512;
const IMAGE_LENGTH: i64 = 729;
/// Width and height in pixels, and latent frames.
const SIZE: [i64; 3] = [544, 704, WINDOW as i64];
const SMALL_SIZE: [i64; 3] = [96, 64, 2];
const SMALL_TILE: i64 = 64;

pub(in crate::families) const CASES: &[BenchCase] = &[
    step("framepack", SIZE, section_step),
    decode("vae_hunyuan_9", SIZE, decoder).tiled(256),
    decode("vae_hunyuan_9_untiled", SIZE, decoder),
    text("llama3", |bench| {
        let published = json!({"vocab_size": 128_320, "hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "rope_theta": 500_000.0});
        let published = LanguageConfig {
            tap: LANGUAGE.tap,
            ..bench.config(published, Value::Null)?
        };
        let small = json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2});
        bench.language(&published, small, HUNYUAN_PROMPT.length())
    }),
];

/// Rows and columns of latents.
fn latent_edges(bench: &CaseBench) -> [i64; 2] {
    let [width, height, _] = bench.size(SMALL_SIZE);
    [height, width].map(|edge| edge / 16 * 2)
}

fn section_step(bench: &CaseBench) -> BenchLine {
    let small = json!({"num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
        "rope_axes_dim": [8, 28, 28], "text_embed_dim": 256, "pooled_projection_dim": 64, "image_proj_dim": 72});
    let config: FramePackTransformerConfig =
        bench.config(FramePackTransformerConfig::default(), small)?;
    let kind = bench.weights.kind();
    let transformer = bench.built(FramePackTransformer::new(&config, &bench.weights))?;
    let text = bench.random(&[1, TEXT_LENGTH, config.text_embed_dim], kind);
    let pooled = bench.random(&[1, config.pooled_projection_dim], kind);
    let image = bench.random(&[1, IMAGE_LENGTH, config.image_proj_dim], kind);
    let sections = VideoSections {
        count: 3,
        window: WINDOW,
        order: SectionOrder::Original,
        lead: 1,
    };
    let layout = layout(&sections, 1);
    let size = latent_edges(bench);
    let frames = |places: &[i64]| {
        let [height, width] = size;
        let count = places.len() as i64;
        bench.random(&[1, config.in_channels, count, height, width], Kind::Float)
    };
    let history = SectionHistory {
        clean: frames(&layout.clean),
        history_2x: frames(&layout.history_2x),
        history_4x: frames(&layout.history_4x),
    };
    let section = transformer.section(&history, &layout, size);
    let context = transformer.context(&text, TEXT_LENGTH, &pooled, &image, 10.0, &section);
    drop((text, pooled, image));
    let modulations = transformer.modulations(&TIMESTEPS, &context);
    let latents = frames(&layout.latents);
    let skip = SkipOptions::default;
    bench.timed_output(&mut || {
        transformer.forward(
            &latents,
            &modulations[0],
            &context,
            &section,
            skip(),
            &NoHooks,
        )
    })
}

/// Latents to pixels, on a GPU in f16 as in a job.
fn decoder(bench: &CaseBench) -> BenchLine {
    let width = if bench.small { 32 } else { 128 };
    let config = HunyuanVaeConfig {
        block_out_channels: [1, 2, 4, 4].map(|factor| factor * width).to_vec(),
        ..HunyuanVaeConfig::default()
    };
    let kind = match (bench.weights.kind(), bench.weights.device()) {
        (Kind::BFloat16, device) if device != Device::Cpu => Kind::Half,
        (kind, _) => kind,
    };
    let weights = bench.weights.with_kind(kind);
    let decoder = bench.built(HunyuanVaeDecoder::new(&config, &weights))?;
    let [height, width] = latent_edges(bench);
    let [_, _, frames] = bench.size(SMALL_SIZE);
    let latents = bench.random(&[1, config.latent_channels, frames, height, width], kind);
    let tiling = bench.tiling(SMALL_TILE, 1);
    bench.timed(&mut || {
        decoder.decode(&latents, tiling, &|| false, &mut |pixels| {
            bench.keep(pixels);
        })
    })
}
