//! Whose turn it is: a waiting job gets its file's name, then the worker, and at its end the next one follows.

use safelight_core::job::{CancelToken, JobError, JobErrorKind, JobId};

use crate::app::App;
use crate::app::background::{FoundOutput, OutputWish, Task};
use crate::app::queue::list::Removed;
use crate::app::queue::{JobQueue, PauseWish, RunningJob, Stopped, StoppedJob, WaitingJob};
use crate::app::state::Severity;
use crate::worker::WorkerCommand;

impl App {
    /// Has the next file name looked for, one at a time: any number of jobs may wait.
    pub(super) fn name_next_output(&mut self) {
        if self.session.queue.naming.is_some() {
            return;
        }
        let nameless = self.queue.waiting.iter().find(|job| !job.has_output);
        let Some(job) = nameless else {
            return;
        };
        let request = &job.request;
        let Some(folder) = self.output_folder(request.makes_pictures()) else {
            return;
        };
        let wildcards = (!job.has_prompts).then(|| {
            let paths = self.paths.as_ref();
            let folders = paths.map(|paths| self.settings.wildcard_folders(paths));
            folders.unwrap_or_default()
        });
        let wish = OutputWish {
            id: job.id,
            folder,
            request: Box::new(request.clone()),
            wildcards,
        };
        let id = job.id;
        if self.background.run(Task::FindOutput(wish)) {
            self.session.queue.naming = Some(id);
        }
    }

    pub(in crate::app) fn take_output(&mut self, id: JobId, found: Result<FoundOutput, JobError>) {
        self.session.queue.naming = None;
        let Some(at) = self.queue.waiting.iter().position(|job| job.id == id) else {
            return;
        };
        self.queue.touch();
        match found {
            Ok(found) => {
                let job = &mut self.queue.waiting[at];
                job.request = *found.request;
                job.has_output = true;
                let model = job.request.model.clone();
                self.say_changes(&model, &found.notices);
            }
            Err(err) => {
                if let Some(job) = self.queue.waiting.remove(at) {
                    let why = Stopped::Failed(err.clone());
                    self.queue.stop(StoppedJob::new(job, why));
                }
                self.session.notify(Severity::Error, err);
            }
        }
    }

    /// Gives the worker the next job when it has none.
    pub(in crate::app) fn start_next(&mut self) {
        if self.queue.running.is_some() || self.queue.is_paused {
            return;
        }
        let edited = self.session.queue.edited();
        let ready = self.queue.next(edited);
        let ready = ready.filter(|at| self.queue.waiting[*at].has_output);
        let Some(job) = ready.and_then(|at| self.queue.waiting.remove(at)) else {
            return;
        };
        let cancel = CancelToken::default();
        let command = WorkerCommand::Generate {
            id: job.id,
            request: Box::new(job.request.clone()),
            device: job.device,
            cancel: cancel.clone(),
            resume: job.resume.clone(),
        };
        if self.worker.try_send(command).is_err() {
            self.lose_worker(job);
            return;
        }
        self.queue.running = Some(RunningJob {
            device: job.device,
            ..RunningJob::new(job.id, job.request, cancel)
        });
        self.queue.touch();
        if !self.session.watch.is_chosen {
            self.show_live();
            self.session.screen.clear();
        }
    }

    /// The jobs stay for the next start of the program.
    fn lose_worker(&mut self, job: WaitingJob) {
        self.queue.waiting.push_front(job);
        self.queue.is_paused = true;
        let log = self.paths.as_ref().map_or_else(String::new, |paths| {
            format!("; the log says why: {}", paths.log_file().display())
        });
        let err = JobError::new(
            JobErrorKind::Internal,
            "the worker of this window has ended",
        )
        .advise(format!(
            "Close Safelight and open it again: the queue is kept{log}"
        ));
        self.session.notify(Severity::Error, err);
    }

    /// What is common to all ends of a job.
    pub(in crate::app) fn end_turn(&mut self) {
        self.session.queue.has_worked = true;
        if std::mem::take(&mut self.queue.pauses_after) {
            self.queue.is_paused = true;
        }
        self.queue.touch();
    }

    /// A cancelled job can be put back, to be made from its beginning.
    pub(in crate::app) fn keep_cancelled(&mut self, mut job: WaitingJob) {
        // The old number has had its end.
        job.id = JobId::next();
        self.session.queue.removed = vec![Removed::Cancelled(job)];
    }

    /// A job that was paused stands first again, or beside the queue when it alone was.
    pub(in crate::app) fn put_off(&mut self, job: &RunningJob) {
        let folder = self.paths.as_ref().map(|paths| paths.jobs());
        let idle = WaitingJob {
            resume: folder.map(|jobs| jobs.join(job.id.to_string())),
            ..job.to_idle()
        };
        if job.pause == Some(PauseWish::Queue) {
            self.queue.waiting.push_front(idle);
        } else {
            self.queue.stop(StoppedJob::new(idle, Stopped::Paused));
            // How far it is, its folder tells.
            self.find_left();
        }
        "Paused; it can go on".clone_into(&mut self.session.last_word);
    }
}

impl RunningJob {
    /// The job as it stands in the queue when it does not run.
    pub(in crate::app) fn to_idle(&self) -> WaitingJob {
        WaitingJob {
            id: self.id,
            has_output: true,
            ..WaitingJob::new(self.request.clone(), self.device)
        }
    }
}

impl JobQueue {
    /// Keeps a job that failed, to be tried again.
    pub(in crate::app) fn fail(&mut self, job: &RunningJob, err: JobError) {
        let idle = WaitingJob {
            resume: err.kept.clone(),
            ..job.to_idle()
        };
        self.stop(StoppedJob::new(idle, Stopped::Failed(err)));
    }
}
