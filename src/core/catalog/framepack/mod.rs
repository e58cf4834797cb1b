//! FramePack models (HunyuanVideo packed): which of the two it is, and whether every part fits its config and the
//! others.
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
use super::networks::llama::LlamaConfig;
use super::networks::siglip::SiglipConfig;
use super::networks::video_vae::VideoVaeConfig;
use super::networks::{clip, llama, siglip, video_vae};
use super::wanted::TokenizerForm;
use super::weights::{FileBytes, WeightSet};
use super::{
    CatalogError, Component, Family, Guidance, ImageRole, InputUse, Limits, ModelFiles, storage,
    tokenizer,
};
use crate::job::{Sampler, SectionOrder};
use config::FramePackConfig;
pub(super) use folder::{PIPELINE, check_folder};
pub(super) use single::{assemble, is_in, variant_at};

/// About twice each edge that the models were trained at.
const MAX_PIXELS: u64 = 1 << 21;
/// Places are computed, so that only sense limits an edge.
const MAX_EDGE: u32 = 4096;
/// Two minutes of 30 frames a second.
const MAX_FRAMES: u32 = 3601;
/// Pixels along an edge of one latent, and frames of one latent frame.
const VAE_FACTORS: (u32, u32) = (8, 4);
/// Latents along an edge of one token.
const PATCH: u32 = 2;
/// What the published text encoder's table has for Llama 3's own words and LLaVA's marks.
const LLAMA3_WORDS: std::ops::RangeInclusive<u64> = 128_256..=128_512;
const LLAMA3_WIDTH: u64 = 4096;

/// A component's config, from the header of its file.
pub(super) fn config_of_header(component: Component, weights: &WeightSet) -> Result<Value, String> {
    match component {
        Component::Transformer => config::config_of_header(weights),
        Component::Vae => video_vae::config_of_header(weights),
        Component::TextEncoder => llama::config_of_header(weights),
        Component::TextEncoder2 => clip::config_of_header(weights),
        Component::ImageEncoder => siglip::config_of_header(weights),
    }
}

/// All tensors that are read of a component, as its file names them.
#[cfg(test)]
pub(super) fn tensors_of(
    component: Component,
    place: &Path,
    weights: &WeightSet,
) -> Vec<(String, Vec<u64>)> {
    use super::networks::kl_vae::KlVaeKeys;

    let own = match component {
        Component::Transformer => {
            let cfg = FramePackConfig::read(place).unwrap();
            let keys = keys::FramePackTransformerKeys::detect(|key| weights.has(key)).unwrap();
            return tensors::tensors(&cfg, keys);
        }
        Component::Vae => {
            video_vae::tensors(&VideoVaeConfig::read(Family::FramePack, place).unwrap())
        }
        Component::TextEncoder => llama::tensors(&llama_config(place).unwrap()),
        Component::TextEncoder2 => clip::tensors(&clip_config(place).unwrap()),
        Component::ImageEncoder => {
            siglip::tensors(&SiglipConfig::read(Family::FramePack, place).unwrap())
        }
    };
    let file_key = |name: &str| match component {
        Component::Vae => KlVaeKeys::of_video(weights).unwrap().file_key(name),
        Component::TextEncoder => llama::LlamaKeys::of(weights).unwrap().file_key(name),
        Component::TextEncoder2 => format!("{}{name}", clip::prefix(weights).unwrap()),
        _ => format!("{}{name}", siglip::prefix(weights).unwrap()),
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
            tensors::check_transformer(weights, &FramePackConfig::read(place)?)
        }
        Component::Vae => {
            video_vae::check(weights, &VideoVaeConfig::read(Family::FramePack, place)?)
        }
        Component::TextEncoder => llama::check(weights, &llama_config(place)?),
        Component::TextEncoder2 => clip::check(weights, &clip_config(place)?),
        Component::ImageEncoder => {
            siglip::check(weights, &SiglipConfig::read(Family::FramePack, place)?)
        }
    }
}

fn clip_config(place: &Path) -> Result<ClipTextConfig, CatalogError> {
    ClipTextConfig::read(Family::FramePack, Component::TextEncoder2, place)
}

fn llama_config(place: &Path) -> Result<LlamaConfig, CatalogError> {
    LlamaConfig::read(Family::FramePack, Component::TextEncoder, place)
}

/// A part that a diffusers folder's index may leave out.
fn named<'a>(
    place: Option<&'a Path>,
    files: &ModelFiles,
    what: &str,
    example: &'static str,
) -> Result<&'a Path, CatalogError> {
    place.ok_or_else(|| CatalogError::MissingCompanion {
        what: what.to_owned(),
        example,
        looked: "model_index.json".to_owned(),
        path: files.transformer.clone(),
    })
}

/// Checks a model whose parts are known whole: each against its config, and the configs with each other.
fn check(files: &ModelFiles, order: SectionOrder) -> Result<Facts, CatalogError> {
    let schedule = files.scheduler.as_deref().map(own_schedule).transpose()?;
    let second = files.text_encoder_2.as_deref();
    let second = named(second, files, parts::CLIP_WHAT, parts::CLIP)?;
    let image_encoder = files.image_encoder.as_deref();
    let image_encoder = named(image_encoder, files, parts::SIGLIP_WHAT, parts::SIGLIP)?;
    let cfg = FramePackConfig::read(&files.transformer)?;
    let vae = VideoVaeConfig::read(Family::FramePack, &files.vae)?;
    let llama = llama_config(&files.text_encoder)?;
    let clip = clip_config(second)?;
    let siglip = SiglipConfig::read(Family::FramePack, image_encoder)?;
    fits_vae(&cfg, &vae, &files.vae)?;
    fits_llama(&cfg, &llama, &files.text_encoder)?;
    fits_clip(&cfg, &clip, second)?;
    fits_siglip(&cfg, &siglip, image_encoder)?;

    let mut bytes = FileBytes::default();
    let mut open = |place: &Path, what: &str| {
        let weights = WeightSet::at(place)?;
        storage::check(&weights, what)?;
        bytes.add(&weights);
        Ok::<_, CatalogError>(weights)
    };
    tensors::check_transformer(&open(&files.transformer, "a FramePack transformer")?, &cfg)?;
    video_vae::check(&open(&files.vae, "a HunyuanVideo VAE")?, &vae)?;
    llama::check(&open(&files.text_encoder, "a Llama text encoder")?, &llama)?;
    clip::check(&open(second, "a CLIP text encoder")?, &clip)?;
    siglip::check(&open(image_encoder, "a SigLIP image encoder")?, &siglip)?;
    check_tokenizers(files, &llama, &clip)?;

    Ok(Facts {
        family: Family::FramePack,
        variant: variant::name(order),
        shape: TransformerShape {
            heads: cfg.num_attention_heads,
            head_dim: cfg.attention_head_dim,
            layers: cfg.num_layers + cfg.num_single_layers,
            channels: cfg.in_channels,
        },
        start_image: InputUse::Required,
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        end_image: order.end_image(),
        guidance: if cfg.guidance_embeds {
            Guidance::Distilled
        } else {
            Guidance::None
        },
        section_order: Some(order),
        latent_channels: vae.latent_channels,
        limits: limits(),
        schedule,
        bytes: bytes.sum(),
    })
}

fn check_tokenizers(
    files: &ModelFiles,
    llama: &LlamaConfig,
    clip: &ClipTextConfig,
) -> Result<(), CatalogError> {
    tokenizer::check(&files.tokenizer, llama.vocab_size, TokenizerForm::Pairs)?;
    match &files.tokenizer_2 {
        Some(place) => tokenizer::check(place, clip.vocab_size, TokenizerForm::Pairs),
        None => Err(CatalogError::Missing {
            what: "the tokenizer of CLIP".to_owned(),
            path: files.text_encoder_2.clone().unwrap_or_default(),
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
    Ok(Schedule {
        sampler: Sampler::Euler,
        // Where it goes with the number of tokens, it is nobody's default.
        shift: cfg.shift.filter(|_| !cfg.use_dynamic_shifting),
    })
}

/// Whether a place holds this part of the published models.
pub(super) fn is_published_part(component: Component, place: &Path) -> bool {
    let transformer = FramePackConfig::default();
    let parts = parts::parts(&transformer);
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
}

fn wrong_part(
    what: &str,
    example: &'static str,
    found: String,
    place: &Path,
) -> Result<(), CatalogError> {
    Err(CatalogError::WrongCompanion {
        what: what.to_owned(),
        example,
        found,
        path: place.to_owned(),
    })
}

fn fits_vae(
    transformer: &FramePackConfig,
    vae: &VideoVaeConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let (expected, found) = (transformer.in_channels, vae.latent_channels);
    if found == expected {
        return Ok(());
    }
    let what = format!("a HunyuanVideo VAE of {expected} latent channels");
    wrong_part(&what, parts::VAE, format!("one of {found}"), place)
}

fn fits_llama(
    transformer: &FramePackConfig,
    llama: &LlamaConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let (expected, found) = (transformer.text_embed_dim, llama.hidden_size);
    if found != expected {
        let what = format!(
            "a Llama text encoder with a hidden_size of {expected}, the transformer's text_embed_dim"
        );
        return wrong_part(&what, parts::LLAMA, format!("one of {found}"), place);
    }
    // Other language models are as wide, and have other words.
    if expected == LLAMA3_WIDTH && !LLAMA3_WORDS.contains(&llama.vocab_size) {
        let found = format!("one with {} words", llama.vocab_size);
        let what = "a Llama 3 text encoder with 128320 words";
        return wrong_part(what, parts::LLAMA, found, place);
    }
    Ok(())
}

fn fits_clip(
    transformer: &FramePackConfig,
    clip: &ClipTextConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let (expected, found) = (transformer.pooled_projection_dim, clip.hidden_size);
    if found == expected {
        return Ok(());
    }
    let what = format!(
        "a CLIP text encoder with a hidden_size of {expected}, the transformer's pooled_projection_dim"
    );
    wrong_part(&what, parts::CLIP, format!("one of {found}"), place)
}

fn fits_siglip(
    transformer: &FramePackConfig,
    siglip: &SiglipConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let (expected, found) = (transformer.image_proj_dim, siglip.hidden_size);
    if found == expected {
        return Ok(());
    }
    let what = format!(
        "a SigLIP image encoder with a hidden_size of {expected}, the transformer's image_proj_dim"
    );
    wrong_part(&what, parts::SIGLIP, format!("one of {found}"), place)
}

fn limits() -> Limits {
    let (spatial, temporal) = VAE_FACTORS;
    Limits {
        size_multiple: spatial * PATCH,
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: temporal,
        max_frames: MAX_FRAMES,
        fixed_size: false,
        max_batch: 1,
    }
}
