//! The files of a Flux model: from a diffusers folder or from one transformer's file to a whole model that is checked.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::parts;
use super::variant::Variant;
use crate::formats::weights::WeightSet;
use crate::library::companions::{Companions, wanted};
use crate::library::identify::check_components;
use crate::library::single::{Assembled, before_comma, file_stem, not_a_model};
use crate::library::{Library, companions, kind, scan, storage};
use crate::model::choices::Sampler;
use crate::model::configs::ModelIndex;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, Component, InputUse, Limits, ModelFiles};
use crate::networks::flux_transformer::check_transformer;
use crate::networks::{
    FluxTransformerConfig, FluxTransformerKeys, KlVaeConfig, NetworkConfig as _, SchedulerConfig,
};

/// As much as four times the size that the models were trained at.
const MAX_PIXELS: u64 = 1 << 22;
/// Places are computed, so that only sense limits an edge.
const MAX_EDGE: u32 = 8192;
/// Pictures at once; more go into several jobs.
const MAX_BATCH: u32 = 8;
/// Latents along an edge of one token.
const PATCH: i64 = 2;

/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("distilled_guidance_layer", "a Chroma model"),
    ("double_stream_modulation_img", "a Flux 2 model"),
    ("individual_token_refiner", "a HunyuanVideo model"),
    ("controlnet_", "a Flux ControlNet"),
    ("pulid_ca", "a Flux model with PuLID in it"),
];

/// Checks a diffusers folder whole. Parts that the user named stand in for the folder's own.
pub(super) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    let unsupported = |what: String| CatalogError::Unsupported {
        what,
        path: folder.to_owned(),
    };
    let is_kontext = is_kontext(&index.class).map_err(unsupported)?;
    let components = [
        ("scheduler", None),
        ("text_encoder", Some("CLIPTextModel")),
        ("text_encoder_2", Some("T5EncoderModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        ("transformer", Some("FluxTransformer2DModel")),
        ("vae", Some("AutoencoderKL")),
    ];
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles::from_index(folder, index);
    let transformer = transformer_config(&files.transformer)?;
    let variant = Variant::of(&transformer, is_kontext).map_err(unsupported)?;
    if let Some(what) = foreign_part(&WeightSet::at(&files.transformer)?) {
        return Err(unsupported(what));
    }
    if !companions.is_empty() {
        companions::replace(&mut files, &parts(&transformer), companions, library)?;
    }
    let facts = check(&files, &transformer, variant)?;
    Ok((files, facts))
}

/// Whether a pipeline's class is Kontext's, or the sentence part for a Flux model of another kind.
fn is_kontext(class: &str) -> Result<bool, String> {
    match class {
        "FluxPipeline" | "FluxImg2ImgPipeline" | "FluxInpaintPipeline" | "FluxFillPipeline" => {
            Ok(false)
        }
        "FluxKontextPipeline" | "FluxKontextInpaintPipeline" => Ok(true),
        "FluxPriorReduxPipeline" => Err("a Flux Redux model".to_owned()),
        _ if class.starts_with("FluxControlNet") => Err("a Flux ControlNet model".to_owned()),
        _ if class.starts_with("FluxControl") => {
            Err("a Flux control model (Canny or Depth)".to_owned())
        }
        other => Err(format!("a Flux model for {other}")),
    }
}

/// The model of the transformer at a place, whose header is `weights`.
pub(super) fn assemble(
    place: &Path,
    weights: &WeightSet,
    companions: &Companions,
    library: &Library,
) -> Result<Assembled, CatalogError> {
    let unsupported = |what: String| CatalogError::Unsupported {
        what,
        path: place.to_owned(),
    };
    if let Some(what) = foreign_part(weights) {
        return Err(unsupported(what));
    }
    // Some storages have other names.
    let kind_of = kind::of_tensors(weights);
    storage::check(weights, before_comma(&kind_of.text))?;
    if FluxTransformerKeys::detect(|key| weights.has(key)).is_none() {
        return Err(not_a_model(&kind_of, place));
    }
    let config = transformer_config(place)?;
    let (name, variant) = named_variant(place, &config).map_err(unsupported)?;
    check_transformer(weights, &config)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    companions::complete(&mut files, &parts(&config), companions, library)?;
    let facts = check(&files, &config, variant)?;
    Ok(Assembled {
        place: place.to_owned(),
        name,
        files,
        facts,
    })
}

/// What the model at a place is called, and its variant: Kontext differs from dev in its name alone.
fn named_variant(
    place: &Path,
    config: &FluxTransformerConfig,
) -> Result<(String, Variant), String> {
    let name = if place.is_dir() {
        scan::model_name(place)
    } else {
        file_stem(place)
    };
    let folder = place.parent().map(file_stem).unwrap_or_default();
    let is_kontext = [&name, &folder]
        .into_iter()
        .any(|name| Variant::is_kontext_named(name));
    let variant = Variant::of(config, is_kontext)?;
    Ok((name, variant))
}

/// The variant of the transformer at a place, where its header says it.
pub(super) fn variant_at(place: &Path) -> Option<&'static str> {
    let config = transformer_config(place).ok()?;
    let (_, variant) = named_variant(place, &config).ok()?;
    Some(variant.name())
}

/// What a transformer with parts that Flux has not is.
fn foreign_part(weights: &WeightSet) -> Option<String> {
    let keys = FluxTransformerKeys::detect(|key| weights.has(key))?;
    let own = || {
        let names = weights.tensors.keys();
        names.filter_map(|key| key.strip_prefix(keys.prefix))
    };
    let named = FOREIGN_PARTS
        .iter()
        .find(|(part, _)| own().any(|key| key.split('.').any(|name| name.starts_with(part))));
    if let Some((_, what)) = named {
        return Some((*what).to_owned());
    }
    // A file with a prefix holds other models' tensors beside it.
    if !keys.prefix.is_empty() {
        return None;
    }
    let is_known = |top: &&str| keys.tops().contains(top);
    own()
        .filter(|key| !WeightSet::is_aside(key))
        .filter_map(|key| key.split('.').next())
        .find(|top| !is_known(top))
        .map(|top| format!("a Flux transformer with the part '{top}'"))
}

/// The config of a transformer whose weights this program reads.
fn transformer_config(place: &Path) -> Result<FluxTransformerConfig, CatalogError> {
    let config = FluxTransformerConfig::read(place)?;
    if config.quantization_config.is_some() {
        return Err(CatalogError::Unsupported {
            what: "a quantised Flux model".to_owned(),
            path: place.to_owned(),
        });
    }
    Ok(config)
}

/// Checks a model whose parts are known whole: each against its config, and with the transformer.
fn check(
    files: &ModelFiles,
    config: &FluxTransformerConfig,
    variant: Variant,
) -> Result<Facts, CatalogError> {
    let schedule = match &files.scheduler {
        Some(folder) => {
            SchedulerConfig::read_flow_match_euler(folder)?;
            // The shift goes with the size of a picture, so it is nobody's default.
            Some(Schedule {
                sampler: Sampler::Euler,
                shift: None,
            })
        }
        None => None,
    };
    let bytes = wanted::check_model(
        files,
        &[&files.transformer],
        "a Flux transformer",
        &|weights| check_transformer(weights, config),
        &parts(config),
    )?;
    let vae = KlVaeConfig::read(&files.vae)?;
    Ok(Facts {
        family: super::FAMILY,
        variant: variant.name(),
        shape: TransformerShape {
            heads: config.num_attention_heads,
            head_dim: config.attention_head_dim,
            layers: config.num_layers + config.num_single_layers,
            channels: config.in_channels,
        },
        start_image: variant.start_image(),
        image_role: variant.image_role(),
        mask: variant.mask(),
        end_image: InputUse::No,
        guidance: variant.guidance(),
        section_order: None,
        latent_channels: vae.latent_channels.unsigned_abs(),
        limits: limits(&vae),
        schedule,
        bytes,
    })
}

/// Whether a place holds this part of the published models.
pub(super) fn is_published_part(component: Component, place: &Path) -> bool {
    let transformer = FluxTransformerConfig::default();
    let parts = parts(&transformer);
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
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
