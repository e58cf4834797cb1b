//! Questions about files and jobs, answered by the family that they belong to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::registry::def_of;
use crate::footprint::{ModelFootprint, NetworkReader, PlannedJob, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::job::{ControlInput, Stage};
use crate::library::identify::without_index;
use crate::library::names::side_beside;
use crate::library::other_models::pipeline_name;
use crate::library::single::{AssembledModel, file_stem, is_other_model, not_a_model};
use crate::library::{ComponentLibrary, ControlNetwork, WeightFileRole, place_of, tensor_kind};
use crate::lora::LoraTarget;
use crate::model::choices::LoraChoice;
use crate::model::configs::ModelIndex;
use crate::model::facts::ModelFacts;
use crate::model::{CatalogError, ComponentOverrides, ModelFamily, ModelFiles, ModelSpec};
use crate::tokens::TextReader;

/// The family of a pipeline's class; `None` for those that this version does not run.
pub(crate) fn family_of_pipeline(class: &str) -> Option<ModelFamily> {
    ModelFamily::all().find(|family| def_of(*family).owns_pipeline(class))
}

/// Checks a whole diffusers folder of a supported family; others are named and refused.
///
/// Components chosen by the user replace the folder's.
pub(crate) fn check_folder(
    folder: &Path,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError> {
    if ModelIndex::path_in(folder).is_none() {
        return Err(without_index(folder));
    }
    let index = ModelIndex::read(folder)?;
    match family_of_pipeline(&index.class) {
        Some(family) => def_of(family).check_folder(folder, &index, companions, library),
        None => Err(CatalogError::unsupported(
            pipeline_name(&index.class),
            folder,
        )),
    }
}

pub(crate) fn assemble(
    place: &Path,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<AssembledModel, CatalogError> {
    let weights = WeightSet::open(place)?;
    let kind_of = tensor_kind::of_tensors(&weights);
    // Some storages have other names, by which the kind is known all the same.
    let is_of = |family: &ModelFamily| {
        def_of(*family).has_transformer(&weights)
            || (kind_of.family, kind_of.role) == (family.id, "transformer")
    };
    match ModelFamily::all().find(is_of) {
        // Some other models have a family's tensors and more.
        Some(_) if is_other_model(&kind_of) => Err(not_a_model(&kind_of, place)),
        Some(family) => def_of(family).assemble(place, &weights, companions, library),
        None => Err(not_a_model(&kind_of, place)),
    }
}

/// The variant of the transformer at a place as far as its header alone says it, whatever is around it.
pub(crate) fn variant_at(place: &Path) -> Option<String> {
    let weights = WeightSet::open(place).ok()?;
    let family = ModelFamily::all().find(|family| def_of(*family).has_transformer(&weights))?;
    let name = def_of(family).variant_at(place)?;
    Some(name.to_owned())
}

/// Path of the transformer at a path that is no diffusers folder.
pub(crate) fn transformer_at(
    path: &Path,
    library: &ComponentLibrary,
) -> Result<PathBuf, CatalogError> {
    if path.is_file() {
        return Ok(place_of(path));
    }
    let experts = ["high_noise_model", "low_noise_model"].map(|name| path.join(name));
    if let Some(expert) = experts.into_iter().find(|folder| folder.is_dir()) {
        return Ok(expert);
    }
    let items = library.in_folder(path);
    let mut places: Vec<&PathBuf> = items
        .iter()
        .filter(|item| matches!(item.role, WeightFileRole::Transformer(_)))
        .map(|item| &item.place)
        .collect();
    // Two experts are one model.
    if let [one, two] = places[..]
        && side_beside(&file_stem(one), &file_stem(two)).is_some()
    {
        places.pop();
    }
    match places[..] {
        [only] => Ok(only.clone()),
        [] => Err(CatalogError::NoModel {
            path: path.to_owned(),
        }),
        _ => {
            let names: Vec<String> = places.iter().map(|place| file_stem(place)).collect();
            Err(CatalogError::config(
                format!(
                    "this folder has {} model files: choose one of {}",
                    names.len(),
                    names.join(", ")
                ),
                path,
            ))
        }
    }
}

/// Reads the header of the ControlNet at a file or folder.
pub fn control_network(place: &Path) -> Result<ControlNetwork, CatalogError> {
    let weights = WeightSet::open(place)?;
    let nets = ModelFamily::all().filter_map(|family| def_of(family).control_nets());
    let mut known = nets.filter_map(|nets| (nets.find)(&weights, place));
    known.next().unwrap_or_else(|| {
        let found = tensor_kind::of_tensors(&weights).text;
        let reason = format!("this is {found}, not a ControlNet");
        Err(CatalogError::config(reason, place))
    })
}

/// Reads the headers of a model's files, of its LoRAs and ControlNets.
pub fn read_footprint(
    family: ModelFamily,
    files: &ModelFiles,
    loras: &[LoraChoice],
    controls: &[ControlInput],
) -> Result<ModelFootprint, CatalogError> {
    let mut reader = NetworkReader::default();
    def_of(family).networks(files, &mut reader)?;
    // Each file once.
    let paths = controls
        .iter()
        .filter_map(|it| it.settings.network.as_deref());
    let paths: BTreeSet<&Path> = paths.collect();
    let nets = def_of(family).control_nets();
    let controls = paths
        .into_iter()
        .filter_map(|path| (nets?.footprint)(path).ok())
        .collect();
    Ok(ModelFootprint::new(reader, files, loras, controls))
}

/// A model with a LoRA that adds a control image as input channels, with the values of the LoRA's preset as defaults; or
/// a sentence on why the two do not fit.
pub fn with_control_lora(spec: &ModelSpec, lora: &Path) -> Result<ModelSpec, String> {
    let Some((_, with)) = def_of(spec.family).lora().control else {
        let label = spec.family.label;
        return Err(format!("models of {label} take no control LoRA"));
    };
    let mut changed = with(spec, lora)?;
    if let Some(preset) = spec.preset_for(lora) {
        changed.defaults.sampling = preset.sampling.over(spec.defaults.sampling);
    }
    Ok(changed)
}

/// The text encoders of a model, first the one that reads the most tokens.
pub fn text_readers(spec: &ModelSpec) -> Vec<TextReader> {
    def_of(spec.family).text_readers(spec)
}

/// The networks of a stage, one after the other.
pub fn stage_needs(job: &PlannedJob<'_>, stage: Stage) -> Vec<StageFootprint> {
    job.with_previews(def_of(job.request.family).needs(job, stage))
}

/// The transformer of a family as LoRAs change it, whose file has diffusers' names or others.
pub fn lora_target(family: ModelFamily, is_diffusers: bool) -> LoraTarget {
    def_of(family).lora_target(is_diffusers)
}
