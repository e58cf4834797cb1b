//! Measured calls of every family: steps of transformers, autoencoders, text encoders.

use safelight_core::families::{
    flux2, flux3, framepack, krea2, ltx2, qwen_image, qwen_image_21, z_image,
};
use safelight_core::job::{SectionOrder, VideoSections, WINDOW};
use safelight_core::networks::ltx2::{Ltx2TransformerConfig, Ltx2VaeConfig};
use safelight_core::networks::{
    ChromaTransformerConfig, DenoiserConfig as _, Flux2TransformerConfig, Flux3TransformerConfig,
    FluxTransformerConfig, FramePackTransformerConfig, HunyuanVaeConfig, KlVaeConfig,
    LanguageConfig, QwenImage21TransformerConfig, SdxlUnetConfig, T5Config, T5Kind,
    WanTransformerConfig, WanVaeConfig,
};
use safelight_core::tokens::HUNYUAN_PROMPT;
use tch::{Device, Kind, Tensor};

use super::anima::AnimaTransformer;
use super::bench_cases::{BenchCase, BenchLine, CaseBench, TIMESTEPS, decode, step, text};
use super::chroma::ChromaTransformer;
use super::flux::FluxTransformer;
use super::flux2::{Flux2Klein, Flux2Transformer};
use super::flux3::Flux3Transformer;
use super::framepack::{FramePackTransformer, SectionHistory, layout};
use super::krea2::Krea2Transformer;
use super::ltx2::{Ltx2Inputs, Ltx2Positions, Ltx2Transformer, audio_tokens};
use super::qwen_image::QwenImageTransformer;
use super::qwen_image_21::{QwenImage21Transformer, TOKENS_A_SLOT};
use super::sdxl::SdxlUnet;
use super::wan::{CallInputs, TokenTimesteps, WanTransformer};
use super::z_image::ZImageTransformer;
use crate::hooks::NoHooks;
use crate::stages::images::{ImageModel as _, LatentForm};
use crate::step_cache::SkipOptions;
use crate::text::TextEmbeds;
use crate::vae::{HunyuanVaeDecoder, KlVaeDecoder, KlWay, Ltx2VaeDecoder, RowBands, WanVaeDecoder};

/// Tokens of a long prompt of models that read no padding.
const TEXT_LENGTH: i64 = 256;
/// Tokens of a padded prompt of T5, of FramePack's image, and of FramePack's padded prompt.
const T5_LENGTH: i64 = 512;
const IMAGE_LENGTH: i64 = 729;
const HUNYUAN_LENGTH: i64 = 512;
/// Tokens of Chroma's prompt, and of its padding that is computed once.
const COUNTED: i64 = 64;
const ALIKE: i64 = T5_LENGTH - COUNTED - 91;

/// Width and height in pixels, and frames, of FramePack in latents.
const SECTION: [i64; 3] = [544, 704, WINDOW as i64];
const SMALL_SECTION: [i64; 3] = [96, 64, 2];
const WAN_480P: [i64; 3] = [832, 480, 81];
const LTX2_704P: [i64; 3] = [1280, 704, 121];
/// Frames of a second of LTX-2.3.
const LTX2_FPS: f64 = 24.0;
const WAN_320: [i64; 3] = [320, 320, 17];
const IMAGE_1024: [i64; 3] = [1024, 1024, 1];
const IMAGE_2048: [i64; 3] = [2048, 2048, 1];

/// Ids of families, and their cases.
pub(crate) const MEASURED: [(&str, &[BenchCase]); 14] = [
    ("framepack", FRAMEPACK),
    ("wan", WAN),
    ("ltx2", LTX2),
    ("z_image", Z_IMAGE),
    ("anima", ANIMA),
    ("flux2", FLUX2),
    ("flux2_dev", FLUX2_DEV),
    ("flux3", FLUX3),
    ("krea2", KREA2),
    ("chroma", CHROMA),
    ("qwen_image_21", QWEN_IMAGE_21),
    ("sdxl", SDXL),
    ("qwen_image", QWEN_IMAGE),
    ("flux", FLUX),
];

const LTX2: &[BenchCase] = &[
    step("ltx23_704p_121f", LTX2_704P, ltx2_step),
    decode("vae_ltx23_704p_121f", LTX2_704P, ltx2_decoder),
    text("gemma3_12b", |bench| {
        let published = LanguageConfig::gemma3_12b(ltx2::LANGUAGE.tap);
        bench.language(&published, ltx2::PROMPT.room)
    }),
];

const FRAMEPACK: &[BenchCase] = &[
    step("framepack", SECTION, section_step),
    decode("vae_hunyuan_9", SECTION, hunyuan_decoder).tiled(256),
    decode("vae_hunyuan_9_untiled", SECTION, hunyuan_decoder),
    text("llama3", |bench| {
        let published = LanguageConfig::llama3(framepack::LANGUAGE.tap);
        bench.language(&published, HUNYUAN_PROMPT.length())
    }),
];

const WAN: &[BenchCase] = &[
    step("wan14b_480p_81f", WAN_480P, |it| wan_step(it, &wan_14b(36))),
    step("wan14b_vace_480p_81f", WAN_480P, |bench| {
        let layers = if bench.small { 1 } else { 40 };
        let vace_layers = (0..layers).step_by(5).collect();
        let published = WanTransformerConfig {
            vace_layers,
            ..wan_14b(16)
        };
        wan_step(bench, &published)
    }),
    step("wan14b_320_17f", WAN_320, |it| wan_step(it, &wan_14b(36))),
    step("wan5b_704p_121f", [1280, 704, 121], |bench| {
        wan_step(bench, &wan(24, 14_336, 48))
    }),
    step("wan13b_480p_81f", WAN_480P, |bench| {
        wan_step(bench, &wan(12, 8960, 16))
    }),
    decode("vae_wan_480p_81f", WAN_480P, |it| wan_decoder(it, 16)),
    decode("vae_wan_480p_81f_tiled", WAN_480P, |it| wan_decoder(it, 16)).tiled(256),
    decode("vae_wan_320_17f", WAN_320, |it| wan_decoder(it, 16)),
    decode("vae_wan22_704p_17f", [1280, 704, 17], |bench| {
        wan_decoder(bench, 48)
    }),
    text("umt5xxl", |it| {
        it.t5(&T5Config::xxl(T5Kind::Umt5), T5_LENGTH)
    }),
    step("wan13b_320_17f", WAN_320, |bench| {
        wan_step(bench, &wan(12, 8960, 16))
    })
    .streaming(),
];

const Z_IMAGE: &[BenchCase] = &[
    step("z_image_1024", IMAGE_1024, z_image_step),
    step("z_image_2048", IMAGE_2048, z_image_step),
    text("qwen3_4b", |bench| {
        let published = LanguageConfig::qwen3_4b(z_image::LANGUAGE.tap);
        bench.language(&published, z_image::PROMPT.room)
    }),
];

const ANIMA: &[BenchCase] = &[step("anima_1024", IMAGE_1024, |bench| {
    bench.image_step::<AnimaTransformer>(&Default::default(), |config| {
        bench.text(T5_LENGTH, config.text_embed_dim)
    })
})];

const FLUX2: &[BenchCase] = &[
    step("klein_4b_1024", IMAGE_1024, |bench| {
        flux2_step(bench, &Flux2TransformerConfig::klein_4b())
    }),
    step("klein_9b_1024", IMAGE_1024, |bench| {
        flux2_step(bench, &Flux2TransformerConfig::klein_9b())
    }),
    text("qwen3_8b", |bench| {
        let published = LanguageConfig::qwen3_8b(flux2::LANGUAGE.tap);
        bench.language(&published, flux2::PROMPT.room)
    }),
];

const FLUX2_DEV: &[BenchCase] = &[
    step("dev_1024", IMAGE_1024, |bench| {
        flux2_step(bench, &Flux2TransformerConfig::default())
    }),
    text("mistral_small", |bench| {
        let published = LanguageConfig::mistral_small(flux2::dev::LANGUAGE.tap);
        bench.language(&published, flux2::dev::PROMPT.room)
    }),
];

const FLUX3: &[BenchCase] = &[step("flux3_klein_1024", IMAGE_1024, |bench| {
    let published = Flux3TransformerConfig {
        flow_map: true,
        ..Default::default()
    };
    bench.image_step::<Flux3Transformer>(&published, |config| {
        let tokens = flux3::PROMPT.padded(TEXT_LENGTH as usize);
        bench.text(tokens as i64, config.joint_attention_dim)
    })
})];

const KREA2: &[BenchCase] = &[
    step("krea2_1024", IMAGE_1024, |bench| {
        bench.image_step::<Krea2Transformer>(&Default::default(), |config| {
            bench.text(TEXT_LENGTH, config.num_text_layers * config.text_hidden_dim)
        })
    }),
    text("qwen3_vl_4b", |bench| {
        let published = LanguageConfig::qwen3_4b(krea2::LANGUAGE.tap);
        bench.language(&published, krea2::PROMPT.length())
    }),
];

const CHROMA: &[BenchCase] = &[step("chroma_1024", IMAGE_1024, chroma_step)];

const SDXL: &[BenchCase] = &[step("sdxl_1024", IMAGE_1024, |bench| {
    let mut config = SdxlUnetConfig::default();
    if bench.small {
        config.block_out_channels = vec![32, 64, 128];
        config.attention_head_dim = vec![1, 1, 2];
        config.transformer_layers_per_block = vec![1, 1, 2];
    }
    bench.image_step::<SdxlUnet>(&config, |config| TextEmbeds {
        pooled: Some(bench.random(&[1, config.pooled_width()], Kind::Float)),
        ..bench.text(77, config.cross_attention_dim)
    })
})];

const QWEN_IMAGE_21: &[BenchCase] = &[
    step("qwen_image_21_1024", IMAGE_1024, |bench| {
        bench.image_step::<QwenImage21Transformer>(&Default::default(), |config| {
            qwen_image_21_text(bench, config)
        })
    }),
    text("qwen3_vl_8b", |bench| {
        let published = LanguageConfig::qwen3_8b(qwen_image_21::LANGUAGE.tap);
        bench.language(&published, TEXT_LENGTH as usize)
    }),
];

const QWEN_IMAGE: &[BenchCase] = &[
    step("qwen_image_1024", IMAGE_1024, |bench| {
        bench.image_step::<QwenImageTransformer>(&Default::default(), |config| {
            bench.text(TEXT_LENGTH, config.joint_attention_dim)
        })
    }),
    text("qwen25_vl_7b", |bench| {
        let published = LanguageConfig::qwen25_vl_7b(qwen_image::LANGUAGE.tap);
        bench.language(&published, qwen_image::PROMPT.length())
    }),
];

const FLUX: &[BenchCase] = &[
    step("flux_1024", IMAGE_1024, flux_step),
    step("flux_2048", IMAGE_2048, flux_step),
    decode("vae_flux_1024", IMAGE_1024, |bench| {
        kl_decoder(bench, KlWay::Whole)
    }),
    decode("vae_flux_2048", IMAGE_2048, |bench| {
        kl_decoder(bench, KlWay::Whole)
    }),
    // As jobs decode by default.
    decode("vae_flux_1024_bands", IMAGE_1024, |bench| {
        kl_decoder(bench, KlWay::Bands(RowBands::default()))
    }),
    text("t5xxl", |it| it.t5(&T5Config::xxl(T5Kind::T5), T5_LENGTH)),
];

/// Embeddings of a prompt that starts with the reference images, each preceded by one text token.
fn qwen_image_21_text(bench: &CaseBench, config: &QwenImage21TransformerConfig) -> TextEmbeds {
    let shape = bench.image_shape(QwenImage21Transformer::LATENTS, config.latent_channels());
    let slots = shape.map_or(0, |shape| shape.tokens() / TOKENS_A_SLOT);
    let reference = Tensor::zeros([1, slots + 1], (Kind::Int64, Device::Cpu));
    drop(reference.narrow(1, 0, 1).fill_(1));
    let references = reference.repeat([1, bench.num_references()]);
    let prompt = Tensor::ones([1, TEXT_LENGTH], (Kind::Int64, Device::Cpu));
    let mask = Tensor::cat(&[references, prompt], 1);
    let text = bench.text(mask.size()[1], config.context_in_dim);
    TextEmbeds {
        mask: Some(mask),
        ..text
    }
}

fn chroma_step(bench: &CaseBench) -> BenchLine {
    let published = ChromaTransformerConfig::default();
    bench.image_step::<ChromaTransformer>(&published, |config| {
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

fn flux_step(bench: &CaseBench) -> BenchLine {
    let published = FluxTransformerConfig {
        guidance_embeds: true,
        ..FluxTransformerConfig::default()
    };
    bench.image_step::<FluxTransformer>(&published, |config| {
        let text = bench.text(T5_LENGTH, config.joint_attention_dim);
        let pooled = bench.random(&[1, config.pooled_projection_dim], bench.weights.kind());
        TextEmbeds {
            pooled: Some(pooled),
            ..text
        }
    })
}

fn flux2_step(bench: &CaseBench, published: &Flux2TransformerConfig) -> BenchLine {
    bench.image_step::<Flux2Transformer<Flux2Klein>>(published, |config| {
        bench.text(flux2::PROMPT.room as i64, config.joint_attention_dim)
    })
}

fn z_image_step(bench: &CaseBench) -> BenchLine {
    bench.image_step::<ZImageTransformer>(&Default::default(), |config| {
        bench.text(TEXT_LENGTH, config.cap_feat_dim)
    })
}

/// Widths of an autoencoder's levels.
fn widths(bench: &CaseBench) -> Vec<i64> {
    let width = if bench.small { 32 } else { 128 };
    [1, 2, 4, 4].map(|factor| factor * width).to_vec()
}

fn kl_decoder(bench: &CaseBench, way: KlWay) -> BenchLine {
    let config = KlVaeConfig {
        block_out_channels: widths(bench),
        layers_per_block: 2,
        latent_channels: 16,
        use_quant_conv: false,
        use_post_quant_conv: false,
        ..KlVaeConfig::default()
    };
    let decoder = bench.built(KlVaeDecoder::new(&config, &bench.weights))?;
    let shape = bench.image_shape(LatentForm::Tokens, config.latent_channels)?;
    let latents = bench.random(&shape.size(), bench.weights.kind());
    let way = bench.tiling(64, 1).map_or(way, KlWay::Tiles);
    bench.timed(&mut || {
        let pixels = decoder.decode(&latents, way, &|| false);
        pixels.map(|pixels| bench.keep(pixels))
    })
}

/// Rows and columns of a section's latents.
fn section_edges(bench: &CaseBench) -> [i64; 2] {
    let [width, height, _] = bench.size(SMALL_SECTION);
    [height, width].map(|edge| edge / 16 * 2)
}

fn section_step(bench: &CaseBench) -> BenchLine {
    let config = bench.config(&FramePackTransformerConfig::default())?;
    let kind = bench.weights.kind();
    let transformer = bench.built(FramePackTransformer::new(&config, &bench.weights))?;
    let text = bench.random(&[1, HUNYUAN_LENGTH, config.text_embed_dim], kind);
    let pooled = bench.random(&[1, config.pooled_projection_dim], kind);
    let image = bench.random(&[1, IMAGE_LENGTH, config.image_proj_dim], kind);
    let sections = VideoSections {
        count: 3,
        window: WINDOW,
        order: SectionOrder::Original,
        lead: 1,
    };
    let layout = layout(&sections, 1);
    let size @ [height, width] = section_edges(bench);
    let frames = |places: &[i64]| {
        let size = [1, config.in_channels, places.len() as i64, height, width];
        bench.random(&size, Kind::Float)
    };
    let history = SectionHistory {
        clean: frames(&layout.clean),
        history_2x: frames(&layout.history_2x),
        history_4x: frames(&layout.history_4x),
    };
    let section = transformer.section(&history, &layout, size);
    let context = transformer.context(&text, HUNYUAN_LENGTH, &pooled, &image, 10.0, &section);
    drop((text, pooled, image));
    let modulations = transformer.modulations(&TIMESTEPS, &context);
    let (latents, modulations) = (frames(&layout.latents), &modulations[0]);
    bench.timed_output(&mut || {
        let skip = SkipOptions::default();
        transformer.forward(&latents, modulations, &context, &section, skip, &NoHooks)
    })
}

/// Latents to pixels, on a GPU in f16 as in a job.
fn hunyuan_decoder(bench: &CaseBench) -> BenchLine {
    let config = HunyuanVaeConfig {
        block_out_channels: widths(bench),
        ..HunyuanVaeConfig::default()
    };
    let kind = match (bench.weights.kind(), bench.weights.device()) {
        (Kind::BFloat16, device) if device != Device::Cpu => Kind::Half,
        (kind, _) => kind,
    };
    let weights = bench.weights.with_kind(kind);
    let decoder = bench.built(HunyuanVaeDecoder::new(&config, &weights))?;
    let [height, width] = section_edges(bench);
    let [_, _, frames] = bench.size(SMALL_SECTION);
    let latents = bench.random(&[1, config.latent_channels, frames, height, width], kind);
    let tiling = bench.tiling(64, 1);
    bench.timed(&mut || decoder.decode(&latents, tiling, &|| false, &mut |it| bench.keep(it)))
}

/// Frames, rows and columns of a video's latents, few for a small network.
fn ltx2_latents(bench: &CaseBench) -> [i64; 3] {
    let [width, height, frames] = bench.size([96, 64, 17]);
    let space = Ltx2VaeConfig::SPATIAL_FACTOR;
    let frames = (frames - 1) / Ltx2VaeConfig::TEMPORAL_FACTOR + 1;
    [frames, height / space, width / space]
}

fn ltx2_step(bench: &CaseBench) -> BenchLine {
    let config = bench.config(&Ltx2TransformerConfig::default())?;
    let transformer = bench.built(Ltx2Transformer::new(&config, &bench.weights))?;
    let (video, [_, _, frames]) = (ltx2_latents(bench), bench.size([96, 64, 17]));
    let audio = audio_tokens(frames, LTX2_FPS);
    let device = bench.weights.device();
    let streams = config.streams().into_iter();
    let tokens = [video.iter().product(), audio];
    let latents = streams
        .clone()
        .zip(tokens)
        .map(|(stream, tokens)| bench.random(&[1, tokens, stream.channels], Kind::Float));
    let texts = streams.map(|stream| {
        let size = [1, i64::from(ltx2::TEXT_TOKENS), stream.dim];
        bench.random(&size, bench.weights.kind())
    });
    let (latents, texts): (Vec<Tensor>, Vec<Tensor>) = (latents.collect(), texts.collect());
    let inputs = Ltx2Inputs {
        latents: [&latents[0], &latents[1]],
        texts: [&texts[0], &texts[1]],
        positions: &Ltx2Positions::new(&config, video, LTX2_FPS, audio, device),
        timestep: TIMESTEPS[0],
        given: 0,
    };
    bench.timed_output(&mut || {
        let [video, _] = transformer.forward(&inputs, &NoHooks)?;
        Some(video)
    })
}

fn ltx2_decoder(bench: &CaseBench) -> BenchLine {
    let mut config = Ltx2VaeConfig::default();
    if bench.small {
        config.decoder_block_out_channels = vec![8, 16, 16, 32];
    }
    let decoder = bench.built(Ltx2VaeDecoder::new(&config, &bench.weights))?;
    let [f, h, w] = ltx2_latents(bench);
    let latents = bench.random(&[1, config.latent_channels, f, h, w], bench.weights.kind());
    bench.timed(&mut || decoder.decode(&latents, &|| false, &mut |it| bench.keep(it)))
}

/// 14B, whose image models have 36 input channels.
fn wan_14b(in_channels: i64) -> WanTransformerConfig {
    WanTransformerConfig {
        in_channels,
        ..WanTransformerConfig::default()
    }
}

/// A smaller transformer; `channels`: of its latents.
fn wan(num_attention_heads: i64, ffn_dim: i64, channels: i64) -> WanTransformerConfig {
    WanTransformerConfig {
        num_attention_heads,
        ffn_dim,
        num_layers: 30,
        out_channels: channels,
        ..wan_14b(channels)
    }
}

/// Size of a video's latents, `(1, C, f, h, w)`, few for a small network.
fn wan_latents(bench: &CaseBench, channels: i64, factor: i64) -> [i64; 5] {
    if bench.small {
        return [1, channels, 2, 4, 6];
    }
    let [width, height, frames] = bench.size([0; 3]);
    let frames = (frames - 1) / 4 + 1;
    [1, channels, frames, height / factor, width / factor]
}

fn wan_step(bench: &CaseBench, published: &WanTransformerConfig) -> BenchLine {
    let config = bench.config(published)?;
    let transformer = bench.built(WanTransformer::new(&config, &bench.weights))?;
    let text = [bench.batch(), T5_LENGTH, config.text_dim];
    let context = transformer.context(&bench.random(&text, bench.weights.kind()), None);
    let is_dense = config.in_channels == 48;
    let size = wan_latents(bench, config.in_channels, if is_dense { 16 } else { 8 });
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

/// `channels`: of latents, 16 in Wan 2.1 and 48 in Wan 2.2's 5B
fn wan_decoder(bench: &CaseBench, channels: i64) -> BenchLine {
    let config = bench.config(&WanVaeConfig::published(channels))?;
    let decoder = bench.built(WanVaeDecoder::new(&config, &bench.weights))?;
    let size = wan_latents(bench, config.z_dim, config.spatial_factor());
    let latents = bench.random(&size, bench.weights.kind());
    let tiling = bench.tiling(32, config.patch());
    bench.timed(&mut || decoder.decode(&latents, tiling, &|| false, &mut |it| bench.keep(it)))
}
