//! Measured calls of FLUX.1 dev: a step of the transformer, the autoencoder, the text encoders.

use safelight_core::networks::KlVaeConfig;
use serde_json::json;

use super::FluxTransformer;
use crate::bench::cases::{BenchCase, BenchLines, CaseBench, T5_LENGTH};
use crate::text::TextEmbeds;
use crate::vae::{KlVaeDecoder, KlWay, RowBands};

pub(crate) const CASES: &[BenchCase] = &[
    BenchCase::step("flux_1024", [1024, 1024, 1], transformer).reported(
        "Flux, a step at 1024×1024",
        23.5,
        74.0,
    ),
    BenchCase::step("flux_2048", [2048, 2048, 1], transformer),
    BenchCase::decode("vae_flux_1024", [1024, 1024, 1], None, |bench| {
        autoencoder(bench, KlWay::Whole)
    }),
    BenchCase::decode("vae_flux_2048", [2048, 2048, 1], None, |bench| {
        autoencoder(bench, KlWay::Whole)
    }),
    // As jobs decode by default.
    BenchCase::decode("vae_flux_1024_bands", [1024, 1024, 1], None, |bench| {
        autoencoder(bench, KlWay::Bands(RowBands::default()))
    })
    .reported("Flux's autoencoder, an image of 1024×1024", 2.5, 10.0),
    BenchCase::text("t5xxl", |bench| {
        let published = json!({"vocab_size": 32_128, "d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
            "d_kv": 64, "feed_forward_proj": "gated-gelu"});
        let small = json!({"vocab_size": 1000, "d_model": 256, "d_ff": 512, "num_layers": 4, "num_heads": 4});
        bench.t5(published, small, false)
    })
    .reported("T5-XXL reads a prompt", 9.5, 5.0),
];

fn transformer(bench: &CaseBench) -> BenchLines {
    let small = json!({"num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
        "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256, "pooled_projection_dim": 64});
    let published = json!({"guidance_embeds": true});
    bench.image_step::<FluxTransformer>(published, small, |config| {
        let text = bench.text(T5_LENGTH, config.joint_attention_dim);
        let pooled = bench.random(&[1, config.pooled_projection_dim], bench.weights.kind());
        TextEmbeds {
            pooled: Some(pooled),
            ..text
        }
    })
}

fn autoencoder(bench: &CaseBench, way: KlWay) -> BenchLines {
    let width = if bench.small { 32 } else { 128 };
    let config = KlVaeConfig {
        block_out_channels: [1, 2, 4, 4].map(|factor| factor * width).to_vec(),
        layers_per_block: 2,
        latent_channels: 16,
        use_quant_conv: false,
        use_post_quant_conv: false,
        ..KlVaeConfig::default()
    };
    let decoder = bench.built(KlVaeDecoder::new(&config, &bench.weights))?;
    let shape = bench.image_shape(config.latent_channels)?;
    let latents = bench.random(&shape.size(), bench.weights.kind());
    let way = bench.tiling(64, 1).map_or(way, KlWay::Tiles);
    bench.timed(&mut || {
        let pixels = decoder.decode(&latents, way, &|| false);
        pixels.map(|pixels| bench.keep(pixels))
    })
}
