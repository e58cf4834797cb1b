//! LoRA files: what they are, and which layers of a model they change.
//!
//! Reads headers only. The engine loads what a [`LoraPlan`] names, and adds it to the layers while they compute; nothing
//! here or there changes a model's own weights.

mod alphas;
mod card;
mod copies;
mod coverage;
mod delta;
mod file;
mod keys;
mod listing;
mod names;
mod origin;
mod plan;
mod prompt_tags;
mod scaling;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

pub use card::LoraInfo;
pub use coverage::{LayerMismatch, LoraCoverage};
pub use delta::{LoraDelta, LoraFactor};
pub use file::LoraFile;
pub(crate) use keys::{normal, unsupported_adapter};
pub(crate) use listing::fit_with;
pub use listing::{FoundLora, LoraFit, LoraMatcher, find};
pub(crate) use names::{LayerNames, RowShare, of_transformer, with_extra};
pub use origin::LoraOrigin;
pub use plan::{LoraPlan, LoraUpdate};
pub use prompt_tags::{LoraIndex, fitting_test};
pub(crate) use prompt_tags::{ambiguity, comparable, files_named};
pub use table::{CLIP, LayerTable, LoraTarget, RowRange, T5, TableLayer};

use self::keys::LoraTensorKind;
use crate::families::ModelFamily;
use crate::library::names as file_names;
use crate::library::names::NoiseSide;
use crate::model::choices::LoraChoice;
use crate::model::{CatalogError, ModelFiles, ModelSpec};
use crate::networks::{clip_text, t5};

/// Returns true if only LoRAs have such a key.
pub(super) fn is_of_lora(key: &str) -> bool {
    let tells = |leaf| {
        !matches!(
            leaf,
            LoraTensorKind::Alpha
                | LoraTensorKind::Diff
                | LoraTensorKind::DiffBias
                | LoraTensorKind::Set
                | LoraTensorKind::Unsupported
        )
    };
    keys::split(key).is_some_and(|(_, leaf)| tells(leaf))
}

/// Returns true if a key holds the change of a whole tensor, as LyCORIS' full training writes it.
pub(super) fn is_difference(key: &str) -> bool {
    let leaf = keys::split(key).map(|(_, leaf)| leaf);
    matches!(leaf, Some(LoraTensorKind::Diff | LoraTensorKind::DiffBias))
}

/// One of a model's transformers: some have one for steps of much noise and one for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expert {
    /// There is one alone.
    Only,
    HighNoise,
    LowNoise,
}

/// Strength of each LoRA on an expert. A file whose name is that of one expert leaves the other alone.
pub fn strengths(loras: &[LoraChoice], expert: Expert) -> Vec<f64> {
    let strength = |(index, lora): (usize, &LoraChoice)| {
        let low = lora.strength_2.unwrap_or(lora.strength);
        match (expert, side(loras, index)) {
            (Expert::HighNoise, Some(NoiseSide::Low))
            | (Expert::LowNoise, Some(NoiseSide::High)) => 0.0,
            (Expert::LowNoise, _) => low,
            (Expert::Only | Expert::HighNoise, _) => lora.strength,
        }
    };
    loras.iter().enumerate().map(strength).collect()
}

/// The expert that one of several LoRAs is for: what its name states, or what another states whose name is the same
/// but for such words. Two strengths say themselves what is meant.
fn side(loras: &[LoraChoice], index: usize) -> Option<NoiseSide> {
    let own = &loras[index];
    let stated = side_of_name(&own.path);
    if stated.is_some() || own.strength_2.is_some() {
        return stated;
    }
    let name = stem(&own.path);
    let others = loras
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index);
    others.map(|(_, lora)| stem(&lora.path)).find_map(|other| {
        let is_plain_twin = file_names::without_side(&other).eq_ignore_ascii_case(&name);
        let twin = file_names::stated_side(&other).filter(|_| is_plain_twin);
        twin.map(NoiseSide::other)
            .or_else(|| file_names::side_beside(&name, &other))
    })
}

/// The expert that a file's name states; `high` and `low` alone may mean something else.
fn side_of_name(path: &Path) -> Option<NoiseSide> {
    file_names::stated_side(&stem(path))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A LoRA that was checked before a job with it begins.
#[derive(Clone, Debug)]
pub struct CheckedLora {
    pub lora: LoraChoice,
    pub coverage: LoraCoverage,
}

impl CheckedLora {
    /// A line for the log: `name.safetensors: 312 of 400 keys applied`.
    pub fn line(&self) -> String {
        let name = self
            .lora
            .path
            .file_name()
            .unwrap_or(self.lora.path.as_os_str());
        format!("{}: {}", name.to_string_lossy(), self.coverage)
    }
}

/// Reads the LoRAs' headers and says how much of each the model takes. Fails for what is no LoRA, was made for another
/// model, or has nothing that this one knows.
pub fn check(
    loras: &[LoraChoice],
    family: ModelFamily,
    files: &ModelFiles,
) -> Result<Vec<CheckedLora>, CatalogError> {
    if loras.is_empty() {
        return Ok(Vec::new());
    }
    let tables = (family.lora.tables)(files)?;
    loras
        .iter()
        .map(|lora| {
            // The engine computes in f32.
            let mut strengths = [Some(lora.strength), lora.strength_2].into_iter().flatten();
            if let Some(wrong) = strengths.find(|it| !(*it as f32).is_finite()) {
                let reason = format!("the strength of this LoRA is {wrong}, expected a number");
                return Err(CatalogError::lora(reason, lora.path.clone()));
            }
            let mut file = LoraFile::read(&lora.path)?;
            file.read_alphas()?;
            let coverage = fitting_plan(&file, family, &tables)?.coverage;
            Ok(CheckedLora {
                lora: lora.clone(),
                coverage,
            })
        })
        .collect()
}

/// The plan for a model of `family` with these networks, if the LoRA is for such a model.
pub fn fitting_plan(
    file: &LoraFile,
    family: ModelFamily,
    tables: &[LayerTable],
) -> Result<LoraPlan, CatalogError> {
    let wrong = |reason: String| CatalogError::lora(reason, file.path.clone());
    let origin = LoraOrigin::from_file(file);
    if !origin.is_accepted(|origin| (family.lora.accepts)(origin, tables)) {
        return Err(wrong(format!(
            "this LoRA is for {}, not for {}",
            origin.label, family.label
        )));
    }
    let plan = LoraPlan::new(file, tables);
    let coverage = &plan.coverage;
    if let Some(reason) = &coverage.conflict {
        return Err(wrong(reason.clone()));
    }
    if let Some(reason) = (family.lora.objection)(coverage) {
        return Err(wrong(reason.to_owned()));
    }
    if let Some(first) = coverage.misfits.first()
        && coverage.num_misfits() > coverage.applied
    {
        return Err(wrong(misfit_text(&origin, family, tables, first)));
    }
    if coverage.applied == 0 {
        let what = if coverage.pictures > 0 {
            "it only changes the reading of pictures, which this model does not do".to_owned()
        } else if coverage.text_encoder > 0 {
            "it only changes a text encoder that Safelight does not change".to_owned()
        } else {
            coverage.to_string()
        };
        return Err(wrong(format!("this LoRA does not fit the model: {what}")));
    }
    Ok(plan)
}

/// The model that these LoRAs make of one: itself, but for one of them that lets it see a control picture. Reads headers;
/// what cannot be read is reported where the LoRA is checked.
pub fn model_with(spec: &ModelSpec, loras: &[LoraChoice]) -> Result<ModelSpec, CatalogError> {
    let acting = loras.iter().zip(strengths(loras, Expert::Only));
    let acting = acting.filter(|(_, strength)| *strength != 0.0);
    for (lora, _) in acting.filter(|_| spec.family.files.control_lora.is_some()) {
        let Ok(tables) = (spec.family.lora.tables)(&spec.files) else {
            break;
        };
        let Ok(file) = LoraFile::read(&lora.path) else {
            continue;
        };
        if LoraPlan::new(&file, &tables).widened().is_some() {
            let with = spec.with_control_lora(&lora.path);
            return with.map_err(|reason| CatalogError::lora(reason, lora.path.clone()));
        }
    }
    Ok(spec.clone())
}

/// A sentence that names both models.
fn misfit_text(
    origin: &LoraOrigin,
    family: ModelFamily,
    tables: &[LayerTable],
    first: &LayerMismatch,
) -> String {
    let model = origin::model_label(family, tables);
    // A name without a size fits models of every size.
    if !origin.label.starts_with(&model) && !origin.label.is_empty() && !origin.has_other_sizes {
        return format!("this LoRA is for {}, not for {model}", origin.label);
    }
    let ((outputs, inputs), (found_outputs, found_inputs)) = (first.expected, first.found);
    format!(
        "this LoRA is for another size of {model}: its '{}' has {found_outputs} outputs and {found_inputs} inputs, the model's {outputs} and {inputs}",
        first.layer
    )
}

/// Prefix of a text encoder's layers in a file with these keys.
pub fn text_encoder_prefix<'a>(
    network: LoraTarget,
    keys: impl Iterator<Item = &'a str> + Clone,
) -> &'a str {
    let prefix = if network == T5 {
        t5::prefix(keys)
    } else {
        clip_text::prefix(&keys)
    };
    prefix.unwrap_or_default()
}
