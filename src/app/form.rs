//! The form with everything that a job of it is made from: what its widgets hold, the pictures in their places, and what
//! the settings say of every job.
//!
//! The form itself, its checks and its jobs are [`GenerateForm`]'s; files are not looked at here.

use std::path::PathBuf;

use safelight_core::job::{FieldError, GenerateForm, Jobs, jobs_of};
use safelight_core::model::ModelSpec;
use safelight_core::settings::Settings;

use crate::app::inputs::Sources;

/// Lines of a prompt that become jobs with one click.
const MAX_LINES: usize = 500;

/// What a model makes, in the words of the interface.
pub fn thing_of(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.family.makes_pictures) {
        "picture"
    } else {
        "clip"
    }
}

/// The form as jobs are made of it. An empty prompt means the model's first example, which the prompt field shows as
/// its hint.
pub(in crate::app) fn whole_form(
    form: &GenerateForm,
    spec: &ModelSpec,
    sources: Sources<'_>,
    settings: &Settings,
) -> GenerateForm {
    let mut form = GenerateForm {
        prompt: form.effective_prompt(spec).to_owned(),
        image: sources.image.cloned(),
        last_image: sources.last_image.cloned(),
        extend: sources.extend.cloned(),
        mask: sources.mask.cloned(),
        ..form.clone()
    }
    .as_shown(spec);
    form.take_settings(settings);
    let extension = form.extension(spec, settings);
    form.out = PathBuf::from("result").with_extension(extension);
    form
}

/// All jobs of a whole form, as many as one click may make.
pub(in crate::app) fn window_jobs(
    form: &GenerateForm,
    spec: &ModelSpec,
) -> Result<Jobs, Vec<FieldError>> {
    let num_lines = form.prompts().len();
    if num_lines > MAX_LINES {
        let message =
            format!("expected at most {MAX_LINES} lines for one job a line, found {num_lines}");
        return Err(vec![FieldError {
            field: "prompt",
            message,
        }]);
    }
    jobs_of(form, spec)
}
