//! From the place of one FramePack transformer to a whole model, and what is said of transformers like it.

use std::path::Path;

use super::check;
use super::config::FramePackConfig;
use super::keys::FramePackTransformerKeys;
use super::parts::parts;
use super::tensors::check_transformer;
use super::variant;
use crate::catalog::companions::{self, Companions};
use crate::catalog::library::Library;
use crate::catalog::single::{Assembled, before_comma, file_stem, not_a_model};
use crate::catalog::weights::WeightSet;
use crate::catalog::{CatalogError, ModelFiles, kind, scan, storage};
use crate::job::SectionOrder;

/// Whether weights have such a transformer at all, whole or not.
pub(in crate::catalog) fn is_in(weights: &WeightSet) -> bool {
    FramePackTransformerKeys::detect(|key| weights.has(key)).is_some()
}

/// The model of the transformer at a place, whose header is `weights`.
pub(in crate::catalog) fn assemble(
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
    let cfg = FramePackConfig::read(place)?;
    check_transformer(weights, &cfg)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    companions::complete(&mut files, &parts(&cfg), companions, library)?;
    let (name, order) = named_order(place);
    let facts = check(&files, order)?;
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
pub(in crate::catalog) fn variant_at(place: &Path) -> Option<&'static str> {
    FramePackConfig::read(place).ok()?;
    Some(variant::name(named_order(place).1))
}
