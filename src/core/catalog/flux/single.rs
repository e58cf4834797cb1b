//! From the place of one Flux transformer to a whole model, and what is said of transformers like it.

use std::path::Path;

use super::check;
use super::config::FluxTransformerConfig;
use super::keys::FluxTransformerKeys;
use super::parts::parts;
use super::tensors::check_transformer;
use super::variant::Variant;
use crate::catalog::companions::{self, Companions};
use crate::catalog::library::Library;
use crate::catalog::single::{Assembled, before_comma, file_stem, not_a_model};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, ModelFiles, kind, scan, storage};

/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("distilled_guidance_layer", "a Chroma model"),
    ("double_stream_modulation_img", "a Flux 2 model"),
    ("individual_token_refiner", "a HunyuanVideo model"),
    ("controlnet_", "a Flux ControlNet"),
    ("pulid_ca", "a Flux model with PuLID in it"),
];

/// The model of the transformer at a place, whose header is `weights`.
pub(in crate::catalog) fn assemble(
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
    let cfg = FluxTransformerConfig::read(place)?;
    let (name, variant) = named_variant(place, &cfg).map_err(unsupported)?;
    check_transformer(weights, &cfg)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    companions::complete(&mut files, &parts(&cfg), companions, library)?;
    let facts = check(&files, variant)?;
    Ok(Assembled {
        place: place.to_owned(),
        name,
        files,
        facts,
    })
}

/// What the model at a place is called, and its variant: Kontext differs from dev in its name alone.
fn named_variant(place: &Path, cfg: &FluxTransformerConfig) -> Result<(String, Variant), String> {
    let name = if place.is_dir() {
        scan::model_name(place)
    } else {
        file_stem(place)
    };
    let folder = place.parent().map(file_stem).unwrap_or_default();
    let is_kontext = [&name, &folder]
        .into_iter()
        .any(|name| Variant::is_kontext_named(name));
    let variant = Variant::of(cfg, is_kontext)?;
    Ok((name, variant))
}

/// The variant of the transformer at a place, where its header says it.
pub(in crate::catalog) fn variant_at(place: &Path) -> Option<&'static str> {
    let cfg = FluxTransformerConfig::read(place).ok()?;
    let (_, variant) = named_variant(place, &cfg).ok()?;
    Some(variant.name())
}

/// What a transformer with parts that Flux has not is.
pub(super) fn foreign_part(weights: &WeightSet) -> Option<String> {
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
        .filter(|key| !storage::is_aside(key))
        .filter_map(|key| key.split('.').next())
        .find(|top| !is_known(top))
        .map(|top| format!("a Flux transformer with the part '{top}'"))
}
