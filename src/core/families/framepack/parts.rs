//! Parts next to a FramePack transformer that no other family needs, and the recognition of the right ones.

use super::LANGUAGE;
use crate::families::prelude::*;
use crate::networks::{HunyuanVaeConfig, LanguageKeys, SiglipConfig};

/// Files to get where a companion is missing or wrong.
const VAE: &str = "hunyuan_video_vae_bf16.safetensors from Comfy-Org/HunyuanVideo_repackaged";
const LLAMA: &str = "llava_llama3_fp8_scaled.safetensors from Comfy-Org/HunyuanVideo_repackaged";
const SIGLIP: &str = "sigclip_vision_patch14_384.safetensors from Comfy-Org/sigclip_vision_384";

/// Rows of the published text encoder's table: Llama 3's words and LLaVA's marks.
const LLAMA3_WORDS: std::ops::RangeInclusive<i64> = 128_256..=128_512;
const LLAMA3_WIDTH: i64 = 4096;

/// HunyuanVideo's autoencoder, for latents of `expected` channels.
pub(super) fn vae(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::Vae,
        part: PartKind::VideoVae,
        what: "a HunyuanVideo VAE".to_owned(),
        kind: "a HunyuanVideo VAE",
        example: VAE,
        usual: &[
            "hunyuan_video_vae_bf16",
            "hunyuan_video_vae_fp32",
            "hunyuan_video_vae",
            "vae",
        ],
        word: "vae",
        is_in: HunyuanVaeConfig::is_in,
        fits: Box::new(move |weights, place| {
            let config = HunyuanVaeConfig::read(place)?;
            let found = config.latent_channels;
            let what = format!("a HunyuanVideo VAE of {expected} latent channels");
            fits_transformer(expected == found, &what, VAE, place, || {
                format!("one of {found}")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}

/// LLaVA's Llama 3, with hidden states of `expected` numbers.
pub(super) fn llava_llama3(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::TextEncoder,
        part: PartKind::Llama,
        what: "a Llama 3 text encoder (LLaVA's)".to_owned(),
        kind: "a Llama text encoder",
        example: LLAMA,
        usual: &[
            "llava_llama3_fp16",
            "llava_llama3_bf16",
            "llava_llama3_fp8_scaled",
            "llava_llama3",
            "text_encoder",
        ],
        word: "llama",
        is_in: |weights| {
            let found = LanguageKeys::of(&weights.names());
            found.is_some_and(|keys| keys.kind == LANGUAGE.kind)
        },
        fits: Box::new(move |weights, place| {
            let config = LANGUAGE.read(place)?;
            let what = ["a Llama text encoder", "hidden_size"];
            let widths = [expected, config.hidden_size];
            check_width(what, "text_embed_dim", widths, LLAMA, place)?;
            // Other language models are as wide, and have other words.
            let words = config.vocab_size;
            let has_words = expected != LLAMA3_WIDTH || LLAMA3_WORDS.contains(&words);
            let what = "a Llama 3 text encoder with 128320 words";
            fits_transformer(has_words, what, LLAMA, place, || {
                format!("one with {words} words")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of Llama 3",
            example: "the folder tokenizer from hunyuanvideo-community/HunyuanVideo",
            folders: &[
                "tokenizer",
                "llama-3",
                "llama3",
                "llava-llama-3-8b-text-encoder-tokenizer",
                "tokenizers/llama-3",
            ],
            bundled: Some("llama-3"),
            form: TokenizerForm::Pairs,
            vocab_size: |place| Ok(LANGUAGE.read(place)?.vocab_size),
        }),
    }
}

/// SigLIP, with embeddings of `expected` numbers.
pub(super) fn siglip_384(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::ImageEncoder,
        part: PartKind::Siglip,
        what: "a SigLIP image encoder".to_owned(),
        kind: "a SigLIP image encoder",
        example: SIGLIP,
        usual: &["sigclip_vision_patch14_384", "image_encoder"],
        word: "sig",
        is_in: |weights| SiglipConfig::prefix(&weights.names()).is_some(),
        fits: Box::new(move |weights, place| {
            let config = SiglipConfig::read(place)?;
            let what = ["a SigLIP image encoder", "hidden_size"];
            let widths = [expected, config.hidden_size];
            check_width(what, "image_proj_dim", widths, SIGLIP, place)?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}
