//! The parts that a FramePack transformer needs beside it: which autoencoder, text encoders and image encoder, and how
//! to tell the right ones.

use super::config::FramePackConfig;
use super::{clip_config, fits_clip, fits_llama, fits_siglip, fits_vae, llama_config};
use crate::catalog::library::Role;
use crate::catalog::networks::llama::LlamaKeys;
use crate::catalog::networks::siglip::SiglipConfig;
use crate::catalog::networks::video_vae::VideoVaeConfig;
use crate::catalog::networks::{clip, llama, siglip, video_vae};
use crate::catalog::wanted::{TokenizerForm, Wanted, WantedTokenizer};
use crate::catalog::{Component, Family};

/// What to get where a companion is missing or wrong.
pub(super) const VAE: &str =
    "hunyuan_video_vae_bf16.safetensors from Comfy-Org/HunyuanVideo_repackaged";
pub(super) const LLAMA: &str =
    "llava_llama3_fp8_scaled.safetensors from Comfy-Org/HunyuanVideo_repackaged";
pub(super) const CLIP: &str = "clip_l.safetensors from comfyanonymous/flux_text_encoders";
pub(super) const CLIP_WHAT: &str = "a CLIP-L text encoder";
pub(super) const SIGLIP: &str =
    "sigclip_vision_patch14_384.safetensors from Comfy-Org/sigclip_vision_384";
pub(super) const SIGLIP_WHAT: &str = "a SigLIP image encoder";

/// All of them.
pub(super) fn parts(transformer: &FramePackConfig) -> Vec<Wanted<'_>> {
    vec![
        vae(transformer),
        llava_llama3(transformer),
        clip_l(transformer),
        siglip_384(transformer),
    ]
}

fn vae(transformer: &FramePackConfig) -> Wanted<'_> {
    Wanted {
        component: Component::Vae,
        role: Role::VideoVae,
        what: "a HunyuanVideo VAE".to_owned(),
        example: VAE,
        usual: &[
            "hunyuan_video_vae_bf16",
            "hunyuan_video_vae_fp32",
            "hunyuan_video_vae",
            "vae",
        ],
        word: "vae",
        is_in: video_vae::is_in,
        fits: Box::new(|weights, place| {
            let cfg = VideoVaeConfig::read(Family::FramePack, place)?;
            fits_vae(transformer, &cfg, place)?;
            video_vae::check(weights, &cfg)
        }),
        tokenizer: None,
    }
}

fn llava_llama3(transformer: &FramePackConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder,
        role: Role::Llama,
        what: "a Llama 3 text encoder (LLaVA's)".to_owned(),
        example: LLAMA,
        usual: &[
            "llava_llama3_fp16",
            "llava_llama3_bf16",
            "llava_llama3_fp8_scaled",
            "llava_llama3",
            "text_encoder",
        ],
        word: "llama",
        is_in: |weights| LlamaKeys::of(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = llama_config(place)?;
            fits_llama(transformer, &cfg, place)?;
            llama::check(weights, &cfg)
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
            vocab_size: |place| Ok(llama_config(place)?.vocab_size),
        }),
    }
}

fn clip_l(transformer: &FramePackConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder2,
        role: Role::Clip,
        what: CLIP_WHAT.to_owned(),
        example: CLIP,
        usual: &["clip_l", "text_encoder_2"],
        word: "clip",
        is_in: |weights| clip::prefix(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = clip_config(place)?;
            fits_clip(transformer, &cfg, place)?;
            clip::check(weights, &cfg)
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
            vocab_size: |place| Ok(clip_config(place)?.vocab_size),
        }),
    }
}

fn siglip_384(transformer: &FramePackConfig) -> Wanted<'_> {
    Wanted {
        component: Component::ImageEncoder,
        role: Role::Siglip,
        what: SIGLIP_WHAT.to_owned(),
        example: SIGLIP,
        usual: &["sigclip_vision_patch14_384", "image_encoder"],
        word: "sig",
        is_in: |weights| siglip::prefix(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = SiglipConfig::read(Family::FramePack, place)?;
            fits_siglip(transformer, &cfg, place)?;
            siglip::check(weights, &cfg)
        }),
        tokenizer: None,
    }
}
