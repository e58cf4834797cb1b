//! The parts that a Wan transformer needs beside it: what to ask for, how to tell the right one, and which
//! file to get.

use std::path::Path;

use super::headers::vision_prefix;
use super::keys::TextEncoderKeys;
use super::vae_header::VaeKeys;
use super::{fits_text_encoder, fits_vae, tensors, vae_tensors};
use crate::catalog::configs::{ClipVisionConfig, Umt5Config, WanTransformerConfig, WanVaeConfig};
use crate::catalog::library::Role;
use crate::catalog::weights::{WeightSet, is_index, is_pickle, pickle_instead};
use crate::catalog::{CatalogError, kind, storage};

/// What to get where a companion is missing or wrong.
pub(super) const TEXT_ENCODER: &str =
    "umt5_xxl_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
pub(super) const IMAGE_ENCODER: &str =
    "clip_vision_h.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_16: &str = "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged";
const VAE_48: &str = "wan2.2_vae.safetensors from Comfy-Org/Wan_2.2_ComfyUI_Repackaged";

/// One part.
pub(in crate::catalog) struct Wanted {
    pub role: Role,
    /// A noun phrase for people.
    pub what: String,
    /// The file to get, and from where.
    pub example: &'static str,
    /// The names that publishers give it, best first.
    pub usual: &'static [&'static str],
}

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

impl Wanted {
    pub fn vae(transformer: &WanTransformerConfig) -> Self {
        let (what, example) = vae_example(transformer.out_channels);
        Self {
            role: Role::Vae,
            what,
            example,
            usual: &[
                "wan_2.1_vae",
                "wan2.2_vae",
                "Wan2_1_VAE",
                "Wan2_2_VAE",
                "vae",
            ],
        }
    }

    pub fn text_encoder() -> Self {
        Self {
            role: Role::TextEncoder,
            what: "a UMT5-XXL text encoder".to_owned(),
            example: TEXT_ENCODER,
            usual: &["umt5_xxl", "umt5-xxl-enc", "text_encoder"],
        }
    }

    pub fn image_encoder() -> Self {
        Self {
            role: Role::ImageEncoder,
            what: "a CLIP ViT-H image encoder".to_owned(),
            example: IMAGE_ENCODER,
            usual: &["clip_vision_h", "image_encoder"],
        }
    }

    /// Whether a pickle of this name is likely this part.
    pub fn is_named_in(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        match self.role {
            Role::Vae => name.contains("vae"),
            Role::TextEncoder => name.contains("t5"),
            Role::ImageEncoder => name.contains("clip"),
            Role::Transformer | Role::Foreign => false,
        }
    }

    /// Whether what lies at a place is this part, whole, for this transformer.
    pub fn check(
        &self,
        place: &Path,
        transformer: &WanTransformerConfig,
    ) -> Result<(), CatalogError> {
        if is_pickle(place) {
            return Err(pickle_instead(place, self.example));
        }
        let weights = match WeightSet::at(place) {
            Err(CatalogError::Pickle { path, .. }) => {
                return Err(pickle_instead(&path, self.example));
            }
            other => other?,
        };
        if let Some(storage) = storage::unreadable(&weights) {
            let found = format!("one stored as {storage}, which this version cannot run yet");
            return Err(self.wrong(&found, place));
        }
        if !self.is_of_kind(&weights) {
            return Err(self.wrong(&kind::of_tensors(&weights).text, place));
        }
        match self.role {
            Role::Vae => {
                let cfg = WanVaeConfig::read(place)?;
                fits_vae(transformer, &cfg, place)?;
                vae_tensors::check_vae(&weights, &cfg)
            }
            Role::TextEncoder => {
                let cfg = Umt5Config::read(place)?;
                fits_text_encoder(transformer, &cfg, place)?;
                tensors::check_text_encoder(&weights, &cfg)
            }
            Role::ImageEncoder => {
                let cfg = ClipVisionConfig::read(place)?;
                if transformer.image_dim != Some(cfg.hidden_size) {
                    let found = format!("one with a hidden_size of {}", cfg.hidden_size);
                    return Err(self.wrong(&found, place));
                }
                tensors::check_image_encoder(&weights, &cfg)
            }
            Role::Transformer | Role::Foreign => Ok(()),
        }
    }

    fn is_of_kind(&self, weights: &WeightSet) -> bool {
        match self.role {
            Role::Vae => VaeKeys::detect(weights).is_some(),
            Role::TextEncoder => TextEncoderKeys::detect(|key| weights.has(key)).is_some(),
            Role::ImageEncoder => vision_prefix(weights).is_some(),
            Role::Transformer | Role::Foreign => false,
        }
    }

    fn wrong(&self, found: &str, place: &Path) -> CatalogError {
        CatalogError::WrongCompanion {
            what: self.what.clone(),
            example: self.example,
            found: found.to_owned(),
            path: if is_index(place) {
                place.parent().unwrap_or(place).to_owned()
            } else {
                place.to_owned()
            },
        }
    }
}
