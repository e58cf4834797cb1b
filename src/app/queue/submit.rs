//! How what the form says becomes waiting jobs.

use safelight_core::job::{FieldError, JobError, JobErrorKind, JobRequest, Jobs};
use safelight_core::prompts::PromptEntry;

use crate::app::commands::PromptCommand;
use crate::app::cx::Cx;
use crate::app::form::{whole_form, window_jobs};
use crate::app::inputs::Inputs;
use crate::app::loras::LoraShelf;
use crate::app::notices::{Cause, Severity};
use crate::app::queue::JobQueue;
use crate::app::queue::jobs::WaitingJob;
use crate::app::queue::naming::has_folder;
use crate::app::state::Page;

impl JobQueue {
    pub(super) fn submit(&mut self, inputs: &mut Inputs, loras: &LoraShelf, cx: &mut Cx) {
        let Some(spec) = cx.model().cloned() else {
            return;
        };
        if inputs.is_opening() {
            cx.say("The picture is still being opened");
            return;
        }
        let mut errors = loras.errors(&cx.form);
        errors.extend(inputs.control_errors(&spec, None));
        if !errors.is_empty() {
            say_refused(&errors, cx);
            return;
        }
        if std::mem::take(&mut cx.is_seed_used) {
            cx.form.advance_seed(cx.num_seeds_used);
        }
        let sources = inputs.sources_for(&cx.form, &spec);
        let form = whole_form(&loras.acting(&cx.form), &spec, sources, &cx.settings);
        let Jobs {
            jobs,
            num_seeds,
            grids,
        } = match window_jobs(&form, &spec, &cx.models) {
            Ok(made) => made,
            Err(errors) => {
                say_refused(&errors, cx);
                return;
            }
        };
        let mut notices = Vec::new();
        let mut requests = Vec::new();
        for job in jobs {
            requests.push(job.request);
            for notice in job.notices {
                // The same of each job is said once.
                if !notices.contains(&notice) {
                    notices.push(notice);
                }
            }
        }
        if !has_folder(&spec, cx) {
            return;
        }
        cx.notices.end(&Cause::Form);
        cx.push(PromptCommand::Remember(PromptEntry::of(&cx.form, &spec)));
        self.grids.begin(grids, &requests);
        if self.editing.is_some() {
            let device = cx.settings.runtime.device;
            let jobs = requests.into_iter();
            let jobs = jobs.map(|request| WaitingJob::new(request, device));
            self.replace_edited(jobs, inputs, cx);
            cx.notices.show_changes(&spec.name, &notices);
            return;
        }
        if let Some(first) = requests.first() {
            cx.form.settle(first);
        }
        self.add(requests, cx);
        cx.is_seed_used = true;
        cx.num_seeds_used = num_seeds;
        cx.page = Page::Watch;
        cx.is_view_shown = true;
        cx.last_word.clear();
        // What was said of an earlier one is done with.
        cx.notices.clear_hints();
        cx.notices.show_changes(&spec.name, &notices);
    }

    /// Puts new jobs behind those that wait, and before those of an earlier run that nobody has let go on.
    pub(in crate::app) fn add<R: Into<JobRequest>>(&mut self, requests: Vec<R>, cx: &Cx) {
        let had_waiting = !self.waiting.is_empty();
        let held = self.waiting.iter().position(|job| job.is_held);
        let first = held.unwrap_or(self.waiting.len());
        for (at, request) in (first..).zip(requests) {
            let job = WaitingJob::new(request, cx.settings.runtime.device);
            self.waiting.insert(at, job);
        }
        self.touch();
        let must_wait = self.running.is_some() || self.waiting.len() > 1;
        if must_wait && !had_waiting && !self.was_closed {
            self.panel.is_open = true;
        }
    }
}

/// A card for what no field says: of several prompts one is wrong.
fn say_refused(errors: &[FieldError], cx: &mut Cx) {
    let unsaid: Vec<&str> = errors
        .iter()
        .filter(|err| !cx.field_errors.contains(err))
        .map(|err| err.message.as_str())
        .collect();
    if !unsaid.is_empty() {
        let err = JobError::new(JobErrorKind::InvalidRequest, unsaid.join("; ")).advise(
            correct_advice(errors.iter().all(|err| err.field == "prompt")),
        );
        cx.tell_about(Cause::Form, Severity::Error, err);
    }
}

fn correct_advice(is_prompt: bool) -> &'static str {
    if is_prompt {
        "Nothing was added to the queue. Correct the prompt, then press Generate again"
    } else {
        "Nothing was added to the queue. Correct this in the form, then press Generate again"
    }
}
