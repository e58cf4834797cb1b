//! The parts that a Wan transformer needs beside it.

use super::headers::vision_prefix;
use super::keys::TextEncoderKeys;
use super::vae_header::VaeKeys;
use super::{fits_text_encoder, fits_vae, tensors, umt5_config, vae_tensors};
use crate::catalog::configs::{ClipVisionConfig, WanTransformerConfig, WanVaeConfig};
use crate::catalog::library::Role;
use crate::catalog::wanted::{TokenizerForm, Wanted, WantedTokenizer};
use crate::catalog::{CatalogError, Component};

/// What to get where a companion is missing or wrong.
pub(super) const TEXT_ENCODER: &str =
    "umt5_xxl_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
pub(super) const IMAGE_ENCODER: &str =
    "clip_vision_h.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_16: &str = "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_48: &str = "wan2.2_vae.safetensors from Comfy-Org/Wan_2.2_ComfyUI_Repackaged";

/// The autoencoder for latents of so many channels: a noun phrase, and the file to get.
pub(super) fn vae_example(channels: u64) -> (String, &'static str) {
    match channels {
        16 => ("a Wan 2.1 VAE (z_dim 16)".to_owned(), VAE_16),
        48 => ("a Wan 2.2 VAE (z_dim 48)".to_owned(), VAE_48),
        other => (
            format!("a VAE with a z_dim of {other}"),
            "the vae folder that was published with this transformer",
        ),
    }
}

/// All of them.
pub(in crate::catalog) fn parts(transformer: &WanTransformerConfig) -> Vec<Wanted<'_>> {
    let mut parts = vec![vae(transformer), text_encoder(transformer)];
    if transformer.image_dim.is_some() {
        parts.push(image_encoder(transformer));
    }
    parts
}

fn vae(transformer: &WanTransformerConfig) -> Wanted<'_> {
    let (what, example) = vae_example(transformer.out_channels);
    Wanted {
        component: Component::Vae,
        role: Role::WanVae,
        what,
        example,
        usual: &[
            "wan_2.1_vae",
            "wan2.2_vae",
            "Wan2_1_VAE",
            "Wan2_2_VAE",
            "vae",
        ],
        word: "vae",
        is_in: |weights| VaeKeys::detect(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = WanVaeConfig::read(place)?;
            fits_vae(transformer, &cfg, place)?;
            vae_tensors::check_vae(weights, &cfg)
        }),
        tokenizer: None,
    }
}

fn text_encoder(transformer: &WanTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder,
        role: Role::Umt5,
        what: "a UMT5-XXL text encoder".to_owned(),
        example: TEXT_ENCODER,
        usual: &["umt5_xxl", "umt5-xxl-enc", "text_encoder"],
        word: "t5",
        is_in: |weights| TextEncoderKeys::detect(|key| weights.has(key)).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = umt5_config(place)?;
            fits_text_encoder(transformer, &cfg, place)?;
            tensors::check_text_encoder(weights, &cfg)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of UMT5",
            example: "the folder google/umt5-xxl of Wan-AI/Wan2.1-T2V-1.3B, or umt5_xxl_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged, which carries one",
            folders: &[
                "tokenizer",
                "google/umt5-xxl",
                "umt5-xxl",
                "tokenizers/umt5-xxl",
            ],
            bundled: None,
            form: TokenizerForm::Pieces,
            vocab_size: |place| Ok(umt5_config(place)?.vocab_size),
        }),
    }
}

fn image_encoder(transformer: &WanTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::ImageEncoder,
        role: Role::ClipVision,
        what: "a CLIP ViT-H image encoder".to_owned(),
        example: IMAGE_ENCODER,
        usual: &["clip_vision_h", "image_encoder"],
        word: "clip",
        is_in: |weights| vision_prefix(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = ClipVisionConfig::read(place)?;
            if transformer.image_dim != Some(cfg.hidden_size) {
                return Err(CatalogError::WrongCompanion {
                    what: "a CLIP ViT-H image encoder".to_owned(),
                    example: IMAGE_ENCODER,
                    found: format!("one with a hidden_size of {}", cfg.hidden_size),
                    path: place.to_owned(),
                });
            }
            tensors::check_image_encoder(weights, &cfg)
        }),
        tokenizer: None,
    }
}
