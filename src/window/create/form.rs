//! The form with everything that a job of it is made from: what its widgets hold, the images in their places, and what
//! the settings say of every job.
//!
//! The form itself, its checks and its jobs are [`GenerateForm`]'s; files are not looked at here.

use safelight_core::job::{FormNotice, JobGrid, jobs_of};

use crate::window::create::undo::{FormChange, FormSnapshot};
use crate::window::inputs::InputSlots;
use crate::window::library::models::ModelChoice;
use crate::window::prelude::*;

/// Jobs that are made while the form is written: as many as a grid has at most.
const MAX_LOOKED_AT: usize = 400;
/// Lines of a prompt that become jobs with one click.
const MAX_LINES: usize = 500;

/// Word for what a model makes.
pub fn result_word(makes_images: bool) -> &'static str {
    if makes_images { "image" } else { "video" }
}

pub(crate) fn whole_form(
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
    let extension = settings.extension(form.makes_image(spec));
    GenerateForm {
        out: PathBuf::from("result").with_extension(extension),
        is_out_automatic: true,
        options: settings.options_over(form.options.clone()),
        ..form
    }
}

/// Empties the form and the places of its images, but for the model, whose own values it then has.
pub(crate) fn clear_form(inputs: &mut InputSlots, cx: &mut AppContext) {
    let Some(spec) = cx.model().cloned() else {
        return;
    };
    let mut form = GenerateForm::default();
    form.clear_to(&spec);
    cx.replace_form(form);
    for input in inputs.all() {
        cx.push(PlayerCommand::LeaveInput(input.source.path().to_path_buf()));
    }
    inputs.placed = Default::default();
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
    pub(crate) fn follow(
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
            Ok(WindowJobs { requests, .. }) => {
                self.number = requests.len();
                self.requests = requests;
            }
            // Problems of one of several prompts are reported on submit.
            Err(errors) if !form.grid.is_empty() => self.errors = errors,
            Err(_) => {}
        }
    }
}

/// The jobs of a form, as [`jobs_of`] makes them.
pub(crate) struct WindowJobs {
    pub requests: Vec<GenerateRequest>,
    /// Each message once.
    pub notices: Vec<FormNotice>,
    pub num_seeds: u64,
    pub grids: Vec<JobGrid>,
}

pub(crate) fn window_jobs(
    form: &GenerateForm,
    spec: &ModelSpec,
    models: &ModelChoice,
) -> Result<WindowJobs, Vec<FieldError>> {
    let num_lines = form.prompts().len();
    if num_lines > MAX_LINES {
        return Err(vec![FieldError {
            field: "prompt",
            message: format!(
                "{num_lines} lines are too many: one prompt per line makes at most {MAX_LINES} jobs"
            ),
        }]);
    }
    let made = jobs_of(form, spec, &|name| models.find(name))?;
    let (mut requests, mut notices) = (Vec::new(), Vec::<FormNotice>::new());
    for job in made.jobs {
        requests.push(job.request);
        for notice in job.notices {
            if notices.iter().all(|it| it.message != notice.message) {
                notices.push(notice);
            }
        }
    }
    Ok(WindowJobs {
        requests,
        notices,
        num_seeds: made.num_seeds,
        grids: made.grids,
    })
}

impl FormSnapshot {
    pub fn new(inputs: &InputSlots, cx: &AppContext) -> Self {
        Self {
            form: cx.form.clone(),
            inputs: inputs.placed.clone(),
        }
    }
}

impl FormChange {
    /// Takes the change back, but for what was changed since. Returns how to get the present state again.
    pub fn undo(self, inputs: &mut InputSlots, cx: &mut AppContext) -> Self {
        let now = FormSnapshot::new(inputs, cx);
        let mut result = self.before;
        if let Some(after) = &self.after {
            result.form = keep_newer(result.form, &after.form, &now.form);
            result.inputs.keep_newer(&after.inputs, &now.inputs);
        }
        cx.form = result.form.clone();
        inputs.placed = result.inputs.clone();
        cx.notices.end(&NoticeCause::Restored);
        Self {
            before: now,
            after: Some(result),
            edited: self.edited,
            tab: self.tab,
        }
    }
}

/// `before` with those fields of `now` that differ from `after`.
fn keep_newer(before: GenerateForm, after: &GenerateForm, now: &GenerateForm) -> GenerateForm {
    let fields = |form| match serde_json::to_value(form) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (after, now) = (fields(after), fields(now));
    let mut kept = fields(&before);
    for key in after.keys().chain(now.keys()) {
        match now.get(key) {
            newer if newer == after.get(key) => {}
            Some(newer) => drop(kept.insert(key.clone(), newer.clone())),
            None => drop(kept.remove(key)),
        }
    }
    serde_json::from_value(kept.into()).unwrap_or(before)
}
