//! Assembly of a whole Wan model from one transformer: its other expert, and the parts next to it.
//!
//! Headers say what a file is; only which of two experts it is comes from its name.

use std::path::{Path, PathBuf};

use super::WanFamily;
use super::files::{check, same_experts};
use super::names::implied_side;
use super::transformer::CheckedTransformer;
use super::variant::WanVariant;
use crate::families::single::{self, model_name};
use crate::formats::sorted_entries;
use crate::library::names::{
    NoiseSide, counterpart, possible_side, side_beside, stated_side, without_side,
};
use crate::library::single::{AssembledModel, file_stem};
use crate::library::{ComponentLibrary, WeightFileRole, component_search};
use crate::model::{CatalogError, ComponentOverrides, ModelFiles};

/// The width of the transformers of 14 billion weights, to which all experts belong.
const WIDTH_14B: i64 = 5120;

pub(super) fn assemble(
    place: &Path,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<AssembledModel, CatalogError> {
    let named = CheckedTransformer::read(place)?;
    let (first, second, variant) = match expert_pair(&named, library)? {
        Some((high, low)) => {
            same_experts(&high.cfg, &low.cfg, &low.place)?;
            // Both are of one kind now, and only experts were paired.
            let variant = high.kind.as_expert.unwrap_or(WanVariant::T2V_A14B);
            (high, Some(low.place), variant)
        }
        None => match named.kind.alone {
            Some(variant) => (named, None, variant),
            None => return Err(lone_expert(&named)),
        },
    };
    let (place, name) = place_and_name(&first.place, second.as_deref());
    let mut files = ModelFiles {
        transformer: first.place,
        transformer_2: second,
        boundary_ratio: variant.boundary_ratio,
        expand_timesteps: variant == WanVariant::TI2V,
        takes_control: variant.takes_control(),
        ..ModelFiles::default()
    };
    component_search::complete(
        &mut files,
        &single::parts::<WanFamily>(&first.cfg),
        companions,
        library,
    )?;
    let facts = check(&files, variant)?;
    Ok(AssembledModel {
        place,
        name,
        files,
        facts,
    })
}

/// The place that names a model: the file of its transformer, or the folder that holds all of it.
fn place_and_name(first: &Path, second: Option<&Path>) -> (PathBuf, String) {
    let place = match first.parent() {
        // Two experts' folders are in that of their model.
        Some(folder) if second.is_some() && first.is_dir() => folder,
        _ => first,
    };
    let name = model_name(place);
    let name = if second.is_some() && !place.is_dir() {
        without_side(&name)
    } else {
        name
    };
    (place.to_owned(), name)
}

/// The high-noise and the low-noise expert, where the named transformer is one of two.
fn expert_pair(
    named: &CheckedTransformer,
    library: &ComponentLibrary,
) -> Result<Option<(CheckedTransformer, CheckedTransformer)>, CatalogError> {
    if named.kind.as_expert.is_none() {
        return Ok(None);
    }
    let is_stated = stated(named).is_some();
    let mut first_error = None;
    for (side, place) in others(&named.place, library) {
        // A name alone makes no pair of files that differ; one that states its side must have one.
        match CheckedTransformer::read(&place) {
            Ok(other) if other.cfg.is_same_shape(&named.cfg) || is_stated => {
                return Ok(Some(match side {
                    NoiseSide::High => (named.clone(), other),
                    NoiseSide::Low => (other, named.clone()),
                }));
            }
            Ok(_) => {}
            Err(err) => first_error = first_error.or(Some(err)),
        }
    }
    match first_error {
        Some(err) if is_stated => Err(err),
        _ if is_stated => Err(lone_expert(named)),
        _ => Ok(None),
    }
}

/// The side that a transformer's own name states, or its folder's.
fn stated(named: &CheckedTransformer) -> Option<NoiseSide> {
    let name = file_stem(&named.place);
    let folder = named.place.parent().and_then(Path::file_name);
    let folder = folder.unwrap_or_default().to_string_lossy();
    stated_side(&name)
        .or_else(|| stated_side(&folder))
        .or_else(|| {
            let is_open = named.kind.is_open();
            is_open
                .then(|| implied_side(&name, &folder, named.cfg.dim() == WIDTH_14B))
                .flatten()
        })
}

/// Places that by their names may be the other expert, nearest first, with the side of the named one.
fn others(place: &Path, library: &ComponentLibrary) -> Vec<(NoiseSide, PathBuf)> {
    let own = file_stem(place);
    let folder = place.parent().unwrap_or_else(|| Path::new(""));
    let mut found = Vec::new();
    if place.is_dir() {
        // Of a diffusers folder that lost its index.
        let sibling = match own.as_str() {
            "transformer" => Some((NoiseSide::High, "transformer_2")),
            "transformer_2" => Some((NoiseSide::Low, "transformer")),
            _ => None,
        };
        found.extend(sibling.map(|(side, name)| (side, folder.join(name))));
        for path in sorted_entries(folder).unwrap_or_default() {
            found.extend(side_beside(&own, &file_stem(&path)).map(|side| (side, path)));
        }
        found.retain(|(_, path)| path.is_dir());
        return found;
    }
    let transformers = |folder: &Path| -> Vec<PathBuf> {
        let items = library.in_folder(folder);
        let items = items
            .iter()
            .filter(|item| item.role == WeightFileRole::Transformer(super::FAMILY));
        items.map(|item| item.place.clone()).collect()
    };
    for path in transformers(folder) {
        found.extend(side_beside(&own, &file_stem(&path)).map(|side| (side, path)));
    }
    let folder_name = file_stem(folder);
    let around = folder.parent().unwrap_or_else(|| Path::new(""));
    for sibling in sorted_entries(around).unwrap_or_default() {
        let Some(side) = side_beside(&folder_name, &file_stem(&sibling)) else {
            continue;
        };
        for path in transformers(&sibling) {
            let other = file_stem(&path);
            let is_same = own.eq_ignore_ascii_case(&other);
            if is_same || side_beside(&own, &other) == Some(side) {
                found.push((side, path));
            }
        }
    }
    for item in &library.known.parts {
        if item.role == WeightFileRole::Transformer(super::FAMILY) {
            let side = side_beside(&own, &file_stem(&item.place));
            found.extend(side.map(|side| (side, item.place.clone())));
        }
    }
    found
}

fn lone_expert(named: &CheckedTransformer) -> CatalogError {
    let file_name = named
        .place
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let variant = named.kind.as_expert.unwrap_or(WanVariant::I2V_A14B).name();
    let side = stated(named).or_else(|| possible_side(&file_stem(&named.place)));
    let reason = match side {
        Some(side) => {
            let folder = named.place.parent().and_then(Path::file_name);
            let folder = folder.unwrap_or_default().to_string_lossy();
            let other = counterpart(&file_name).unwrap_or_else(|| {
                let other = counterpart(&folder).unwrap_or_default();
                format!("{other}/{file_name}")
            });
            format!(
                "this is the {} expert of a Wan 2.2 {variant} model; expected the {} one beside it, {other}, found none",
                side.label(),
                side.other().label(),
            )
        }
        None => format!(
            "this is one of two experts of a Wan 2.2 {variant} model; expected both, with high_noise and low_noise in their names, found this one"
        ),
    };
    CatalogError::expert(reason, named.place.clone())
}
