//! The queue on disk: read when the window opens, written after each change, by one program at a time.
//!
//! Changes that follow each other closely are written together.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egui::Context;
use safelight_core::files;
use safelight_core::job::{JobError, JobErrorKind, QueueFile, QueuedJob, QueuedState};
use safelight_core::media;
use safelight_core::settings::Paths;

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::queue::desk::QueueAnswer;
use crate::app::queue::{JobQueue, Stopped, StoppedJob, WaitingJob};
use crate::app::state::Severity;
use crate::worker::LeftJob;

/// What is known of the file.
#[derive(Default)]
pub(in crate::app) struct Keeping {
    /// Held for as long as this program alone may write it; none before it was read.
    lock: Option<Arc<File>>,
    /// Which state of the queue is written, or on its way.
    written: u64,
    /// When that was, on the window's clock.
    written_at: f64,
    is_writing: bool,
    /// Why what was written last is not on the disk, as it was told.
    problem: Option<String>,
}

/// Changes are written no more often than this.
const WRITE_EVERY_SECS: f64 = 0.5;
/// What could not be written is tried again.
const RETRY_EVERY_SECS: f64 = 5.0;

impl Keeping {
    /// Not all of this state is on the disk, or on its way.
    fn is_due(&self, revision: u64) -> bool {
        self.problem.is_some() || self.written != revision
    }
}

/// What an earlier run left.
#[derive(Default)]
pub struct Restored {
    lock: Option<File>,
    file: QueueFile,
    waiting: Vec<WaitingJob>,
    stopped: Vec<StoppedJob>,
    left: Vec<LeftJob>,
    problems: Vec<JobError>,
}

impl App {
    /// Reads what the last run left: its queue, and the jobs that can go on.
    pub(in crate::app) fn load_queue(&self) {
        if let Some(paths) = self.paths.clone() {
            self.background.run(Task::Work(Box::new(move || {
                let restored = Box::new(restore(&paths));
                Some(Answer::Queue(QueueAnswer::Restored(restored)))
            })));
        }
    }

    pub(in crate::app) fn restore_queue(&mut self, restored: Restored) {
        let Restored {
            lock,
            file,
            waiting,
            stopped,
            left,
            problems,
        } = restored;
        self.session.queue.keeping.lock = lock.map(Arc::new);
        self.queue.forgotten.extend(file.forgotten);
        let has_old = !waiting.is_empty() || !stopped.is_empty();
        self.queue.waiting.extend(waiting);
        self.queue.stopped.extend(stopped);
        self.take_left(left);
        self.queue.touch();
        for problem in problems {
            self.session.notify(Severity::Warning, problem);
        }
        if has_old || !self.queue.stopped.is_empty() {
            self.state.queue.is_open = true;
            self.session.queue.is_over = true;
        }
    }

    /// Jobs whose folders are there: those of the queue go on there, the others are offered.
    pub(in crate::app) fn take_left(&mut self, left: Vec<LeftJob>) {
        for job in left {
            let id = job.id;
            let is_running = self.queue.running.as_ref().is_some_and(|it| it.id == id);
            if is_running || self.queue.forgotten.contains(&id) {
                continue;
            }
            if self.queue.waiting_job(id).is_some() {
                continue;
            }
            let progress = job.progress_text();
            let known = self.queue.stopped.iter_mut().find(|it| it.job.id == id);
            if let Some(stopped) = known {
                stopped.job.resume = Some(job.folder);
                stopped.progress = progress;
            } else {
                let waiting = WaitingJob {
                    id,
                    has_output: true,
                    resume: Some(job.folder),
                    ..WaitingJob::new(job.request, self.settings.runtime.device)
                };
                self.queue.stop(StoppedJob {
                    progress,
                    ..StoppedJob::new(waiting, Stopped::Unfinished)
                });
            }
        }
    }

    /// Has the queue written when it has changed.
    pub(in crate::app) fn keep_queue(&mut self, ctx: &Context) {
        let keeping = &mut self.session.queue.keeping;
        let is_due = keeping.is_due(self.queue.revision());
        if keeping.is_writing || keeping.lock.is_none() || !is_due {
            return;
        }
        let now = self.now_secs;
        let every_secs = match keeping.problem {
            Some(_) => RETRY_EVERY_SECS,
            None => WRITE_EVERY_SECS,
        };
        let wait = keeping.written_at + every_secs - now;
        if keeping.written > 0 && wait > 0.0 {
            let wait = Duration::try_from_secs_f64(wait).unwrap_or_default();
            ctx.request_repaint_after(wait);
        } else {
            keeping.written_at = now;
            self.write_queue();
        }
    }

    /// Whether nothing of the queue is still on its way to the disk.
    pub(in crate::app) fn is_queue_kept(&self) -> bool {
        let keeping = &self.session.queue.keeping;
        let is_written = !keeping.is_writing && !keeping.is_due(self.queue.revision());
        keeping.lock.is_none() || is_written
    }

    /// Says once why it could not be written, and nothing more of it when it is.
    pub(super) fn end_writing(&mut self, problem: Option<JobError>) {
        let keeping = &mut self.session.queue.keeping;
        keeping.is_writing = false;
        let summary = problem.as_ref().map(|problem| problem.summary.clone());
        let told = std::mem::replace(&mut keeping.problem, summary);
        if told == keeping.problem {
            return;
        }
        let notices = &mut self.session.notices;
        notices.retain(|notice| Some(&notice.summary) != told.as_ref());
        if let Some(problem) = problem {
            self.session.notify(Severity::Warning, problem);
        }
    }

    /// The last time: also while an earlier state is on its way.
    pub(in crate::app) fn keep_queue_at_last(&mut self) {
        let keeping = &self.session.queue.keeping;
        if keeping.is_due(self.queue.revision()) {
            self.write_queue();
        }
    }

    fn write_queue(&mut self) {
        let (Some(paths), Some(lock)) = (&self.paths, self.session.queue.keeping.lock.clone())
        else {
            return;
        };
        let (file, path) = (self.queue.to_file(), paths.queue_file());
        let task = Task::Work(Box::new(move || {
            let written = file.save(&path);
            // Nobody else may write before this is done.
            drop(lock);
            let problem = written.err().map(|err| unwritten(&path, &err));
            Some(Answer::Queue(QueueAnswer::Written(problem)))
        }));
        if self.background.run(task) {
            let keeping = &mut self.session.queue.keeping;
            (keeping.is_writing, keeping.written) = (true, self.queue.revision());
        }
    }
}

impl JobQueue {
    /// What is kept of it.
    fn to_file(&self) -> QueueFile {
        let running = self.running.iter().map(|job| QueuedJob {
            id: job.id,
            state: QueuedState::Running,
            device: job.device,
            has_output: true,
            has_prompts: false,
            request: job.request.clone(),
            error: None,
        });
        let waiting = self
            .waiting
            .iter()
            .map(|job| queued(job, QueuedState::Waiting));
        let stopped = self.stopped.iter().map(|stopped| match &stopped.why {
            Stopped::Failed(err) => QueuedJob {
                error: Some(err.clone()),
                ..queued(&stopped.job, QueuedState::Failed)
            },
            Stopped::Paused => queued(&stopped.job, QueuedState::Paused),
            Stopped::Unfinished => queued(&stopped.job, QueuedState::Unfinished),
        });
        QueueFile {
            jobs: running.chain(waiting).chain(stopped).collect(),
            forgotten: self.forgotten.clone(),
            unread: Vec::new(),
        }
    }
}

fn queued(job: &WaitingJob, state: QueuedState) -> QueuedJob {
    QueuedJob {
        id: job.id,
        state,
        device: job.device,
        has_output: job.has_output,
        has_prompts: job.has_prompts,
        request: job.request.clone(),
        error: None,
    }
}

fn unwritten(path: &Path, err: &io::Error) -> JobError {
    JobError::new(
        JobErrorKind::Disk,
        format!("the queue could not be kept ({err}): {}", path.display()),
    )
    .advise("Jobs that wait are lost when Safelight is closed. Free some space, or make the folder writable")
    .detail(err.to_string())
}

/// Reads the queue, unless another program has it; runs on the file thread.
fn restore(paths: &Paths) -> Restored {
    let mut restored = Restored::default();
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
    restored.left = LeftJob::all(&jobs);
    for job in std::mem::take(&mut restored.file.jobs) {
        take(&mut restored, job, &folder_of);
    }
    without_webm(&mut restored);
    restored
}

/// An earlier version's jobs that were to make a WebM make an MP4 instead.
fn without_webm(restored: &mut Restored) {
    let waiting = restored.waiting.iter_mut();
    let stopped = restored.stopped.iter_mut().map(|stopped| &mut stopped.job);
    let left = restored.left.iter_mut().map(|left| &mut left.request);
    let queued = waiting.chain(stopped).map(|job| &mut job.request);
    let mut has_webm = false;
    for request in queued.chain(left) {
        if let Some(out) = media::instead_of_webm(&request.out) {
            request.out = out;
            has_webm = true;
        }
    }
    if has_webm {
        let what = "WebM is no longer written: jobs of the queue that were to make one make an MP4 instead";
        let problem = JobError::new(JobErrorKind::InvalidRequest, what);
        restored.problems.push(problem);
    }
}

/// One job of the last run, as it stands now.
fn take(
    restored: &mut Restored,
    job: QueuedJob,
    folder_of: &dyn Fn(safelight_core::job::JobId) -> PathBuf,
) {
    let folder = folder_of(job.id);
    let resume = folder.join("request.json").is_file().then_some(folder);
    // A job that goes on has copies in its folder.
    let needed = job.request.inputs().filter(|_| resume.is_none());
    let missing = needed.filter(|path| !path.exists()).cloned().collect();
    let waiting = WaitingJob {
        id: job.id,
        request: job.request,
        device: job.device,
        has_output: job.has_output,
        has_prompts: job.has_prompts,
        resume,
        is_held: job.state == QueuedState::Waiting,
        missing,
    };
    let why = match (job.state, job.error) {
        (QueuedState::Waiting, _) => {
            restored.waiting.push(waiting);
            return;
        }
        (QueuedState::Failed, Some(err)) => Stopped::Failed(err),
        (QueuedState::Paused, _) => Stopped::Paused,
        (QueuedState::Running | QueuedState::Unfinished | QueuedState::Failed, _) => {
            Stopped::Unfinished
        }
    };
    restored.stopped.push(StoppedJob::new(waiting, why));
}

/// Keeps a file that is not read whole, before it is written anew. Where that fails, it is not written at all.
fn keep_aside(restored: &mut Restored, path: &Path, problem: JobError) {
    restored.problems.push(match files::keep_aside(path) {
        Ok(copy) => problem.advise(format!("The file is kept as {}", copy.display())),
        Err(err) => {
            restored.lock = None;
            problem.advise(format!(
                "The queue of this window is not kept when it closes, because the old file cannot be copied ({err})"
            ))
        }
    });
}

/// Makes this program the one that has the queue.
fn lock(paths: &Paths) -> Result<File, JobError> {
    let problem = |what: String| {
        JobError::new(JobErrorKind::Disk, what)
            .advise("Jobs of this window are not kept when it closes")
    };
    let path = paths.data.join("queue.lock");
    let opened = fs::create_dir_all(&paths.data).and_then(|()| {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
    });
    let file = opened.map_err(|err| {
        problem(format!(
            "the queue cannot be kept ({err}): {}",
            path.display()
        ))
    })?;
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(problem(
            "another window of Safelight has the queue".to_owned(),
        )),
        // Where locks do not work nobody can be asked; folders of running jobs are looked at still.
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(file),
    }
}
