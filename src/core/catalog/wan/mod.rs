//! Wan models: which variant it is, and whether every part fits its config and the others.
//!
//! Looks at configs and headers only. Where the parts lie is decided before; defaults and names are not
//! its business.

mod folder;
mod headers;
pub mod keys;
mod pairs;
mod parts;
mod single;
mod tensors;
mod vae_header;
mod vae_tensors;
mod variant;

use std::path::Path;

use serde_json::Value;

use super::configs::{ClipVisionConfig, SchedulerConfig, WanTransformerConfig, WanVaeConfig};
use super::facts::{Facts, Schedule, TransformerShape};
use super::networks::t5::T5Config;
use super::wanted::TokenizerForm;
use super::weights::{FileBytes, WeightSet};
use super::{
    CatalogError, Component, Family, Guidance, ImageRole, InputUse, Limits, ModelFiles, storage,
    tokenizer,
};
use crate::job::Sampler;
pub(super) use folder::check_folder;
pub(super) use pairs::{are_experts, assemble};
use parts::parts;
pub(super) use single::variant_at;
use variant::Variant;

const MAX_PIXELS: u64 = 1 << 24;
const MAX_FRAMES: u64 = 1025;

/// Checks an autoencoder alone.
#[cfg(test)]
pub(super) fn check_vae(weights: &WeightSet, config: &Path) -> Result<(), CatalogError> {
    vae_tensors::check_vae(weights, &WanVaeConfig::read(config)?)
}

fn shape_of(cfg: &WanTransformerConfig) -> TransformerShape {
    TransformerShape {
        heads: cfg.num_attention_heads,
        head_dim: cfg.attention_head_dim,
        layers: cfg.num_layers,
        channels: cfg.in_channels,
    }
}

/// A component's config, from the header of its file. `num_heads` is what the authors' config says.
pub(super) fn config_of_header(
    component: Component,
    weights: &WeightSet,
    num_heads: Option<u64>,
) -> Result<Value, String> {
    match component {
        Component::Transformer => headers::transformer_config(weights, num_heads),
        Component::Vae => vae_header::vae_config(weights),
        Component::TextEncoder => headers::text_encoder_config(weights),
        Component::ImageEncoder => headers::image_encoder_config(weights),
        Component::TextEncoder2 => Err("a Wan model has no second text encoder".to_owned()),
    }
}

/// The configs of all components with weights.
struct Configs {
    transformer: WanTransformerConfig,
    transformer_2: Option<WanTransformerConfig>,
    vae: WanVaeConfig,
    text: T5Config,
    image: Option<ClipVisionConfig>,
}

impl Configs {
    fn read(files: &ModelFiles) -> Result<Self, CatalogError> {
        let second = files.transformer_2.as_deref();
        let image = files.image_encoder.as_deref();
        Ok(Self {
            transformer: WanTransformerConfig::read(&files.transformer)?,
            transformer_2: second.map(WanTransformerConfig::read).transpose()?,
            vae: WanVaeConfig::read(&files.vae)?,
            text: umt5_config(&files.text_encoder)?,
            image: image.map(ClipVisionConfig::read).transpose()?,
        })
    }
}

fn umt5_config(place: &Path) -> Result<T5Config, CatalogError> {
    T5Config::read(Family::Wan, Component::TextEncoder, place)
}

/// Checks a model whose parts are known whole: each against its config, and the configs with each other.
fn check(files: &ModelFiles, variant: Variant) -> Result<Facts, CatalogError> {
    let schedule = files.scheduler.as_deref().map(own_schedule).transpose()?;
    let configs = Configs::read(files)?;
    check_agreement(files, variant, &configs)?;

    let mut bytes = FileBytes::default();
    let mut open = |place: &Path, what: &str| {
        let weights = WeightSet::at(place)?;
        storage::check(&weights, what)?;
        bytes.add(&weights);
        Ok::<_, CatalogError>(weights)
    };
    let weights = open(&files.transformer, "a Wan transformer")?;
    tensors::check_transformer(&weights, &configs.transformer)?;
    if let (Some(place), Some(cfg)) = (&files.transformer_2, &configs.transformer_2) {
        tensors::check_transformer(&open(place, "a Wan transformer")?, cfg)?;
    }
    vae_tensors::check_vae(&open(&files.vae, "a Wan VAE")?, &configs.vae)?;
    let weights = open(&files.text_encoder, "a UMT5 text encoder")?;
    tensors::check_text_encoder(&weights, &configs.text)?;
    if let (Some(place), Some(cfg)) = (&files.image_encoder, &configs.image) {
        tensors::check_image_encoder(&open(place, "a CLIP image encoder")?, cfg)?;
    }
    let vocab_size = configs.text.vocab_size;
    tokenizer::check(&files.tokenizer, vocab_size, TokenizerForm::Pieces)?;

    Ok(Facts {
        family: Family::Wan,
        variant: variant.name(),
        shape: shape_of(&configs.transformer),
        start_image: variant.start_image(),
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        end_image: variant.end_image(files.image_encoder.is_some()),
        guidance: Guidance::Cfg,
        section_order: None,
        latent_channels: configs.vae.z_dim,
        limits: limits(&configs.transformer, &configs.vae),
        schedule,
        bytes: bytes.sum(),
    })
}

fn own_schedule(folder: &Path) -> Result<Schedule, CatalogError> {
    let cfg = SchedulerConfig::read(folder)?;
    let wrong = |reason: String| CatalogError::Config {
        reason,
        path: folder.join("scheduler_config.json"),
    };
    let sampler = match (cfg.class.as_str(), cfg.prediction_type.as_deref()) {
        ("FlowMatchEulerDiscreteScheduler", _) => Ok(Sampler::Euler),
        ("UniPCMultistepScheduler", Some("flow_prediction")) => Ok(Sampler::UniPc),
        ("UniPCMultistepScheduler", found) => Err(wrong(format!(
            "expected the prediction_type flow_prediction, found {}",
            found.unwrap_or("none")
        ))),
        (class, _) => Err(wrong(format!(
            "expected the scheduler UniPCMultistepScheduler or FlowMatchEulerDiscreteScheduler, found '{class}'"
        ))),
    };
    Ok(Schedule {
        sampler: sampler?,
        shift: cfg.flow_shift.or(cfg.shift),
    })
}

/// Configs that each stand alone must also fit each other.
fn check_agreement(
    files: &ModelFiles,
    variant: Variant,
    configs: &Configs,
) -> Result<(), CatalogError> {
    let transformers = [Some(&configs.transformer), configs.transformer_2.as_ref()];
    let is_quantised = configs.text.quantization_config.is_some()
        || transformers
            .iter()
            .flatten()
            .any(|cfg| cfg.quantization_config.is_some());
    if is_quantised {
        return Err(CatalogError::Unsupported {
            what: "a quantised Wan model".to_owned(),
            path: files.transformer.clone(),
        });
    }
    variant.check_boundary(files)?;
    fits_vae(&configs.transformer, &configs.vae, &files.vae)?;
    fits_text_encoder(&configs.transformer, &configs.text, &files.text_encoder)?;
    fits_image_encoder(files, &configs.transformer, configs.image.as_ref())?;
    let wrong = [
        (
            &files.transformer,
            wrong_transformer(&configs.transformer, variant, &configs.vae),
        ),
        (&files.vae, wrong_vae(&configs.vae)),
        (&files.text_encoder, configs.text.objection("umt5")),
    ];
    for (place, reason) in wrong {
        if let Some(reason) = reason {
            return Err(wrong_config(reason, place));
        }
    }
    match (&files.transformer_2, &configs.transformer_2) {
        (Some(place), Some(second)) => same_experts(&configs.transformer, second, place),
        _ => Ok(()),
    }
}

fn wrong_config(reason: String, place: &Path) -> CatalogError {
    let path = if place.is_dir() {
        place.join("config.json")
    } else {
        place.to_owned()
    };
    CatalogError::Config { reason, path }
}

/// Whether a place holds this part of the published models with latents of so many channels.
pub(super) fn is_published_part(component: Component, latent_channels: u64, place: &Path) -> bool {
    /// The width of CLIP ViT-H.
    const IMAGE_DIM: u64 = 1280;
    let transformer = WanTransformerConfig {
        out_channels: latent_channels,
        image_dim: Some(IMAGE_DIM),
        ..WanTransformerConfig::default()
    };
    let parts = parts::parts(&transformer);
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
}

/// Whether an autoencoder is the one that a transformer was trained with, by its channels.
fn fits_vae(
    transformer: &WanTransformerConfig,
    vae: &WanVaeConfig,
    place: &Path,
) -> Result<(), CatalogError> {
    let expected = transformer.out_channels;
    if vae.z_dim == expected {
        return Ok(());
    }
    let (what, example) = parts::vae_example(expected);
    Err(CatalogError::WrongCompanion {
        what,
        example,
        found: match vae.z_dim {
            16 => "a Wan 2.1 VAE (z_dim 16)".to_owned(),
            48 => "a Wan 2.2 VAE (z_dim 48)".to_owned(),
            other => format!("one with a z_dim of {other}"),
        },
        path: place.to_owned(),
    })
}

fn fits_text_encoder(
    transformer: &WanTransformerConfig,
    text: &T5Config,
    place: &Path,
) -> Result<(), CatalogError> {
    if text.d_model == transformer.text_dim {
        return Ok(());
    }
    Err(CatalogError::WrongCompanion {
        what: format!(
            "a UMT5 text encoder with a d_model of {}, the transformer's text_dim",
            transformer.text_dim
        ),
        example: parts::TEXT_ENCODER,
        found: format!("one of {}", text.d_model),
        path: place.to_owned(),
    })
}

fn fits_image_encoder(
    files: &ModelFiles,
    transformer: &WanTransformerConfig,
    image: Option<&ClipVisionConfig>,
) -> Result<(), CatalogError> {
    match (transformer.image_dim, image, &files.image_encoder) {
        (None, None, _) => Ok(()),
        (Some(_), None, _) => Err(CatalogError::MissingCompanion {
            what: "a CLIP image encoder, as the transformer looks at pictures through one,"
                .to_owned(),
            example: parts::IMAGE_ENCODER,
            looked: "model_index.json".to_owned(),
            path: files.transformer.clone(),
        }),
        (expected, Some(image), place) if expected != Some(image.hidden_size) => {
            let what = expected.map_or_else(
                || "no image encoder for a transformer without image_dim".to_owned(),
                |dim| {
                    format!("a CLIP image encoder with a hidden_size of {dim}, the transformer's image_dim")
                },
            );
            Err(CatalogError::WrongCompanion {
                what,
                example: parts::IMAGE_ENCODER,
                found: format!("one of {}", image.hidden_size),
                path: place.clone().unwrap_or_default(),
            })
        }
        (_, Some(image), place) => {
            // Both pictures' tokens, one after the other.
            let tokens = 2 * image.num_tokens();
            match transformer.pos_embed_seq_len {
                Some(places) if places != tokens => Err(wrong_config(
                    format!(
                        "expected an image encoder of {} tokens, half the transformer's pos_embed_seq_len, found {}",
                        places / 2,
                        image.num_tokens()
                    ),
                    place.as_deref().unwrap_or_else(|| Path::new("")),
                )),
                _ => Ok(()),
            }
        }
    }
}

/// Two experts share one schedule and one cache of embeddings, so they are of one kind.
fn same_experts(
    first: &WanTransformerConfig,
    second: &WanTransformerConfig,
    second_place: &Path,
) -> Result<(), CatalogError> {
    for (name, expected, found) in [
        ("in_channels", first.in_channels, second.in_channels),
        ("out_channels", first.out_channels, second.out_channels),
        ("width", first.dim(), second.dim()),
        ("num_layers", first.num_layers, second.num_layers),
        ("text_dim", first.text_dim, second.text_dim),
        ("ffn_dim", first.ffn_dim, second.ffn_dim),
        (
            "image_dim",
            first.image_dim.unwrap_or(0),
            second.image_dim.unwrap_or(0),
        ),
    ] {
        if expected != found {
            return Err(CatalogError::Expert {
                reason: format!(
                    "expected a low-noise expert of the same kind as the high-noise one, with a {name} of {expected}, found {found}"
                ),
                path: second_place.to_owned(),
            });
        }
    }
    Ok(())
}

fn wrong_transformer(
    cfg: &WanTransformerConfig,
    variant: Variant,
    vae: &WanVaeConfig,
) -> Option<String> {
    let latents = cfg.out_channels;
    let expected = if variant.is_image_to_video() {
        // Noise, a mask with a channel for each frame of a latent one, and the pictures.
        2 * latents + vae.temporal_factor()
    } else {
        latents
    };
    if cfg.in_channels != expected {
        return Some(format!(
            "expected in_channels to be {expected} in a {} model whose VAE has a z_dim of {latents}, found {}",
            variant.name(),
            cfg.in_channels
        ));
    }
    if cfg.image_dim.is_some() != cfg.added_kv_proj_dim.is_some() {
        return Some(
            "expected image_dim and added_kv_proj_dim together, found one of them".to_owned(),
        );
    }
    let patch_frames = cfg.patch_size[0];
    (patch_frames != 1).then(|| format!("expected a patch_size of 1 in time, found {patch_frames}"))
}

fn wrong_vae(cfg: &WanVaeConfig) -> Option<String> {
    let pixels = 3 * cfg.patch() * cfg.patch();
    (cfg.in_channels != pixels || cfg.out_channels != pixels).then(|| {
        format!(
            "expected {pixels} in_channels and out_channels (3 times patch_size squared), found {} and {}",
            cfg.in_channels, cfg.out_channels
        )
    })
}

fn limits(transformer: &WanTransformerConfig, vae: &WanVaeConfig) -> Limits {
    let [_, patch_height, patch_width] = transformer.patch_size;
    let patch = least_common_multiple(patch_height, patch_width);
    let size_multiple = vae.spatial_factor() * patch;
    let frame_stride = vae.temporal_factor();
    // The table of rotations has this many places along each axis.
    let places = transformer.rope_max_seq_len;
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Limits {
        size_multiple: narrow(size_multiple),
        max_edge: narrow(places * patch_height.min(patch_width) * vae.spatial_factor()),
        max_pixels: MAX_PIXELS,
        frame_stride: narrow(frame_stride),
        max_frames: narrow(MAX_FRAMES.min((places - 1) * frame_stride + 1)),
        fixed_size: false,
        max_batch: 1,
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
