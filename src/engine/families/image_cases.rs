//! Measured calls of image models: a step of each transformer, and the text encoders and autoencoders that are measured
//! nowhere else.

use safelight_core::families::{flux2, krea2, qwen_image, z_image};
use safelight_core::networks::{Flux2TransformerConfig, KlVaeConfig, LanguageConfig};
use serde_json::json;
use tch::{Device, Kind, Tensor};

use super::bench_cases::{
    BenchCase, BenchLine, CaseBench, T5_LENGTH, TEXT_LENGTH, decode, step, text,
};
use super::chroma::ChromaTransformer;
use super::flux::FluxTransformer;
use super::flux2::Flux2Transformer;
use super::krea2::Krea2Transformer;
use super::qwen_image::QwenImageTransformer;
use super::z_image::ZImageTransformer;
use crate::text::TextEmbeds;
use crate::vae::{KlVaeDecoder, KlWay, RowBands};

/// Tokens of the prompt, and of the padding that is computed once.
const COUNTED: i64 = 64;
const ALIKE: i64 = T5_LENGTH - COUNTED - 91;

pub(super) const CHROMA: &[BenchCase] = &[step("chroma_1024", [1024, 1024, 1], chroma_step)];

fn chroma_step(bench: &CaseBench) -> BenchLine {
    let small = json!({"num_layers": 2, "num_single_layers": 4, "num_attention_heads": 4, "attention_head_dim": 64,
        "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256, "approximator_hidden_dim": 128,
        "approximator_layers": 2});
    bench.image_step::<ChromaTransformer>(json!({}), small, |config| {
        let text = bench.text(T5_LENGTH, config.joint_attention_dim);
        drop(text.prompt.narrow(1, T5_LENGTH - ALIKE, ALIKE).fill_(1.0));
        let mask = Tensor::zeros([1, T5_LENGTH], (Kind::Float, Device::Cpu));
        drop(mask.narrow(1, 0, COUNTED).fill_(1.0));
        TextEmbeds {
            mask: Some(mask),
            ..text
        }
    })
}

pub(super) const FLUX: &[BenchCase] = &[
    step("flux_1024", [1024, 1024, 1], flux_step),
    step("flux_2048", [2048, 2048, 1], flux_step),
    decode("vae_flux_1024", [1024, 1024, 1], |bench| {
        autoencoder(bench, KlWay::Whole)
    }),
    decode("vae_flux_2048", [2048, 2048, 1], |bench| {
        autoencoder(bench, KlWay::Whole)
    }),
    // As jobs decode by default.
    decode("vae_flux_1024_bands", [1024, 1024, 1], |bench| {
        autoencoder(bench, KlWay::Bands(RowBands::default()))
    }),
    text("t5xxl", |bench| {
        let published = json!({"vocab_size": 32_128, "d_model": 4096, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
            "d_kv": 64, "feed_forward_proj": "gated-gelu"});
        let small = json!({"vocab_size": 1000, "d_model": 256, "d_ff": 512, "num_layers": 4, "num_heads": 4});
        bench.t5(published, small, false)
    }),
];

fn flux_step(bench: &CaseBench) -> BenchLine {
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

fn autoencoder(bench: &CaseBench, way: KlWay) -> BenchLine {
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

pub(super) const FLUX2: &[BenchCase] = &[
    step("klein_4b_1024", [1024, 1024, 1], |bench| {
        flux2_step(bench, &Flux2TransformerConfig::klein_4b())
    }),
    step("klein_9b_1024", [1024, 1024, 1], |bench| {
        flux2_step(bench, &Flux2TransformerConfig::klein_9b())
    }),
    text("qwen3_8b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 28,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64});
        bench.language(
            &LanguageConfig::qwen3_8b(flux2::LANGUAGE.tap),
            small,
            flux2::PROMPT.room,
        )
    }),
];

fn flux2_step(bench: &CaseBench, published: &Flux2TransformerConfig) -> BenchLine {
    let small = json!({"num_layers": 1, "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 64});
    bench.image_step::<Flux2Transformer>(published, small, |config| {
        bench.text(flux2::PROMPT.room as i64, config.joint_attention_dim)
    })
}

pub(super) const KREA2: &[BenchCase] = &[
    step("krea2_1024", [1024, 1024, 1], krea2_step),
    text("qwen3_vl_4b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 32});
        let published = LanguageConfig::qwen3_4b(krea2::LANGUAGE.tap);
        bench.language(&published, small, krea2::PROMPT.length())
    }),
];

fn krea2_step(bench: &CaseBench) -> BenchLine {
    let small = json!({"num_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 512,
        "text_hidden_dim": 128, "text_num_attention_heads": 1, "text_num_key_value_heads": 1,
        "text_intermediate_size": 256});
    bench.image_step::<Krea2Transformer>(json!({}), small, |config| {
        bench.text(TEXT_LENGTH, config.num_text_layers * config.text_hidden_dim)
    })
}

pub(super) const QWEN_IMAGE: &[BenchCase] = &[
    step("qwen_image_1024", [1024, 1024, 1], qwen_image_step),
    text("qwen25_vl_7b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64});
        let published = LanguageConfig::qwen25_vl_7b(qwen_image::LANGUAGE.tap);
        bench.language(&published, small, qwen_image::PROMPT.length())
    }),
];

fn qwen_image_step(bench: &CaseBench) -> BenchLine {
    let small = json!({"num_layers": 3, "num_attention_heads": 4, "attention_head_dim": 64,
        "axes_dims_rope": [8, 28, 28], "joint_attention_dim": 256});
    bench.image_step::<QwenImageTransformer>(json!({}), small, |config| {
        bench.text(TEXT_LENGTH, config.joint_attention_dim)
    })
}

pub(super) const Z_IMAGE: &[BenchCase] = &[
    step("z_image_1024", [1024, 1024, 1], z_image_step),
    step("z_image_2048", [2048, 2048, 1], z_image_step),
    text("qwen3_4b", |bench| {
        let small = json!({"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 5,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64});
        bench.language(
            &LanguageConfig::qwen3_4b(z_image::LANGUAGE.tap),
            small,
            z_image::PROMPT.room,
        )
    }),
];

fn z_image_step(bench: &CaseBench) -> BenchLine {
    let small = json!({"dim": 256, "n_layers": 4, "n_refiner_layers": 1, "n_heads": 2, "n_kv_heads": 2,
        "cap_feat_dim": 64});
    bench.image_step::<ZImageTransformer>(json!({}), small, |config| {
        bench.text(TEXT_LENGTH, config.cap_feat_dim)
    })
}
