//! The parts that a Flux transformer needs beside it.

use super::config::FluxTransformerConfig;
use super::{check_t5, clip_config, fits_clip, fits_t5, fits_vae, t5_config};
use crate::catalog::library::Role;
use crate::catalog::networks::kl_vae::KlVaeConfig;
use crate::catalog::networks::{clip, kl_vae, t5};
use crate::catalog::wanted::{TokenizerForm, Wanted, WantedTokenizer};
use crate::catalog::{Component, Family};

/// What to get where a companion is missing or wrong.
pub(super) const VAE: &str = "ae.safetensors from black-forest-labs/FLUX.1-schnell";
pub(super) const CLIP: &str = "clip_l.safetensors from comfyanonymous/flux_text_encoders";
pub(super) const T5: &str = "t5xxl_fp16.safetensors from comfyanonymous/flux_text_encoders";
pub(super) const T5_WHAT: &str = "a T5-XXL text encoder";

pub(super) fn vae_what(channels: u64) -> String {
    format!("a Flux VAE ({channels} latent channels)")
}

/// All of them.
pub(super) fn parts(transformer: &FluxTransformerConfig) -> Vec<Wanted<'_>> {
    vec![vae(transformer), clip_l(transformer), t5_xxl(transformer)]
}

fn vae(transformer: &FluxTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::Vae,
        role: Role::KlVae,
        what: vae_what(transformer.latent_channels()),
        example: VAE,
        usual: &["ae", "flux_vae", "flux_ae", "vae"],
        word: "ae",
        is_in: kl_vae::is_in,
        fits: Box::new(|weights, place| {
            let cfg = KlVaeConfig::read(Family::Flux, place)?;
            fits_vae(transformer, &cfg, place)?;
            kl_vae::check(weights, &cfg)
        }),
        tokenizer: None,
    }
}

fn clip_l(transformer: &FluxTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder,
        role: Role::Clip,
        what: "a CLIP-L text encoder".to_owned(),
        example: CLIP,
        usual: &["clip_l", "text_encoder"],
        word: "clip",
        is_in: |weights| clip::prefix(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = clip_config(place)?;
            fits_clip(transformer, &cfg, place)?;
            clip::check(weights, &cfg)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of CLIP",
            example: "the folder tokenizer that was published with this text encoder",
            folders: &[
                "tokenizer",
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

fn t5_xxl(transformer: &FluxTransformerConfig) -> Wanted<'_> {
    Wanted {
        component: Component::TextEncoder2,
        role: Role::T5,
        what: T5_WHAT.to_owned(),
        example: T5,
        usual: &[
            "t5xxl",
            "t5-v1_1-xxl",
            "google_t5-v1_1-xxl_encoderonly",
            "text_encoder_2",
        ],
        word: "t5",
        is_in: |weights| t5::T5Keys::of(weights).is_some(),
        fits: Box::new(|weights, place| {
            let cfg = t5_config(place)?;
            fits_t5(transformer, &cfg, place)?;
            check_t5(weights, &cfg)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of T5",
            example: "the folder tokenizer_2 that was published with this text encoder",
            folders: &[
                "tokenizer_2",
                "tokenizer_3",
                "tokenizer",
                "t5-xxl",
                "google/t5-v1_1-xxl",
                "tokenizers/t5-xxl",
            ],
            bundled: Some("t5-xxl"),
            form: TokenizerForm::Pieces,
            vocab_size: |place| Ok(t5_config(place)?.vocab_size),
        }),
    }
}
