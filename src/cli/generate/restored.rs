//! What `--from FILE` takes over of a file that another program made.
//!
//! Arguments that are given stay. The model is the installed one that comes nearest, unless one is named.

use std::path::Path;

use safelight_core::catalog::Catalog;
use safelight_core::job::{ChosenLora, JobError, JobErrorKind};
use safelight_core::lora::find;
use safelight_core::model::ModelSpec;
use safelight_core::restore::{Restored, match_model};

use super::args::GenerateArgs;
use crate::cli::Surroundings;

impl GenerateArgs {
    /// These arguments, with what they leave open taken from the file, and what is not as it says, a sentence each.
    pub(super) fn with_restored(
        mut self,
        restored: &Restored,
        surroundings: &Surroundings,
    ) -> Result<(Self, Vec<String>), JobError> {
        let catalog = Catalog::load(&surroundings.paths, surroundings.settings());
        let mut warnings = Vec::new();
        let spec = match &self.model {
            Some(model) => catalog.find(model).map_err(|err| {
                JobError::from_error(JobErrorKind::BadModel, &err).advise(err.advice())
            })?,
            None => nearest(restored, &catalog, &mut warnings)?,
        };
        self.model = Some(spec.id.clone());
        let (mut form, notes) = restored.form_for(&spec);
        warnings.extend(notes);
        if self.image.is_none() {
            form.sampling.strength = None;
        }
        // One edge of another size goes with the model's aspect, and not with the file's.
        if self.width.is_some() || self.height.is_some() {
            (form.width, form.height) = (None, None);
        }
        self.base = form;
        if self.loras.is_empty() && !restored.loras.is_empty() {
            let files = find(&surroundings.paths, surroundings.settings());
            let (found, missing) = restored.find_loras(&files);
            self.base.loras = found.iter().map(ChosenLora::from).collect();
            if !missing.is_empty() {
                warnings.push(format!(
                    "LoRAs that are not on this computer are left out; add them with --lora FILE:STRENGTH: {}",
                    missing.join(", ")
                ));
            }
        }
        Ok((self, warnings))
    }
}

/// The installed model that comes nearest to the file's.
fn nearest(
    restored: &Restored,
    catalog: &Catalog,
    warnings: &mut Vec<String>,
) -> Result<ModelSpec, JobError> {
    let name = restored.model.as_deref().unwrap_or("a model without name");
    match match_model(restored, &catalog.available) {
        Some(found) => {
            if !found.is_same {
                warnings.push(format!(
                    "It was made with {name}, which is not on this computer: {} is used instead",
                    found.spec.name
                ));
            }
            Ok(found.spec.clone())
        }
        None => Err(JobError::new(
            JobErrorKind::BadModel,
            format!("the file was made with {name}, and this computer has no model of that family"),
        )
        .advise("Choose a model with --model; `safelight models` lists them")),
    }
}

/// What is wrong with a file that says nothing of how it was made.
pub(super) fn says_nothing(file: &Path) -> JobError {
    JobError::new(
        JobErrorKind::InvalidRequest,
        format!(
            "this file has no settings of Safelight or a similar program: {}",
            file.display()
        ),
    )
}
