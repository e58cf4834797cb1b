//! The form with everything that a job of it is made from: what its widgets hold, the pictures in their places, and what
//! the settings say of every job.
//!
//! The form itself, its checks and its jobs are [`GenerateForm`]'s; files are not looked at here.

use std::path::PathBuf;

use safelight_core::job::{ExpandedJobs, jobs_of};

use crate::app::inputs::InputSlots;
use crate::app::models::ModelChoice;
use crate::app::prelude::*;
use crate::app::undo::FormBefore;

/// Jobs that are made while the form is written: as many as a grid has at most.
const MAX_LOOKED_AT: usize = 400;
/// Lines of a prompt that become jobs with one click.
const MAX_LINES: usize = 500;

pub fn thing_of(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.family.makes_pictures) {
        "picture"
    } else {
        "clip"
    }
}

pub(in crate::app) fn whole_form(
    form: &GenerateForm,
    spec: &ModelSpec,
    inputs: FormInputs,
    settings: &Settings,
) -> GenerateForm {
    let form = GenerateForm {
        inputs,
        ..form.clone()
    }
    .as_shown(spec);
    let extension = settings.extension(form.makes_picture(spec));
    GenerateForm {
        out: PathBuf::from("result").with_extension(extension),
        is_out_automatic: true,
        options: settings.options_over(form.options.clone()),
        ..form
    }
}

/// Empties the form and the places of its pictures, but for the model, whose own values it then has.
pub(in crate::app) fn clear_form(inputs: &mut InputSlots, cx: &mut AppContext) {
    let Some(spec) = cx.model().cloned() else {
        return;
    };
    let mut form = GenerateForm::default();
    form.clear_to(&spec);
    cx.replace_form(form);
    for input in inputs.all() {
        cx.push(PlayerCommand::LeaveInput(input.source.path().to_path_buf()));
    }
    inputs.clear();
    inputs.settle_offers(cx);
    cx.say("The form is empty");
}

/// All jobs of the form, updated when it changes: for the estimated time, and for problems of a grid before it is
/// submitted.
#[derive(Default)]
pub struct FormJobs {
    of: Option<(GenerateForm, u64)>,
    /// Of several jobs all; none where there is one, or more than are looked at.
    pub requests: Vec<GenerateRequest>,
    pub number: usize,
    /// Another one whenever they are others.
    pub revision: u64,
    pub errors: Vec<FieldError>,
}

impl FormJobs {
    /// For a whole form that is right as far as its first job goes, which is this one.
    pub(in crate::app) fn follow(
        &mut self,
        form: &GenerateForm,
        first: &GenerateRequest,
        spec: &ModelSpec,
        models: &ModelChoice,
    ) {
        let is_known = |(of, number): &(GenerateForm, u64)| *number == models.number && of == form;
        if self.of.as_ref().is_some_and(is_known) {
            return;
        }
        self.of = Some((form.clone(), models.number));
        self.revision += 1;
        (self.requests, self.errors) = (Vec::new(), Vec::new());
        let num_results = form.num_results(spec);
        self.number = num_results.div_ceil(first.batch_size.max(1) as usize);
        if !(2..=MAX_LOOKED_AT).contains(&num_results) {
            return;
        }
        match window_jobs(form, spec, models) {
            Ok(ExpandedJobs { jobs, .. }) => {
                self.requests = jobs.into_iter().map(|job| job.request).collect();
                self.number = self.requests.len();
            }
            // Problems of one of several prompts are reported on submit.
            Err(errors) if !form.grid.is_empty() => self.errors = errors,
            Err(_) => {}
        }
    }
}

pub(in crate::app) fn window_jobs(
    form: &GenerateForm,
    spec: &ModelSpec,
    models: &ModelChoice,
) -> Result<ExpandedJobs, Vec<FieldError>> {
    let num_lines = form.prompts().len();
    if num_lines > MAX_LINES {
        return Err(vec![FieldError {
            field: "prompt",
            message: format!(
                "{num_lines} lines are too many: one prompt per line makes at most {MAX_LINES} jobs"
            ),
        }]);
    }
    jobs_of(form, spec, &|name| models.find(name))
}

impl FormBefore {
    /// Puts it back; where that cannot be, says why.
    pub fn put_back(
        self,
        inputs: &mut InputSlots,
        edited: Option<JobId>,
        cx: &mut AppContext,
    ) -> Result<(), &'static str> {
        if self.edited != edited {
            return Err("the form now holds the settings of another job, so it was not changed");
        }
        if let Some(before) = self.inputs {
            cx.form = self.form;
            inputs.put_back(before);
            cx.notices.end(&NoticeCause::Restored);
            return Ok(());
        }
        // Later edits stay.
        let now = std::mem::take(&mut cx.form);
        let (negative_prompt, literal_negative) = if now.negative_prompt == self.negative_after {
            (self.form.negative_prompt, self.form.literal_negative)
        } else {
            (now.negative_prompt, now.literal_negative)
        };
        cx.form = GenerateForm {
            prompt: now.prompt,
            literal_prompt: now.literal_prompt,
            negative_prompt,
            literal_negative,
            is_one_a_line: now.is_one_a_line,
            loras: now.loras,
            seed: now.seed,
            typed_seed: now.typed_seed,
            seed_mode: now.seed_mode,
            ..self.form
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_what_was_written_since_stays() {
        let (mut cx, mut inputs) = (AppContext::alone(), InputSlots::default());
        let form = GenerateForm {
            num_frames: Some(33),
            negative_prompt: Some("blurred".to_owned()),
            ..GenerateForm::default()
        };
        let before = |edited| FormBefore {
            form: form.clone(),
            inputs: None,
            negative_after: None,
            edited,
        };
        cx.form.prompt = "a boat".to_owned();
        before(None).put_back(&mut inputs, None, &mut cx).unwrap();
        assert_eq!(cx.form.num_frames, Some(33));
        assert_eq!(cx.form.prompt, "a boat");
        assert_eq!(cx.form.negative_prompt.as_deref(), Some("blurred"));
        cx.form.negative_prompt = Some("dark".to_owned());
        before(None).put_back(&mut inputs, None, &mut cx).unwrap();
        assert_eq!(cx.form.negative_prompt.as_deref(), Some("dark"));
        let of_a_job = before(Some(JobId(1))).put_back(&mut inputs, None, &mut cx);
        let why = "the form now holds the settings of another job, so it was not changed";
        assert_eq!(of_a_job.err(), Some(why));
    }
}
