//! What `--from FILE` takes over of a file that another program made.
//!
//! Arguments that are given stay. The model is the installed one that comes nearest, unless one is named.

use std::path::Path;

use safelight_core::catalog::Catalog;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::lora::find;
use safelight_core::model::ModelSpec;
use safelight_core::restore::{Restored, match_model};

use super::args::GenerateArgs;
use super::shift::Shift;
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
        let (form, notes) = restored.form_for(&spec);
        warnings.extend(notes);
        if self.prompt.is_none() && self.prompts_file.is_none() {
            self.prompt = restored.prompt.clone();
        }
        self.negative = self.negative.or(form.negative_prompt);
        self.strength = self
            .strength
            .or_else(|| form.strength.filter(|_| self.image.is_some()));
        if self.width.is_none() && self.height.is_none() {
            (self.width, self.height) = (form.width, form.height);
        }
        if self.frames.is_none() && self.seconds.is_none() {
            (self.frames, self.seconds) = (form.num_frames, form.secs);
        }
        self.sampling = self.sampling.or(form.section_order);
        self.step_cache = self.step_cache.or(form.step_cache);
        self.fps = self.fps.or(form.fps);
        // A preset stands for all of these.
        if self.preset.is_none() {
            self.steps = self.steps.or(form.num_steps);
            self.guidance = self.guidance.or(form.guidance_scale);
            self.guidance_2 = self.guidance_2.or(form.guidance_scale_2);
            self.true_cfg = self.true_cfg.or(form.true_cfg_scale);
            self.shift = self.shift.or_else(|| form.shift.map(Shift::Fixed));
            self.sampler = self.sampler.or(form.sampler);
            self.schedule = self.schedule.or(restored.sigma_schedule);
        }
        self.seed = self.seed.or(restored.seed);
        if self.loras.is_empty() && !restored.loras.is_empty() {
            let files = find(&surroundings.paths, surroundings.settings());
            let (found, missing) = restored.find_loras(&files);
            self.loras = found;
            if !missing.is_empty() {
                warnings.push(format!(
                    "LoRAs that are not on this machine are left out, give them with --lora FILE:STRENGTH: {}",
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
                    "It was made with {name}, which is not here: {} is used instead",
                    found.spec.name
                ));
            }
            Ok(found.spec.clone())
        }
        None => Err(JobError::new(
            JobErrorKind::BadModel,
            format!("the file was made with {name}, and no model of its family is here"),
        )
        .advise("Name a model with --model; `safelight models` lists them")),
    }
}

/// What is wrong with a file that says nothing of how it was made.
pub(super) fn says_nothing(file: &Path) -> JobError {
    JobError::new(
        JobErrorKind::InvalidRequest,
        format!(
            "expected a file that Safelight or a program like it made, found no settings in {}",
            file.display()
        ),
    )
}
