//! The parts that a FramePack transformer needs beside it: which autoencoder, text encoders and image encoder, and how
//! to tell the right ones.

use crate::library::Role;
use crate::library::companions::wanted::{
    TokenizerForm, Wanted, WantedTokenizer, fits_transformer,
};
use crate::model::Component;
use crate::networks::{
    ClipTextConfig, FramePackTransformerConfig, HunyuanVaeConfig, LlamaConfig, LlamaKeys,
    NetworkConfig as _, SiglipConfig, clip_text, siglip,
};

/// What to get where a companion is missing or wrong.
const VAE: &str = "hunyuan_video_vae_bf16.safetensors from Comfy-Org/HunyuanVideo_repackaged";
const LLAMA: &str = "llava_llama3_fp8_scaled.safetensors from Comfy-Org/HunyuanVideo_repackaged";
const CLIP: &str = "clip_l.safetensors from comfyanonymous/flux_text_encoders";
const SIGLIP: &str = "sigclip_vision_patch14_384.safetensors from Comfy-Org/sigclip_vision_384";

/// What the published text encoder's table has for Llama 3's own words and LLaVA's marks.
const LLAMA3_WORDS: std::ops::RangeInclusive<i64> = 128_256..=128_512;
const LLAMA3_WIDTH: i64 = 4096;

/// All of them.
pub(super) fn parts(transformer: &FramePackTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        vae(transformer),
        llava_llama3(transformer),
        clip_l(transformer),
        siglip_384(transformer),
    ]
}

fn vae(transformer: &FramePackTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::Vae,
        role: Role::VideoVae,
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
        fits: Box::new(|weights, place| {
            let config = HunyuanVaeConfig::read(place)?;
            let (expected, found) = (transformer.in_channels, config.latent_channels);
            let what = format!("a HunyuanVideo VAE of {expected} latent channels");
            fits_transformer(expected == found, &what, VAE, place, || {
                format!("one of {found}")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}

fn llava_llama3(transformer: &FramePackTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder,
        role: Role::Llama,
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
        is_in: |weights| LlamaKeys::of(&weights.names()).is_some(),
        fits: Box::new(|weights, place| {
            let config = LlamaConfig::read(place)?;
            let (expected, found) = (transformer.text_embed_dim, config.hidden_size);
            let what = format!(
                "a Llama text encoder with a hidden_size of {expected}, the transformer's text_embed_dim"
            );
            fits_transformer(expected == found, &what, LLAMA, place, || {
                format!("one of {found}")
            })?;
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
            vocab_size: |place| Ok(LlamaConfig::read(place)?.vocab_size),
        }),
    }
}

fn clip_l(transformer: &FramePackTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder2,
        role: Role::Clip,
        what: "a CLIP-L text encoder".to_owned(),
        kind: "a CLIP text encoder",
        example: CLIP,
        usual: &["clip_l", "text_encoder_2"],
        word: "clip",
        is_in: |weights| clip_text::prefix(&weights.names()).is_some(),
        fits: Box::new(|weights, place| {
            let config = ClipTextConfig::read(place)?;
            let (expected, found) = (transformer.pooled_projection_dim, config.hidden_size);
            let what = format!(
                "a CLIP text encoder with a hidden_size of {expected}, the transformer's pooled_projection_dim"
            );
            fits_transformer(expected == found, &what, CLIP, place, || {
                format!("one of {found}")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of CLIP",
            example: "the folder tokenizer_2 that was published with this text encoder",
            folders: &[
                "tokenizer_2",
                "clip-l",
                "clip-vit-large-patch14",
                "tokenizers/clip-l",
            ],
            bundled: Some("clip-l"),
            form: TokenizerForm::Pairs,
            vocab_size: |place| Ok(ClipTextConfig::read(place)?.vocab_size),
        }),
    }
}

fn siglip_384(transformer: &FramePackTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::ImageEncoder,
        role: Role::Siglip,
        what: "a SigLIP image encoder".to_owned(),
        kind: "a SigLIP image encoder",
        example: SIGLIP,
        usual: &["sigclip_vision_patch14_384", "image_encoder"],
        word: "sig",
        is_in: |weights| siglip::prefix(&weights.names()).is_some(),
        fits: Box::new(|weights, place| {
            let config = SiglipConfig::read(place)?;
            let (expected, found) = (transformer.image_proj_dim, config.hidden_size);
            let what = format!(
                "a SigLIP image encoder with a hidden_size of {expected}, the transformer's image_proj_dim"
            );
            fits_transformer(expected == found, &what, SIGLIP, place, || {
                format!("one of {found}")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}
