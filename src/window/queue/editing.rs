//! A job's settings in the form again: to change it in place, or to make it once more.

use crate::window::inputs::InputSlots;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::{RemovedJob, WaitingJob};

pub struct EditedJob {
    pub id: JobId,
    /// The user's form, which is restored afterwards.
    pub(in crate::window) form: GenerateForm,
    pub(in crate::window) inputs: InputSlots,
    is_seed_used: bool,
}

impl EditedJob {
    /// A file may still arrive for what stood there before.
    pub(super) fn poll(&mut self, cx: &mut AppContext) {
        self.inputs.poll_for(&mut self.form, false, cx);
    }
}

impl JobQueue {
    /// Puts a job's settings and inputs into the form. It does not start while it is changed.
    pub(super) fn edit(&mut self, id: JobId, inputs: &mut InputSlots, cx: &mut AppContext) {
        if self.edited() == Some(id) {
            return;
        }
        self.end_edit(inputs, cx);
        let job = self.idle_job(id).and_then(|job| job.request.generate());
        let Some(request) = job.cloned() else {
            return;
        };
        if cx.models.get(&request.model).is_none() {
            let text = format!("the model of this job is not here: {}", request.model);
            let notice = UserNotice::warning(text, "Search for models again, or remove the job");
            return cx.notices.show(notice.about(NoticeCause::Models));
        }
        self.editing = Some(EditedJob {
            id,
            form: cx.form.clone(),
            inputs: std::mem::take(inputs),
            is_seed_used: cx.is_seed_used,
        });
        inputs.take_over(&request, cx);
        // The prompts of a job that is not begun may be templates, unlike those of a result.
        if request.prompt_template.is_none() {
            cx.form.literal_prompt = None;
        }
        if request.negative_prompt_template.is_none() {
            cx.form.literal_negative = None;
        }
    }

    pub(super) fn end_edit(&mut self, inputs: &mut InputSlots, cx: &mut AppContext) {
        if let Some(editing) = self.editing.take() {
            cx.replace_form(editing.form);
            *inputs = editing.inputs;
            cx.is_seed_used = editing.is_seed_used;
        }
    }

    /// Puts new jobs in the place of the edited one; those of a stopped one go to the end of the queue.
    pub(super) fn replace_edited(
        &mut self,
        jobs: impl Iterator<Item = WaitingJob>,
        inputs: &mut InputSlots,
        cx: &mut AppContext,
    ) {
        let Some(id) = self.edited() else {
            return;
        };
        let (at, is_held) = match self.remove(id) {
            Some(RemovedJob::Waiting(at, job)) => (at, job.is_held),
            Some(RemovedJob::Stopped(..) | RemovedJob::Cancelled(_)) | None => {
                (self.waiting.len(), false)
            }
        };
        for (index, mut job) in jobs.enumerate() {
            job.is_held = is_held;
            self.waiting.insert(at + index, job);
        }
        self.touch();
        self.end_edit(inputs, cx);
        cx.say("The job was changed");
    }

    /// Queues a copy after the job, with another seed unless the form keeps its seed.
    pub(super) fn duplicate(&mut self, id: JobId, cx: &AppContext) {
        let Some(job) = self.idle_job(id) else {
            return;
        };
        let mut request = job.request.clone();
        if let JobRequest::Generate(request) = &mut request {
            // It is no second one of a grid's cell.
            request.grid = None;
            let num_used = u64::from(request.batch_size.max(1));
            request.seed = cx.form.seed_mode.next(request.seed, num_used);
        }
        let copy = WaitingJob {
            is_held: job.is_held,
            ..WaitingJob::new(request, job.device)
        };
        self.insert_behind(id, copy);
    }

    /// Puts a job after another, or last if that one does not wait.
    fn insert_behind(&mut self, id: JobId, copy: WaitingJob) {
        let at = self.waiting.iter().position(|job| job.id == id);
        let at = at.map_or(self.waiting.len(), |at| at + 1);
        self.waiting.insert(at, copy);
        self.touch();
    }
}
