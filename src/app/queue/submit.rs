//! How what the form says becomes a waiting job.

use std::path::PathBuf;

use safelight_core::catalog::ModelSpec;
use safelight_core::job::{
    GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId, Notice, Validated, prompt,
    random_seed,
};

use crate::app::App;
use crate::app::background::{OutputWish, Task};
use crate::app::form::takes_batches;
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
        if self.session.is_seed_used && !self.state.form.is_seed_locked {
            self.roll_seed();
        }
        let sources = self.session.inputs.sources();
        let checked = self.state.form.to_request(&spec, sources, &self.settings);
        let Ok(Validated { request, notices }) = checked else {
            // What is wrong stands beside the fields.
            return;
        };
        let Some(folder) = self.output_folder(&spec) else {
            let err = JobError::new(JobErrorKind::Disk, "no folder for results is known")
                .advise("Choose one in the settings");
            self.session.notify(Severity::Error, err);
            return;
        };
        // Each picture of a batch is to choose for itself.
        let texts = [&request.prompt, &request.negative_prompt];
        let chooses = texts.into_iter().any(|text| prompt::has_choices(text));
        let repeats = if takes_batches(&spec) && !chooses {
            1
        } else {
            self.state.form.batch_size.max(1)
        };
        let batch_size = if chooses { 1 } else { request.batch_size };
        let mut is_queued = false;
        for index in 0..repeats {
            let request = GenerateRequest {
                seed: request.seed.wrapping_add(u64::from(index)),
                batch_size,
                ..request.clone()
            };
            is_queued |= self.queue_job(request, &spec, folder.clone());
        }
        if is_queued {
            self.state.form.settle(&request);
            self.session.is_seed_used = true;
            self.session.page = Page::Watch;
            self.session.is_view_shown = true;
            self.session.last_word.clear();
            // What was said of an earlier one is done with.
            self.session
                .notices
                .retain(|notice| notice.severity != Severity::Info);
            self.say_changes(&spec.name, &notices);
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

    /// Pictures have a folder of their own.
    fn output_folder(&self, spec: &ModelSpec) -> Option<PathBuf> {
        let output = &self.settings.output;
        let is_picture = self.state.form.makes_picture(spec);
        match (&self.paths, is_picture) {
            (Some(paths), true) => Some(output.pictures_folder_or_default(paths)),
            (Some(paths), false) => Some(output.folder_or_default(paths)),
            (None, true) => output.pictures_folder.clone(),
            (None, false) => output.folder.clone(),
        }
    }

    pub(in crate::app) fn roll_seed(&mut self) {
        self.state.form.seed = random_seed().to_string();
        self.session.is_seed_used = false;
    }
}
