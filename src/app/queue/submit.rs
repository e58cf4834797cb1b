//! How what the form says becomes waiting jobs.

use std::path::PathBuf;

use safelight_core::job::{
    FieldError, GenerateRequest, JobError, JobErrorKind, Jobs, Notice, random_seed,
};

use crate::app::App;
use crate::app::form::{whole_form, window_jobs};
use crate::app::queue::WaitingJob;
use crate::app::queue::desk::no_folder;
use crate::app::state::{Page, Severity};

impl App {
    pub(in crate::app) fn submit(&mut self) {
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            return;
        };
        let is_edit = self.session.queue.editing.is_some();
        if self.session.inputs.is_opening() {
            "The picture is still being opened".clone_into(&mut self.session.last_word);
            return;
        }
        let of_loras = self.session.loras.errors(&self.state.form);
        if !of_loras.is_empty() {
            self.say_refused(&of_loras);
            return;
        }
        if self.state.form.prompt.trim().is_empty() {
            self.state.form.prompt = self.state.form.effective_prompt(&spec).to_owned();
        }
        if self.session.is_seed_used {
            self.state.form.advance_seed(self.session.num_seeds_used);
            self.session.is_seed_used = false;
        }
        let sources = self.session.inputs.sources();
        let form = whole_form(&self.state.form, &spec, sources, &self.settings);
        let Jobs { jobs, num_seeds } = match window_jobs(&form, &spec) {
            Ok(made) => made,
            Err(errors) => {
                self.say_refused(&errors);
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
        if self.output_folder(form.makes_picture(&spec)).is_none() {
            self.session.notify(Severity::Error, no_folder());
            return;
        }
        self.remember_prompt(&spec);
        if is_edit {
            let device = self.settings.runtime.device;
            let jobs = requests
                .into_iter()
                .map(|request| WaitingJob::new(request, device));
            self.replace_edited(jobs.collect());
            self.say_changes(&spec.name, &notices);
            return;
        }
        if let Some(first) = requests.first() {
            self.state.form.settle(first);
        }
        self.queue_requests(requests);
        self.session.is_seed_used = true;
        self.session.num_seeds_used = num_seeds;
        self.session.page = Page::Watch;
        self.session.is_view_shown = true;
        self.session.last_word.clear();
        // What was said of an earlier one is done with.
        self.session
            .notices
            .retain(|notice| notice.severity != Severity::Info);
        self.say_changes(&spec.name, &notices);
    }

    /// A card for what no field says: one of several prompts is wrong.
    fn say_refused(&mut self, errors: &[FieldError]) {
        let is_said = |err: &FieldError| self.session.field_errors.contains(err);
        let unsaid: Vec<&str> = errors
            .iter()
            .filter(|err| !is_said(err))
            .map(|err| err.message.as_str())
            .collect();
        if !unsaid.is_empty() {
            let err = JobError::new(JobErrorKind::InvalidRequest, unsaid.join("; "))
                .advise("Nothing was queued. Correct the prompt, then press Generate again");
            self.session.notify(Severity::Error, err);
        }
    }

    /// Puts new jobs behind those that wait, and before those of an earlier run that nobody has let go on.
    pub(super) fn queue_requests(&mut self, requests: Vec<GenerateRequest>) {
        let had_waiting = !self.queue.waiting.is_empty();
        let held = self.queue.waiting.iter().position(|job| job.is_held);
        let first = held.unwrap_or(self.queue.waiting.len());
        for (at, request) in (first..).zip(requests) {
            let job = WaitingJob::new(request, self.settings.runtime.device);
            self.queue.waiting.insert(at, job);
        }
        self.queue.touch();
        let must_wait = self.queue.running.is_some() || self.queue.waiting.len() > 1;
        if must_wait && !had_waiting && !self.session.queue.was_closed {
            self.state.queue.is_open = true;
        }
    }

    /// One card with all that is made differently than the form said.
    pub(in crate::app) fn say_changes(&mut self, model: &str, notices: &[Notice]) {
        let messages: Vec<&str> = notices.iter().map(|it| it.message.as_str()).collect();
        let (summary, advice) = match messages.as_slice() {
            [] => return,
            [one] => ((*one).to_owned(), String::new()),
            several => (
                format!(
                    "{} values were changed to what {model} can make",
                    several.len()
                ),
                several.join("\n"),
            ),
        };
        let err = JobError::new(JobErrorKind::InvalidRequest, summary).advise(advice);
        self.session.notify(Severity::Info, err);
    }

    /// Pictures have a folder of their own.
    pub(super) fn output_folder(&self, is_picture: bool) -> Option<PathBuf> {
        let output = &self.settings.output;
        match (&self.paths, is_picture) {
            (Some(paths), true) => Some(output.pictures_folder_or_default(paths)),
            (Some(paths), false) => Some(output.folder_or_default(paths)),
            (None, true) => output.pictures_folder.clone(),
            (None, false) => output.folder.clone(),
        }
    }

    pub(in crate::app) fn roll_seed(&mut self) {
        self.state.form.set_seed(random_seed());
        self.session.is_seed_used = false;
    }
}
