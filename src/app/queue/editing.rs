//! A job's settings in the form again: to change it in place, or to make it once more.

use std::path::PathBuf;

use safelight_core::job::{GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId};

use crate::app::App;
use crate::app::inputs::{Inputs, Placing, Slot};
use crate::app::queue::WaitingJob;
use crate::app::queue::list::Removed;
use crate::app::state::Severity;

/// The job that is changed, and what stood in the form before.
pub struct Editing {
    pub id: JobId,
    form: GenerateForm,
    inputs: Inputs,
    is_seed_used: bool,
}

impl Editing {
    /// What its user wrote before, and gets back.
    pub(in crate::app) fn own_form(&self) -> &GenerateForm {
        &self.form
    }

    /// The same with its places, where a file may still arrive.
    pub(in crate::app) fn own(&mut self) -> (&mut GenerateForm, &mut Inputs) {
        (&mut self.form, &mut self.inputs)
    }
}

/// What the user wrote, where choices and wildcards were settled in it.
fn as_written(request: &GenerateRequest) -> GenerateRequest {
    let mut request = request.clone();
    if let Some(template) = request.prompt_template.take() {
        request.prompt = template;
    }
    if let Some(template) = request.negative_prompt_template.take() {
        request.negative_prompt = template;
    }
    request
}

impl App {
    /// Puts a job's settings and inputs into the form. It does not start while it is changed.
    pub(super) fn edit_job(&mut self, id: JobId) {
        if self.session.queue.edited() == Some(id) {
            return;
        }
        self.end_edit();
        let Some(request) = self.queue.idle_job(id).map(|job| as_written(&job.request)) else {
            return;
        };
        let is_known = |model: &str| {
            let mut all = self.session.models.all().iter();
            all.any(|spec| spec.id == model)
        };
        if !is_known(&request.model) {
            let text = format!("the model of this job is not here: {}", request.model);
            let err = JobError::new(JobErrorKind::BadModel, text)
                .advise("Look for the models anew, or take the job out of the queue");
            self.session.notify(Severity::Warning, err);
            return;
        }
        self.session.queue.editing = Some(Editing {
            id,
            form: self.state.form.clone(),
            inputs: std::mem::take(&mut self.session.inputs),
            is_seed_used: self.session.is_seed_used,
        });
        self.take_over_request(&request);
    }

    /// Gives the form back what stood in it before a job was changed.
    pub(in crate::app) fn end_edit(&mut self) {
        if let Some(editing) = self.session.queue.editing.take() {
            self.state.form = editing.form;
            self.session.inputs = editing.inputs;
            self.session.is_seed_used = editing.is_seed_used;
            // What was read for the job's settings is not for these.
            self.session.restoring.forget();
            self.settle_model();
        }
    }

    /// Puts new jobs where the changed one stands; one that had stopped goes behind those that wait.
    pub(super) fn replace_edited(&mut self, jobs: Vec<WaitingJob>) {
        let Some(id) = self.session.queue.edited() else {
            return;
        };
        let (at, is_held) = match self.queue.remove(id) {
            Some(Removed::Waiting(at, job)) => (at, job.is_held),
            Some(Removed::Stopped(..) | Removed::Cancelled(_)) | None => {
                (self.queue.waiting.len(), false)
            }
        };
        for (index, mut job) in jobs.into_iter().enumerate() {
            job.is_held = is_held;
            self.queue.waiting.insert(at + index, job);
        }
        self.queue.touch();
        self.end_edit();
        "The job is changed".clone_into(&mut self.session.last_word);
    }

    /// The same job once more behind the first one, with another seed unless the form keeps its own.
    pub(super) fn duplicate_job(&mut self, id: JobId) {
        let Some(job) = self.queue.idle_job(id) else {
            return;
        };
        let mut request = as_written(&job.request);
        // The kind of file stays, the name does not.
        request.out = request
            .out
            .file_name()
            .map(Into::into)
            .unwrap_or(request.out);
        let num_used = u64::from(request.batch_size.max(1));
        request.seed = self.state.form.seed_mode.next(request.seed, num_used);
        let copy = WaitingJob {
            is_held: job.is_held,
            ..WaitingJob::new(request, job.device)
        };
        let at = self.queue.waiting.iter().position(|job| job.id == id);
        let at = at.map_or(self.queue.waiting.len(), |at| at + 1);
        self.queue.waiting.insert(at, copy);
        self.queue.touch();
    }

    /// Fills the form with what a result was made of, its pictures included.
    pub(in crate::app) fn take_over_request(&mut self, request: &GenerateRequest) {
        self.state.form = GenerateForm::from(request);
        self.session.is_seed_used = false;
        // What is on its way belongs to what stood here before.
        self.session.inputs.forget_opening();
        self.session.restoring.forget();
        let start = request.extend.as_ref().or(request.image.as_ref());
        for (slot, wanted) in [
            (Slot::Start, start),
            (Slot::End, request.last_image.as_ref()),
            (Slot::Mask, request.mask.as_ref()),
        ] {
            let shown = self.session.inputs.get(slot);
            let shown = shown.map(|input| input.source.path());
            if shown == wanted.map(PathBuf::as_path) {
                continue;
            }
            // Also where the other cannot be opened.
            self.session.inputs.remove(slot);
            if let Some(path) = wanted {
                let placing = Placing {
                    slot: Some(slot),
                    keeps_size: true,
                    ..Placing::default()
                };
                self.open_paths(vec![path.clone()], placing);
            }
        }
    }
}
