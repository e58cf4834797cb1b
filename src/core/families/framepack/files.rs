//! The files of a FramePack model (HunyuanVideo packed): from a diffusers folder or from one transformer's file to a
//! whole model that is checked.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::parts;
use super::variant;
use crate::formats::weights::WeightSet;
use crate::library::companions::{Companions, wanted};
use crate::library::identify::check_components;
use crate::library::single::{Assembled, before_comma, file_stem, not_a_model};
use crate::library::{Library, companions, kind, scan, storage};
use crate::model::choices::{Sampler, SectionOrder};
use crate::model::configs::ModelIndex;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, Component, Guidance, ImageRole, InputUse, Limits, ModelFiles};
use crate::networks::framepack_transformer::check_transformer;
use crate::networks::{
    FramePackTransformerConfig, FramePackTransformerKeys, HunyuanVaeConfig, NetworkConfig as _,
    SchedulerConfig,
};

/// What diffusers calls the pipeline.
pub(super) const PIPELINE: &str = "HunyuanVideoFramepackPipeline";
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

/// Checks a diffusers folder whole. Parts that the user named stand in for the folder's own.
pub(super) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    let components = [
        ("feature_extractor", None),
        ("image_encoder", Some("SiglipVisionModel")),
        ("scheduler", None),
        ("text_encoder", None),
        ("text_encoder_2", Some("CLIPTextModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        (
            "transformer",
            Some("HunyuanVideoFramepackTransformer3DModel"),
        ),
        ("vae", Some("AutoencoderKLHunyuanVideo")),
    ];
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles {
        image_processor: Some(folder.join("feature_extractor")),
        ..ModelFiles::from_index(folder, index)
    };
    let transformer = transformer_config(&files.transformer)?;
    if !companions.is_empty() {
        companions::replace(&mut files, &parts(&transformer), companions, library)?;
    }
    let order = variant::of_names(&[&scan::model_name(folder)]);
    let facts = check(&files, &transformer, order)?;
    Ok((files, facts))
}

/// Whether weights have such a transformer at all, whole or not.
pub(super) fn is_in(weights: &WeightSet) -> bool {
    FramePackTransformerKeys::detect(|key| weights.has(key)).is_some()
}

/// The model of the transformer at a place, whose header is `weights`.
pub(super) fn assemble(
    place: &Path,
    weights: &WeightSet,
    companions: &Companions,
    library: &Library,
) -> Result<Assembled, CatalogError> {
    // Some storages have other names.
    let kind_of = kind::of_tensors(weights);
    storage::check(weights, before_comma(&kind_of.text))?;
    if !is_in(weights) {
        return Err(not_a_model(&kind_of, place));
    }
    let config = transformer_config(place)?;
    check_transformer(weights, &config)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    companions::complete(&mut files, &parts(&config), companions, library)?;
    let (name, order) = named_order(place);
    let facts = check(&files, &config, order)?;
    Ok(Assembled {
        place: place.to_owned(),
        name,
        files,
        facts,
    })
}

/// What the model at a place is called, and which of the two FramePacks that says.
fn named_order(place: &Path) -> (String, SectionOrder) {
    let name = if place.is_dir() {
        scan::model_name(place)
    } else {
        file_stem(place)
    };
    let folder = place.parent().map(scan::model_name).unwrap_or_default();
    let order = variant::of_names(&[&name, &folder]);
    (name, order)
}

/// The variant of the transformer at a place.
pub(super) fn variant_at(place: &Path) -> Option<&'static str> {
    transformer_config(place).ok()?;
    Some(variant::name(named_order(place).1))
}

/// The config of a transformer whose weights this program reads.
fn transformer_config(place: &Path) -> Result<FramePackTransformerConfig, CatalogError> {
    let config = FramePackTransformerConfig::read(place)?;
    if config.quantization_config.is_some() {
        return Err(CatalogError::Unsupported {
            what: "a quantised FramePack model".to_owned(),
            path: place.to_owned(),
        });
    }
    Ok(config)
}

/// Checks a model whose parts are known whole: each against its config, and with the transformer.
fn check(
    files: &ModelFiles,
    config: &FramePackTransformerConfig,
    order: SectionOrder,
) -> Result<Facts, CatalogError> {
    let scheduler = files.scheduler.as_deref();
    let scheduler = scheduler.map(SchedulerConfig::read_flow_match_euler);
    let schedule = scheduler.transpose()?.map(|scheduler| Schedule {
        sampler: Sampler::Euler,
        // Where it goes with the number of tokens, it is nobody's default.
        shift: scheduler.shift.filter(|_| !scheduler.use_dynamic_shifting),
    });
    let bytes = wanted::check_model(
        files,
        &[&files.transformer],
        "a FramePack transformer",
        &|weights| check_transformer(weights, config),
        &parts(config),
    )?;
    let vae = HunyuanVaeConfig::read(&files.vae)?;
    Ok(Facts {
        family: super::FAMILY,
        variant: variant::name(order),
        shape: TransformerShape {
            heads: config.num_attention_heads,
            head_dim: config.attention_head_dim,
            layers: config.num_layers + config.num_single_layers,
            channels: config.in_channels,
        },
        start_image: InputUse::Required,
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        end_image: order.end_image(),
        guidance: if config.guidance_embeds {
            Guidance::Distilled
        } else {
            Guidance::None
        },
        section_order: Some(order),
        latent_channels: vae.latent_channels.unsigned_abs(),
        limits: limits(),
        schedule,
        bytes,
    })
}

/// Whether a place holds this part of the published models.
pub(super) fn is_published_part(component: Component, place: &Path) -> bool {
    let transformer = FramePackTransformerConfig::default();
    let parts = parts(&transformer);
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
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
