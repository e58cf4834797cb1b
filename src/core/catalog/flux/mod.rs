//! Flux models: which variant it is, and whether every part fits its config and the others.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

mod config;
mod folder;
pub mod keys;
mod parts;
mod single;
mod tensors;
mod variant;

use std::path::Path;

use serde_json::Value;

use super::configs::SchedulerConfig;
use super::facts::{Facts, Schedule, TransformerShape};
use super::networks::clip::ClipTextConfig;
use super::networks::kl_vae::KlVaeConfig;
use super::networks::t5::T5Config;
use super::networks::{clip, kl_vae, t5};
use super::wanted::TokenizerForm;
use super::weights::{FileBytes, WeightSet};
use super::{CatalogError, Component, Family, InputUse, Limits, ModelFiles, storage, tokenizer};
use crate::job::Sampler;
use config::FluxTransformerConfig;
pub(super) use folder::check_folder;
pub(super) use single::{assemble, variant_at};
use variant::Variant;

/// As much as four times the size that the models were trained at.
const MAX_PIXELS: u64 = 1 << 22;
/// Places are computed, so that only sense limits an edge.
const MAX_EDGE: u32 = 8192;
/// Pictures at once; more go into several jobs.
const MAX_BATCH: u32 = 8;
/// Latents along an edge of one token.
const PATCH: u64 = 2;

/// A component's config, from the header of its file.
pub(super) fn config_of_header(component: Component, weights: &WeightSet) -> Result<Value, String> {
    match component {
        Component::Transformer => config::config_of_header(weights),
        Component::Vae => kl_vae::config_of_header(weights),
        Component::TextEncoder => clip::config_of_header(weights),
        Component::TextEncoder2 => t5::config_of_header(weights),
        Component::ImageEncoder => Err("a Flux model has no image encoder".to_owned()),
    }
}

/// All tensors that are read of a component, as its file names them.
#[cfg(test)]
pub(super) fn tensors_of(
    component: Component,
    place: &Path,
    weights: &WeightSet,
) -> Vec<(String, Vec<u64>)> {
    let own = match component {
        Component::Transformer => {
            let cfg = FluxTransformerConfig::read(place).unwrap();
            let keys = keys::FluxTransformerKeys::detect(|key| weights.has(key)).unwrap();
            return tensors::tensors(&cfg, keys);
        }
        Component::Vae => kl_vae::tensors(&KlVaeConfig::read(Family::Flux, place).unwrap()),
        Component::TextEncoder => clip::tensors(&clip_config(place).unwrap()),
        Component::TextEncoder2 => t5::tensors(&t5_config(place).unwrap(), t5::Tables::First),
        Component::ImageEncoder => Vec::new(),
    };
    let file_key = |name: &str| match component {
        Component::Vae => kl_vae::KlVaeKeys::of(weights).unwrap().file_key(name),
        Component::TextEncoder => format!("{}{name}", clip::prefix(weights).unwrap()),
        _ => t5::T5Keys::of(weights).unwrap().file_key(name),
    };
    own.into_iter()
        .map(|(name, shape)| (file_key(&name), shape))
        .collect()
}

/// Checks one component alone.
#[cfg(test)]
pub(super) fn check_part(
    component: Component,
    place: &Path,
    weights: &WeightSet,
) -> Result<(), CatalogError> {
    match component {
        Component::Transformer => {
            tensors::check_transformer(weights, &FluxTransformerConfig::read(place)?)
        }
        Component::Vae => kl_vae::check(weights, &KlVaeConfig::read(Family::Flux, place)?),
        Component::TextEncoder => clip::check(weights, &clip_config(place)?),
        Component::TextEncoder2 => check_t5(weights, &t5_config(place)?),
        Component::ImageEncoder => Ok(()),
    }
}

/// The configs of all components with weights.
struct Configs {
    transformer: FluxTransformerConfig,
    vae: KlVaeConfig,
    clip: ClipTextConfig,
    t5: T5Config,
}

impl Configs {
    fn read(files: &ModelFiles) -> Result<Self, CatalogError> {
        Ok(Self {
            transformer: FluxTransformerConfig::read(&files.transformer)?,
            vae: KlVaeConfig::read(Family::Flux, &files.vae)?,
            clip: clip_config(&files.text_encoder)?,
            t5: t5_config(second_encoder(files)?)?,
        })
    }
}

fn clip_config(place: &Path) -> Result<ClipTextConfig, CatalogError> {
    ClipTextConfig::read(Family::Flux, Component::TextEncoder, place)
}

fn t5_config(place: &Path) -> Result<T5Config, CatalogError> {
    let cfg = T5Config::read(Family::Flux, Component::TextEncoder2, place)?;
    match cfg.objection("t5") {
        None => Ok(cfg),
        Some(reason) => Err(wrong_config(reason, place)),
    }
}

fn second_encoder(files: &ModelFiles) -> Result<&Path, CatalogError> {
    let missing = || CatalogError::MissingCompanion {
        what: parts::T5_WHAT.to_owned(),
        example: parts::T5,
        looked: "model_index.json".to_owned(),
        path: files.transformer.clone(),
    };
    files.text_encoder_2.as_deref().ok_or_else(missing)
}

/// Checks a model whose parts are known whole: each against its config, and the configs with each other.
fn check(files: &ModelFiles, variant: Variant) -> Result<Facts, CatalogError> {
    let schedule = files.scheduler.as_deref().map(own_schedule).transpose()?;
    let configs = Configs::read(files)?;
    let cfg = &configs.transformer;
    fits_vae(cfg, &configs.vae, &files.vae)?;
    fits_clip(cfg, &configs.clip, &files.text_encoder)?;
    let second = second_encoder(files)?;
    fits_t5(cfg, &configs.t5, second)?;

    let mut bytes = FileBytes::default();
    let mut open = |place: &Path, what: &str| {
        let weights = WeightSet::at(place)?;
        storage::check(&weights, what)?;
        bytes.add(&weights);
        Ok::<_, CatalogError>(weights)
    };
    tensors::check_transformer(&open(&files.transformer, "a Flux transformer")?, cfg)?;
    kl_vae::check(&open(&files.vae, "a Flux VAE")?, &configs.vae)?;
    clip::check(
        &open(&files.text_encoder, "a CLIP text encoder")?,
        &configs.clip,
    )?;
    let weights = open(second, "a T5 text encoder")?;
    check_t5(&weights, &configs.t5)?;
    check_tokenizers(files, &configs)?;

    Ok(Facts {
        family: Family::Flux,
        variant: variant.name(),
        shape: TransformerShape {
            heads: cfg.num_attention_heads,
            head_dim: cfg.attention_head_dim,
            layers: cfg.num_layers + cfg.num_single_layers,
            channels: cfg.in_channels,
        },
        start_image: variant.start_image(),
        image_role: variant.image_role(),
        mask: variant.mask(),
        end_image: InputUse::No,
        guidance: variant.guidance(),
        section_order: None,
        latent_channels: configs.vae.latent_channels,
        limits: limits(&configs.vae),
        schedule,
        bytes: bytes.sum(),
    })
}

fn check_t5(weights: &WeightSet, cfg: &T5Config) -> Result<(), CatalogError> {
    let keys = t5::T5Keys::of(weights);
    t5::check(weights, cfg, t5::Tables::First, |name| match &keys {
        Some(keys) => keys.file_key(name),
        None => name.to_owned(),
    })
}

fn check_tokenizers(files: &ModelFiles, configs: &Configs) -> Result<(), CatalogError> {
    tokenizer::check(
        &files.tokenizer,
        configs.clip.vocab_size,
        TokenizerForm::Pairs,
    )?;
    match &files.tokenizer_2 {
        Some(place) => tokenizer::check(place, configs.t5.vocab_size, TokenizerForm::Pieces),
        None => Err(CatalogError::Missing {
            what: "the tokenizer of T5".to_owned(),
            path: second_encoder(files)?.to_owned(),
        }),
    }
}

fn own_schedule(folder: &Path) -> Result<Schedule, CatalogError> {
    let cfg = SchedulerConfig::read(folder)?;
    if cfg.class != "FlowMatchEulerDiscreteScheduler" {
        return Err(CatalogError::Config {
            reason: format!(
                "expected the scheduler FlowMatchEulerDiscreteScheduler, found '{}'",
                cfg.class
            ),
            path: folder.join("scheduler_config.json"),
        });
    }
    // The shift goes with the size of a picture, so it is nobody's default.
    Ok(Schedule {
        sampler: Sampler::Euler,
        shift: None,
    })
}

/// Whether a place holds this part of the published models.
pub(super) fn is_published_part(component: Component, place: &Path) -> bool {
    let transformer = FluxTransformerConfig::default();
    let parts = parts::parts(&transformer);
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
}

/// Whether an autoencoder is the one that a transformer was trained with, by its channels.
fn fits_vae(
    transformer: &FluxTransformerConfig,
    vae: &KlVaeConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let expected = transformer.latent_channels();
    if vae.latent_channels == expected {
        return Ok(());
    }
    Err(CatalogError::WrongCompanion {
        what: parts::vae_what(expected),
        example: parts::VAE,
        found: format!("one with {} latent channels", vae.latent_channels),
        path: place.to_owned(),
    })
}

fn fits_clip(
    transformer: &FluxTransformerConfig,
    clip: &ClipTextConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let expected = transformer.pooled_projection_dim;
    if clip.hidden_size == expected {
        return Ok(());
    }
    Err(CatalogError::WrongCompanion {
        what: format!(
            "a CLIP text encoder with a hidden_size of {expected}, the transformer's pooled_projection_dim"
        ),
        example: parts::CLIP,
        found: format!("one of {}", clip.hidden_size),
        path: place.to_owned(),
    })
}

fn fits_t5(
    transformer: &FluxTransformerConfig,
    t5: &T5Config,
    place: &Path,
) -> Result<(), CatalogError> {
    let expected = transformer.joint_attention_dim;
    if t5.d_model == expected {
        return Ok(());
    }
    Err(CatalogError::WrongCompanion {
        what: format!(
            "a T5 text encoder with a d_model of {expected}, the transformer's joint_attention_dim"
        ),
        example: parts::T5,
        found: format!("one of {}", t5.d_model),
        path: place.to_owned(),
    })
}

fn wrong_config(reason: String, place: &Path) -> CatalogError {
    let path = if place.is_dir() {
        place.join("config.json")
    } else {
        place.to_owned()
    };
    CatalogError::Config { reason, path }
}

fn limits(vae: &KlVaeConfig) -> Limits {
    let size_multiple = vae.spatial_factor() * PATCH;
    Limits {
        size_multiple: u32::try_from(size_multiple).unwrap_or(u32::MAX),
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: 1,
        max_frames: 1,
        fixed_size: false,
        max_batch: MAX_BATCH,
    }
}
