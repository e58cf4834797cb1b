//! The queue on disk: loaded at the start, written after changes.

use std::sync::Arc;

use safelight_core::job::{QueueFile, QueuedJob, QueuedState};

use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::{StopReason, StoppedJob, WaitingJob};
use crate::window::queue::queue_saving::{RestoredQueue, queue_not_written_text, restore};
use crate::worker::{UnfinishedJob, left_in};

impl JobQueue {
    /// Reads the queue of the last run, and the jobs that can resume.
    pub(in crate::window) fn load(&mut self, cx: &AppContext) {
        if let Some(paths) = cx.paths.clone() {
            let restoring = cx.background.on_files(move || restore(&paths));
            self.restoring = restoring.unwrap_or_default();
        }
    }

    pub(super) fn restore(&mut self, restored: RestoredQueue, cx: &mut AppContext) {
        self.keeping.lock = restored.lock.map(Arc::new);
        self.forgotten.extend(restored.file.forgotten);
        self.grids.records.extend(restored.file.grids);
        let has_old = !restored.waiting.is_empty() || !restored.stopped.is_empty();
        self.waiting.extend(restored.waiting);
        self.stopped.extend(restored.stopped);
        self.take_left(restored.left, cx);
        self.touch();
        for problem in restored.problems {
            cx.notify(NoticeSeverity::Warning, problem);
        }
        if has_old || !self.stopped.is_empty() {
            self.reveal(cx);
        }
    }

    /// Searches for jobs that can resume.
    pub(super) fn find_left(&mut self, cx: &AppContext) {
        if let Some(jobs) = cx.paths.as_ref().map(AppPaths::jobs) {
            let left = cx.background.on_files(move || left_in(&jobs));
            self.leftovers = left.unwrap_or_default();
        }
    }

    /// Jobs with existing folders: those of the queue resume there, the others are offered.
    pub(super) fn take_left(&mut self, left: Vec<UnfinishedJob>, cx: &AppContext) {
        for job in left {
            let id = job.id;
            let is_running = self.running.as_ref().is_some_and(|it| it.id == id);
            if is_running || self.forgotten.contains(&id) || self.waiting_job(id).is_some() {
                continue;
            }
            let progress = job.progress();
            if let Some(stopped) = self.stopped.iter_mut().find(|it| it.job.id == id) {
                stopped.job.resume = Some(job.folder);
                stopped.progress = progress;
            } else {
                let waiting = WaitingJob {
                    id,
                    resume: Some(job.folder),
                    ..WaitingJob::new(job.request, cx.settings.runtime.device)
                };
                self.stop(StoppedJob {
                    progress,
                    ..StoppedJob::new(waiting, StopReason::Unfinished)
                });
            }
        }
    }

    /// The last time: also while an earlier state is on its way.
    pub(in crate::window) fn keep_at_last(&mut self, cx: &AppContext) {
        if self.keeping.is_due(self.revision()) {
            self.write(cx);
        }
    }

    pub(super) fn write(&mut self, cx: &AppContext) {
        let (Some(paths), Some(lock)) = (&cx.paths, self.keeping.lock.clone()) else {
            return;
        };
        let (file, path) = (self.to_file(), paths.queue_file());
        let writing = cx.background.on_files(move || {
            let written = file.save(&path);
            // Nobody else may write before this is done.
            drop(lock);
            written.err().map(|err| {
                let advice = "Waiting jobs are lost when Safelight closes. Free some space, or \
                              make the folder writable";
                JobError::new(JobErrorKind::Disk, queue_not_written_text(&err, &path))
                    .advise(advice)
                    .detail(err.to_string())
            })
        });
        if let Some(writing) = writing {
            (self.keeping.writing, self.keeping.written) = (writing, self.revision());
        }
    }

    fn to_file(&self) -> QueueFile {
        let running = self.running.iter();
        let running = running.map(|job| queued(&job.to_idle(), QueuedState::Running));
        let waiting = self
            .waiting
            .iter()
            .map(|job| queued(job, QueuedState::Waiting));
        let stopped = self.stopped.iter().map(|stopped| match &stopped.why {
            StopReason::Failed(err) => QueuedJob {
                error: Some(err.clone()),
                ..queued(&stopped.job, QueuedState::Failed)
            },
            StopReason::Paused => queued(&stopped.job, QueuedState::Paused),
            StopReason::Unfinished => queued(&stopped.job, QueuedState::Unfinished),
        });
        QueueFile {
            jobs: running.chain(waiting).chain(stopped).collect(),
            forgotten: self.forgotten.clone(),
            grids: self.kept_grids(),
            unread: Vec::new(),
        }
    }
}

fn queued(job: &WaitingJob, state: QueuedState) -> QueuedJob {
    QueuedJob {
        id: job.id,
        state,
        device: job.device,
        request: job.request.clone(),
        error: None,
    }
}
