//! How what the form says becomes a waiting job.

use std::path::PathBuf;

use safelight_core::catalog::ModelSpec;
use safelight_core::job::{
    FieldError, GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId, Notice, random_seed,
};

use crate::app::App;
use crate::app::background::{OutputWish, Task};
use crate::app::queue::WaitingJob;
use crate::app::state::{Page, Severity};

impl App {
    pub(in crate::app) fn submit(&mut self) {
        let Some(spec) = self.session.model(&self.state.form).cloned() else {
            return;
        };
        if self.state.form.prompt.trim().is_empty() {
            self.state.form.prompt = self.state.form.effective_prompt(&spec).to_owned();
        }
        if self.session.is_seed_used {
            self.state.form.advance_seed(self.session.num_seeds_used);
            self.session.is_seed_used = false;
        }
        let sources = self.session.inputs.sources();
        let made = match self.state.form.to_requests(&spec, sources, &self.settings) {
            Ok(made) => made,
            Err(errors) => {
                self.say_refused(&errors);
                return;
            }
        };
        let Some(folder) = self.output_folder() else {
            let err = JobError::new(JobErrorKind::Disk, "no folder for results is known")
                .advise("Choose one in the settings");
            self.session.notify(Severity::Error, err);
            return;
        };
        let mut is_queued = false;
        let first = made.requests.first().cloned();
        for request in made.requests {
            is_queued |= self.queue_job(request, &spec, folder.clone());
        }
        if is_queued {
            if let Some(first) = first {
                self.state.form.settle(&first);
            }
            self.remember_prompt(&spec);
            self.session.is_seed_used = true;
            self.session.num_seeds_used = made.num_seeds;
            self.session.page = Page::Watch;
            self.session.last_word.clear();
            // What was said of an earlier one is done with.
            self.session
                .notices
                .retain(|notice| notice.severity != Severity::Info);
            self.say_changes(&spec.name, &made.notices);
        }
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

    /// Lets a job go on behind those that wait. It has its file's name already.
    pub(in crate::app) fn resume(&mut self, id: JobId) {
        let Some(at) = self.queue.left.iter().position(|job| job.id == id) else {
            return;
        };
        let left = self.queue.left.remove(at);
        self.queue.waiting.push_back(WaitingJob {
            id,
            request: left.request,
            device: self.settings.runtime.device,
            has_output: true,
            resume: Some(left.folder),
        });
    }

    /// Puts a job behind those that wait; its file is looked for meanwhile.
    fn queue_job(&mut self, request: GenerateRequest, spec: &ModelSpec, folder: PathBuf) -> bool {
        let id = JobId::next();
        let form = GenerateForm {
            prompt: request.prompt.clone(),
            negative_prompt: Some(request.negative_prompt.clone()),
            seed: request.seed,
            ..GenerateForm::default()
        };
        let wildcards = self
            .paths
            .as_ref()
            .map(|paths| self.settings.wildcard_folders(paths));
        let wish = OutputWish {
            id,
            folder,
            form: Box::new(form),
            wildcards: wildcards.unwrap_or_default(),
            extension: self.state.form.extension(spec, &self.settings),
        };
        let is_queued = self.background.run(Task::FindOutput(wish));
        if is_queued {
            self.queue.waiting.push_back(WaitingJob {
                id,
                request,
                device: self.settings.runtime.device,
                has_output: false,
                resume: None,
            });
        }
        is_queued
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

    fn output_folder(&self) -> Option<PathBuf> {
        let of_paths = || {
            self.paths
                .as_ref()
                .map(|paths| paths.videos.join("Safelight"))
        };
        self.settings.output.folder.clone().or_else(of_paths)
    }

    pub(in crate::app) fn roll_seed(&mut self) {
        self.state.form.seed = random_seed().to_string();
        self.session.is_seed_used = false;
    }
}
