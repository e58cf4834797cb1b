//! `--from FILE` for other programs' files.
//!
//! Given arguments take precedence. The model is the closest installed one, unless one is named.

use safelight_core::catalog::ModelCatalog;
use safelight_core::fitting::{find, find_controls};
use safelight_core::job::{ControlSettings, GenerateForm, JobError, JobErrorKind};
use safelight_core::model::ModelSpec;
use safelight_core::restore::{ForeignSettings, match_model};

use super::args::GenerateArgs;
use crate::cli::CliEnvironment;

impl GenerateArgs {
    /// Takes over settings that these arguments leave open; returns a sentence for each that is not used.
    pub(super) fn with_restored(
        mut self,
        restored: &ForeignSettings,
        environment: &CliEnvironment,
    ) -> Result<(Self, Vec<String>), JobError> {
        let with_loras = self.loras.is_empty();
        let mut fitted = fit(restored, with_loras, self.model.as_deref(), environment)?;
        self.model = Some(fitted.spec.id);
        let mut form = fitted.form;
        if self.image.is_none()
            && self.source_video.is_none()
            && let Some(strength) = form.sampling.strength.take().filter(|it| *it < 1.0)
            && self.sampling.strength.is_none()
        {
            fitted.warnings.push(format!(
                "Its denoising strength, {strength}, is not used: it needs a start image (--image)"
            ));
        }
        // One edge of another size goes with the model's aspect, and not with the file's.
        if self.width.is_some() || self.height.is_some() {
            (form.width, form.height) = (None, None);
        }
        let plain = ControlSettings::default();
        let given = self
            .controls
            .iter_mut()
            .filter(|control| control.settings == plain);
        for (control, settings) in given.zip(fitted.controls) {
            control.settings = settings;
        }
        let has_own_prompt = self.prompt.is_some() || self.prompts_file.is_some();
        self.needs_prompt = restored.prompt.is_none() && !has_own_prompt;
        self.base = form;
        Ok((self, fitted.warnings))
    }
}

/// Settings of another program's file as a model takes them.
pub(in crate::cli) struct FittedSettings {
    pub spec: ModelSpec,
    pub form: GenerateForm,
    /// Settings of its controls, whose images are not in the file.
    pub controls: Vec<ControlSettings>,
    /// A sentence for each setting that is not used.
    pub warnings: Vec<String>,
}

/// Fits settings to a model, else to the installed one that comes nearest. Without LoRAs where others are used.
pub(in crate::cli) fn fit(
    restored: &ForeignSettings,
    with_loras: bool,
    model: Option<&str>,
    environment: &CliEnvironment,
) -> Result<FittedSettings, JobError> {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    let mut warnings = Vec::new();
    let spec = match model {
        Some(model) => catalog.find(model)?,
        None => nearest(restored, &catalog, &mut warnings)?,
    };
    let mut restored = restored.clone();
    let (mut files, mut networks) = (Vec::new(), Vec::new());
    if !with_loras {
        restored.loras.clear();
    } else if !restored.loras.is_empty() {
        files = find(&environment.paths, environment.settings());
    }
    if !restored.controls.is_empty() {
        networks = find_controls(&environment.paths, environment.settings());
    }
    let (form, controls, notes) = restored.fit_to(&spec, &files, &networks);
    warnings.extend(notes);
    Ok(FittedSettings {
        spec,
        form,
        controls,
        warnings,
    })
}

/// The installed model that comes nearest to the file's.
fn nearest(
    restored: &ForeignSettings,
    catalog: &ModelCatalog,
    warnings: &mut Vec<String>,
) -> Result<ModelSpec, JobError> {
    match match_model(restored, &catalog.available) {
        Some(found) => {
            if !found.is_same {
                warnings.push(restored.replaced_by(&found.spec.name));
            }
            Ok(found.spec.clone())
        }
        None => Err(JobError::new(
            JobErrorKind::BadModel,
            match &restored.model {
                Some(name) => format!(
                    "the file was made with {name}, and this computer has no model of that family"
                ),
                None => "the file does not say with which model it was made".to_owned(),
            },
        )
        .advise("Choose a model with --model; `safelight models` lists them")),
    }
}
