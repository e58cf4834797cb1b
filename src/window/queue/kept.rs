//! The queue on disk: loaded at the start, written after changes.

use std::collections::BTreeSet;
use std::io;

use safelight_core::files::{self, make_private_folder};
use safelight_core::job::{JobFolder, QueueFile, QueuedJob, QueuedState};
use safelight_core::locks::FileLock;

use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::{StopReason, StoppedJob, WaitingJob};
use crate::worker::{UnfinishedJob, left_in};

#[derive(Default)]
pub(super) struct QueueStore {
    /// Held for as long as this program alone may write it; none before it was read.
    lock: Option<Arc<FileLock>>,
    /// Revision of the queue that is written, or being written.
    written: u64,
    /// When that was, on the window's clock.
    written_at: f64,
    writing: BackgroundTask<Option<JobError>>,
    /// Reason why the last save failed, as it was shown.
    problem: Option<String>,
}

const WRITE_EVERY_SECS: f64 = 0.5;
const RETRY_EVERY_SECS: f64 = 5.0;

impl QueueStore {
    /// Not all of this state is on the disk, or on its way.
    pub(super) fn is_due(&self, revision: u64) -> bool {
        self.problem.is_some() || self.written != revision
    }

    /// Returns whether it is due now; otherwise the window is woken when it is.
    pub(super) fn is_due_now(&mut self, revision: u64, cx: &AppContext) -> bool {
        if self.writing.is_busy() || self.lock.is_none() || !self.is_due(revision) {
            return false;
        }
        let every_secs = match self.problem {
            Some(_) => RETRY_EVERY_SECS,
            None => WRITE_EVERY_SECS,
        };
        if self.written > 0 && !cx.is_due(self.written_at + every_secs) {
            return false;
        }
        self.written_at = cx.now_secs;
        true
    }

    /// Returns whether nothing of the queue is still on its way to the disk.
    pub(super) fn is_kept(&self, revision: u64) -> bool {
        self.lock.is_none() || (!self.writing.is_busy() && !self.is_due(revision))
    }

    /// Says once why it could not be written, and nothing more of it when it is.
    pub(super) fn poll(&mut self, cx: &mut AppContext) {
        let Some(problem) = self.writing.take() else {
            return;
        };
        let summary = problem.as_ref().map(|problem| problem.summary.clone());
        if self.problem == summary {
            return;
        }
        self.problem = summary;
        cx.notices.end(&NoticeCause::QueueFile);
        if let Some(problem) = problem {
            cx.tell_about(NoticeCause::QueueFile, NoticeSeverity::Warning, problem);
        }
    }
}

impl JobQueue {
    /// Reads the queue of the last run, and the jobs that can resume.
    pub(crate) fn load(&mut self, cx: &AppContext) {
        if let Some(paths) = cx.paths.clone() {
            self.restoring = cx.background.on_files(move || restore(&paths));
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
            self.leftovers = cx.background.on_files(move || left_in(&jobs));
        }
    }

    /// Jobs with existing folders: those of the queue resume there, the others are offered.
    pub(super) fn take_left(&mut self, left: Vec<UnfinishedJob>, cx: &AppContext) {
        for job in left {
            let id = job.id;
            let is_running = self.running.iter().any(|it| it.id == id);
            if is_running
                || self.forgotten.contains(&id)
                || self.waiting.iter().any(|it| it.id == id)
            {
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
                    ..WaitingJob::new(job.request, cx.settings.runtime.job_device())
                };
                self.stop(StoppedJob {
                    progress,
                    ..StoppedJob::new(waiting, StopReason::Unfinished)
                });
            }
        }
    }

    /// The last time: also while an earlier state is on its way.
    pub(crate) fn keep_at_last(&mut self, cx: &AppContext) {
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
        if writing.is_busy() {
            (self.keeping.writing, self.keeping.written) = (writing, self.revision());
        }
    }

    fn to_file(&self) -> QueueFile {
        let running = self.running.iter();
        let running = running.map(|job| queued(&job.to_idle(None), QueuedState::Running));
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|job| queued(job, QueuedState::Waiting));
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

#[derive(Default)]
pub(super) struct RestoredQueue {
    lock: Option<FileLock>,
    file: QueueFile,
    waiting: Vec<WaitingJob>,
    stopped: Vec<StoppedJob>,
    left: Vec<UnfinishedJob>,
    problems: Vec<JobError>,
}

/// Reads the queue, unless another program has it; runs on the file thread.
fn restore(paths: &AppPaths) -> RestoredQueue {
    let mut restored = RestoredQueue::default();
    match lock(paths) {
        Ok(lock) => restored.lock = Some(lock),
        Err(err) => {
            restored.problems.push(err);
            return restored;
        }
    }
    let path = paths.queue_file();
    match QueueFile::load(&path) {
        Ok(file) => restored.file = file,
        Err(err) => {
            let problem = JobError::from_error(JobErrorKind::Disk, &err);
            keep_aside(&mut restored, &path, problem);
        }
    }
    let unread = std::mem::take(&mut restored.file.unread);
    if let Some(first) = unread.first() {
        let what = match unread.len() {
            1 => format!("one job of the queue could not be read: {first}"),
            several => format!("{several} jobs of the queue could not be read, the first: {first}"),
        };
        let problem = JobError::new(JobErrorKind::Disk, what).detail(unread.join("\n"));
        keep_aside(&mut restored, &path, problem);
    }
    let jobs = paths.jobs();
    let folder_of = |id| jobs.join(format!("{id}"));
    let forgotten = &mut restored.file.forgotten;
    forgotten.retain(|id| folder_of(*id).exists());
    restored.left = left_in(&jobs);
    // Folders of results that were being saved when the program ended.
    let queued = restored.file.jobs.iter().map(|job| &job.request);
    let left = restored.left.iter().map(|left| &left.request);
    let folders = queued
        .chain(left)
        .filter_map(|request| request.out().parent());
    for folder in folders.collect::<BTreeSet<_>>() {
        files::remove_partials(folder);
    }
    for job in std::mem::take(&mut restored.file.jobs) {
        take(&mut restored, job, &folder_of);
    }
    restored
}

fn take(restored: &mut RestoredQueue, job: QueuedJob, folder_of: &dyn Fn(JobId) -> PathBuf) {
    let folder = folder_of(job.id);
    let has_folder = JobFolder::open(&folder).request_file().is_file();
    let has_copies = job.request.generate().is_some();
    let resume = has_folder.then_some(folder);
    // A resumed job has copies of its inputs in its folder.
    let needed = job.request.inputs().into_iter();
    let needs_them = !has_copies || resume.is_none();
    let needed = needed.filter(|path| needs_them && !path.exists());
    let missing = needed.cloned().collect();
    let waiting = WaitingJob {
        id: job.id,
        request: job.request,
        device: job.device,
        resume,
        is_held: job.state == QueuedState::Waiting,
        missing,
    };
    let why = match (job.state, job.error) {
        (QueuedState::Waiting, _) => {
            restored.waiting.push(waiting);
            return;
        }
        (QueuedState::Failed, Some(err)) => StopReason::Failed(err),
        (QueuedState::Paused, _) => StopReason::Paused,
        (QueuedState::Running | QueuedState::Unfinished | QueuedState::Failed, _) => {
            StopReason::Unfinished
        }
    };
    restored.stopped.push(StoppedJob::new(waiting, why));
}

/// Keeps a file that is not read whole, before it is written anew. Where that fails, it is not written at all.
fn keep_aside(restored: &mut RestoredQueue, path: &Path, problem: JobError) {
    restored.problems.push(match files::keep_aside(path) {
        Ok(copy) => problem.advise(format!("The file is kept as {}", copy.display())),
        Err(err) => {
            restored.lock = None;
            problem.advise(format!(
                "The jobs of this window are lost when it closes, because the old file could not \
                be copied ({err})"
            ))
        }
    });
}

/// Makes this program the one that has the queue.
fn lock(paths: &AppPaths) -> Result<FileLock, JobError> {
    let path = paths.data.join("queue.lock");
    let taken = make_private_folder(&paths.data).and_then(|()| FileLock::take(&path));
    taken.map_err(|err| {
        let what = match err.kind() {
            io::ErrorKind::WouldBlock => {
                "another Safelight window already keeps the queue".to_owned()
            }
            _ => queue_not_written_text(&err, &path),
        };
        JobError::new(JobErrorKind::Disk, what)
            .advise("The jobs of this window are lost when it closes")
    })
}

fn queue_not_written_text(why: &dyn std::fmt::Display, path: &Path) -> String {
    format!("the queue could not be saved ({why}): {}", path.display())
}
