//! The parts next to a Wan transformer.

use crate::families::prelude::*;
use crate::networks::{ClipVisionConfig, T5Config, T5Keys, T5Kind, WanVaeConfig};

/// Files to get where a companion is missing or wrong.
const TEXT_ENCODER: &str = "umt5_xxl_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
pub(super) const IMAGE_ENCODER: &str =
    "clip_vision_h.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_16: &str = "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_48: &str = "wan2.2_vae.safetensors from Comfy-Org/Wan_2.2_ComfyUI_Repackaged";

/// The autoencoder for latents of a number of channels: a noun phrase, and the file to get.
fn vae_example(channels: i64) -> (String, &'static str) {
    match channels {
        16 => ("a Wan 2.1 VAE (z_dim 16)".to_owned(), VAE_16),
        48 => ("a Wan 2.2 VAE (z_dim 48)".to_owned(), VAE_48),
        other => (
            format!("a VAE with a z_dim of {other}"),
            "the vae folder that was published with this transformer",
        ),
    }
}

/// The autoencoder for latents of `expected` channels.
pub(super) fn vae(expected: i64) -> ComponentQuery<'static> {
    let (what, example) = vae_example(expected);
    ComponentQuery {
        component: ModelComponent::Vae,
        part: PartKind::WanVae,
        what: what.clone(),
        kind: "a Wan VAE",
        example,
        usual: &[
            "wan_2.1_vae",
            "wan2.2_vae",
            "Wan2_1_VAE",
            "Wan2_2_VAE",
            "vae",
        ],
        word: "vae",
        is_in: WanVaeConfig::is_in,
        fits: Box::new(move |weights, place| {
            let config = WanVaeConfig::read(place)?;
            let found = config.z_dim;
            fits_transformer(expected == found, &what, example, place, || match found {
                16 | 48 => vae_example(found).0,
                other => format!("one with a z_dim of {other}"),
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}

/// UMT5-XXL, with hidden states of `expected` numbers.
pub(super) fn umt5_xxl(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::TextEncoder,
        part: PartKind::Umt5,
        what: "a UMT5-XXL text encoder".to_owned(),
        kind: "a UMT5 text encoder",
        example: TEXT_ENCODER,
        usual: &["umt5_xxl", "umt5-xxl-enc", "text_encoder"],
        word: "t5",
        is_in: |weights| T5Keys::kind_in(weights) == Some(T5Kind::Umt5),
        fits: Box::new(move |weights, place| {
            let config = T5Config::read_as(T5Kind::Umt5, place)?;
            let what = ["a UMT5 text encoder", "d_model"];
            let widths = [expected, config.d_model];
            check_width(what, "text_dim", widths, TEXT_ENCODER, place)?;
            config.check_weights(weights)
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
            vocab_size: |place| Ok(T5Config::read_as(T5Kind::Umt5, place)?.vocab_size),
        }),
    }
}

/// CLIP ViT-H, with hidden states of `expected` numbers.
pub(super) fn image_encoder(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        component: ModelComponent::ImageEncoder,
        part: PartKind::ClipVision,
        what: "a CLIP ViT-H image encoder".to_owned(),
        kind: "a CLIP image encoder",
        example: IMAGE_ENCODER,
        usual: &["clip_vision_h", "image_encoder"],
        word: "clip",
        is_in: |weights| ClipVisionConfig::prefix(&weights.names()).is_some(),
        fits: Box::new(move |weights, place| {
            let config = ClipVisionConfig::read(place)?;
            let found = config.hidden_size;
            let fits = expected == found;
            fits_transformer(
                fits,
                "a CLIP ViT-H image encoder",
                IMAGE_ENCODER,
                place,
                || format!("one with a hidden_size of {found}"),
            )?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}
