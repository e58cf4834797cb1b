//! Measured calls of Wan: a call of each transformer, the autoencoders, the text encoder.

use safelight_core::networks::{WanTransformerConfig, WanVaeConfig};
use serde_json::{Value, json};
use tch::Kind;

use super::{CallInputs, TokenTimesteps, WanTransformer};
use crate::families::bench_cases::{
    BenchCase, BenchLine, CaseBench, T5_LENGTH, TIMESTEPS, decode, step, text,
};
use crate::hooks::NoHooks;
use crate::step_cache::SkipOptions;
use crate::vae::WanVaeDecoder;

const SIZE_480P: [i64; 3] = [832, 480, 81];
const SIZE_320: [i64; 3] = [320, 320, 17];
const SIZE_704P: [i64; 3] = [1280, 704, 121];
const SMALL_TILE: i64 = 32;

pub(in crate::families) const CASES: &[BenchCase] = &[
    step("wan14b_480p_81f", SIZE_480P, |bench| {
        transformer(bench, large())
    }),
    step("wan14b_vace_480p_81f", SIZE_480P, |bench| {
        let layers: Vec<i64> = (0..40).step_by(5).collect();
        let mut config = large();
        config["in_channels"] = 16.into();
        config["vace_layers"] = json!(if bench.small { vec![0] } else { layers });
        transformer(bench, config)
    }),
    step("wan14b_320_17f", SIZE_320, |bench| {
        transformer(bench, large())
    }),
    step("wan5b_704p_121f", SIZE_704P, |bench| {
        let config = json!({"num_attention_heads": 24, "ffn_dim": 14336, "num_layers": 30, "in_channels": 48,
            "out_channels": 48});
        transformer(bench, config)
    }),
    step("wan13b_480p_81f", SIZE_480P, |bench| {
        transformer(bench, narrow())
    }),
    decode("vae_wan_480p_81f", SIZE_480P, wan21_decoder),
    decode("vae_wan_480p_81f_tiled", SIZE_480P, wan21_decoder).tiled(256),
    decode("vae_wan_320_17f", SIZE_320, wan21_decoder),
    decode("vae_wan22_704p_17f", [1280, 704, 17], |bench| {
        let config = json!({"base_dim": 160, "decoder_base_dim": 256, "z_dim": 48, "is_residual": true,
            "patch_size": 2, "in_channels": 12, "out_channels": 12, "scale_factor_spatial": 16,
            "latents_mean": vec![0.0; 48], "latents_std": vec![1.0; 48]});
        decoder(
            bench,
            config,
            json!({"base_dim": 16, "decoder_base_dim": 16}),
        )
    }),
    text("umt5xxl", |bench| {
        let published = json!({"model_type": "umt5", "vocab_size": 256_384, "d_model": 4096, "d_ff": 10240,
            "num_layers": 24, "num_heads": 64, "d_kv": 64});
        let small = json!({"vocab_size": 1000, "d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4,
            "d_kv": 16});
        bench.t5(published, small, true)
    }),
    step("wan13b_320_17f", SIZE_320, |bench| {
        transformer(bench, narrow())
    })
    .streaming(),
];

/// 14B with the channels of a start image.
fn large() -> Value {
    json!({"num_attention_heads": 40, "ffn_dim": 13824, "num_layers": 40, "in_channels": 36, "out_channels": 16})
}

/// 1.3B.
fn narrow() -> Value {
    json!({"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30, "in_channels": 16, "out_channels": 16})
}

/// Size of a video's latents, `(1, C, f, h, w)`, few for a small network.
fn latents(bench: &CaseBench, channels: i64, factor: i64) -> [i64; 5] {
    if bench.small {
        return [1, channels, 2, 4, 6];
    }
    let [width, height, frames] = bench.size([0; 3]);
    let frames = (frames - 1) / 4 + 1;
    [1, channels, frames, height / factor, width / factor]
}

fn transformer(bench: &CaseBench, published: Value) -> BenchLine {
    let small = json!({"num_attention_heads": 2, "attention_head_dim": 64, "ffn_dim": 256, "num_layers": 2,
        "text_dim": 128});
    let config: WanTransformerConfig = bench.config(published, small)?;
    let transformer = bench.built(WanTransformer::new(&config, &bench.weights))?;
    let text = [bench.batch(), T5_LENGTH, config.text_dim];
    let context = transformer.context(&bench.random(&text, bench.weights.kind()), None);
    let is_dense = config.in_channels == 48;
    let size = latents(bench, config.in_channels, if is_dense { 16 } else { 8 });
    let input = bench.random(&size, Kind::Float);
    let [_, _, f, h, w] = size;
    let control = config.has_control().then(|| {
        let shown = bench.random(&[1, config.vace_in_channels, f, h, w], Kind::Float);
        transformer.control(&shown, 1.0)
    });
    let control = control.flatten();
    let inputs = CallInputs {
        context: &context,
        rope: &transformer.rope(size),
        control: control.as_ref(),
    };
    let [pt, ph, pw] = config.patch_size;
    let tokens = (f / pt) * (h / ph) * (w / pw);
    let timesteps = TokenTimesteps::uniform(TIMESTEPS[0], tokens);
    bench.timed_output(&mut || {
        transformer.forward(&input, &timesteps, inputs, SkipOptions::default(), &NoHooks)
    })
}

fn wan21_decoder(bench: &CaseBench) -> BenchLine {
    let config = json!({"base_dim": 96, "z_dim": 16, "is_residual": false});
    decoder(bench, config, json!({"base_dim": 16}))
}

fn decoder(bench: &CaseBench, published: Value, small: Value) -> BenchLine {
    let config: WanVaeConfig = bench.config(published, small)?;
    let decoder = bench.built(WanVaeDecoder::new(&config, &bench.weights))?;
    let size = latents(bench, config.z_dim, config.spatial_factor());
    let latents = bench.random(&size, bench.weights.kind());
    let tiling = bench.tiling(SMALL_TILE, config.patch());
    bench.timed(&mut || {
        decoder.decode(&latents, tiling, &|| false, &mut |pixels| {
            bench.keep(pixels);
        })
    })
}
