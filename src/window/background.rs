//! Threads for everything that the window must not wait for: files, dialogs, other programs.
//!
//! One thread does file work in order and one searches; what waits for people or takes long has a separate thread. Work
//! that panics still reports an error. Its owner has a [`BackgroundTask`] until the result is taken; whoever drops or
//! replaces that hears nothing of it any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use egui::Context;
use safelight_core::job::{CancelToken, JobError, JobErrorKind};

/// Tasks that may wait for a background thread.
const TASK_ROOM: usize = 64;
/// Time that quitting waits for pending saves, above all of the settings.
const FINISH_WITHIN: Duration = Duration::from_secs(2);
/// A dialog that ends sooner was never shown: there is no file chooser on this machine.
const NO_DIALOG_WITHIN: Duration = Duration::from_millis(300);
/// Error of a file whose decoder panicked.
pub(crate) const NOT_SURVIVED: &str = "the file is damaged and cannot be opened";

type BackgroundWork = Box<dyn FnOnce() + Send>;

/// While it lives, quitting waits.
#[derive(Clone)]
pub struct QuitGuard {
    _end: Sender<()>,
}

pub struct BackgroundThreads {
    ctx: Context,
    files: Option<Sender<BackgroundWork>>,
    searches: Sender<BackgroundWork>,
    /// Closed when nothing is left that quitting waits for.
    end: Receiver<()>,
    /// `None` once quitting has begun.
    hold: Option<QuitGuard>,
    is_asking: Arc<AtomicBool>,
    problem_box: TaskChannel<JobError>,
    problems: Receiver<JobError>,
}

impl BackgroundThreads {
    pub fn start(ctx: &Context) -> Self {
        let (problem_box, problems) = TaskChannel::new(ctx, TASK_ROOM);
        let (files, waiting_files) = bounded::<BackgroundWork>(TASK_ROOM);
        let (searches, waiting_searches) = bounded::<BackgroundWork>(TASK_ROOM);
        let (hold, end) = bounded::<()>(1);
        let hold = QuitGuard { _end: hold };
        let (of_files, of_searches) = (problem_box.clone(), problem_box.clone());
        let held = hold.clone();
        spawn("files", move || {
            do_all(&waiting_files, &of_files);
            drop(held);
        });
        spawn("searches", move || do_all(&waiting_searches, &of_searches));
        Self {
            ctx: ctx.clone(),
            files: Some(files),
            searches,
            end,
            hold: Some(hold),
            is_asking: Arc::default(),
            problem_box,
            problems,
        }
    }

    pub fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BackgroundTask<T> {
        let (postbox, pending) = BackgroundTask::new(&self.ctx);
        spawn(name, move || postbox.post(work()));
        pending
    }

    pub fn stream<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&TaskChannel<T>) + Send + 'static,
    ) -> BackgroundTask<T> {
        let (postbox, stream) = BackgroundTask::with_room(&self.ctx, ROOM);
        spawn(name, move || work(&postbox));
        stream
    }

    /// Runs work that reports its progress and can be stopped.
    pub fn long<P: Send + 'static, T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&CancelToken, &mut dyn FnMut(P)) -> T + Send + 'static,
    ) -> LongTask<P, T> {
        let cancel = CancelToken::default();
        let is_stopped = cancel.clone();
        let updates = self.stream(name, move |postbox| {
            let end = work(&is_stopped, &mut |progress| {
                // Progress is dropped while the window is not drawn, so that the work never waits.
                postbox.try_post(TaskUpdate::Progress(progress));
            });
            postbox.post(TaskUpdate::End(end));
        });
        LongTask {
            progress: None,
            cancel,
            updates,
        }
    }

    /// Guard for a thread that writes something until its owner is gone.
    pub fn hold(&self) -> Option<QuitGuard> {
        self.hold.clone()
    }

    /// Runs file work after everything queued before. If too much is queued already, it is not done: the task is not
    /// busy then.
    pub fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BackgroundTask<T> {
        self.hand_over(self.files.as_ref(), work)
    }

    /// Runs slow searches, so that no save waits for them; otherwise like [`Self::on_files`].
    pub fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BackgroundTask<T> {
        self.hand_over(Some(&self.searches), work)
    }

    fn hand_over<T: Send + 'static>(
        &self,
        thread: Option<&Sender<BackgroundWork>>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BackgroundTask<T> {
        let (postbox, pending) = BackgroundTask::new(&self.ctx);
        let work = Box::new(move || {
            postbox.post(work());
        });
        if thread.is_none_or(|thread| thread.try_send(work).is_err()) {
            tracing::warn!("a file task was not taken");
            return BackgroundTask::default();
        }
        pending
    }

    /// Runs a task and reports only its failure.
    pub fn attempt(
        &self,
        name: &str,
        task: impl FnOnce() -> Result<(), JobError> + Send + 'static,
    ) {
        let problems = self.problem_box.clone();
        spawn(name, move || {
            if let Err(err) = task() {
                problems.post(err);
            }
        });
    }

    /// Failures of tasks, and of work that ended in the middle.
    pub fn problems(&self) -> impl Iterator<Item = JobError> + '_ {
        self.problems.try_iter()
    }

    pub fn open_folder(&self, folder: PathBuf) {
        self.open(folder, "no file manager could be opened", "The folder is");
    }

    /// Opens a file or folder in another program. Where there is none, an error says so, and `place` where it is.
    pub fn open(&self, path: PathBuf, problem: &'static str, place: &'static str) {
        self.attempt("open", move || {
            open_outside(&path).map_err(|why| {
                JobError::new(JobErrorKind::Disk, problem)
                    .advise(format!("{place} {}", path.display()))
                    .detail(why)
            })
        });
    }

    /// Drops large values on a separate thread: freeing half a gigabyte takes a tenth of a second.
    pub fn free(&self, what: impl Send + 'static) {
        spawn("free", move || drop(what));
    }

    pub fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> BackgroundTask<Option<T>> {
        self.ask_or(
            "Drop a file onto the window or type its path, or install xdg-desktop-portal or zenity",
            ask,
        )
    }

    /// Like [`Self::ask`], with other advice if there is no file chooser.
    pub fn ask_or<T: Send + 'static>(
        &self,
        instead: impl Into<String>,
        ask: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> BackgroundTask<Option<T>> {
        let (problems, instead) = (self.problem_box.clone(), instead.into());
        let is_asking = Arc::clone(&self.is_asking);
        is_asking.store(true, Ordering::Relaxed);
        self.run("dialog", move || {
            let begin = Instant::now();
            let chosen = guarded(ask).flatten();
            is_asking.store(false, Ordering::Relaxed);
            if chosen.is_none() && begin.elapsed() < NO_DIALOG_WITHIN {
                let text = "this desktop has no file chooser";
                problems.post(JobError::new(JobErrorKind::Internal, text).advise(instead));
            }
            chosen
        })
    }

    pub fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}

impl Drop for BackgroundThreads {
    /// Lets the file thread and all that has a [`QuitGuard`] finish what they have, but not for ever.
    fn drop(&mut self) {
        (self.files, self.hold) = (None, None);
        let ended = self.end.recv_timeout(FINISH_WITHIN);
        if ended.is_err_and(|err| err.is_timeout()) {
            tracing::warn!("file work was still going on when the window closed");
        }
    }
}

/// Runs the work of one thread until all senders are gone. Other work needs this thread, so a panic ends only its task.
fn do_all(waiting: &Receiver<BackgroundWork>, problems: &TaskChannel<JobError>) {
    for work in waiting {
        if guarded(work).is_none() {
            let text = "the last action on a file was not finished";
            let err = JobError::new(JobErrorKind::Internal, text);
            problems.post(err.advise("Do it again. The log says what went wrong"));
        }
    }
}

/// Starts a named thread; where it cannot start, the log says so.
fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(err) = spawned {
        tracing::error!("the thread {name} could not start: {err}");
    }
}

/// Opens a file or folder with the desktop's default application; the error is its reason.
pub fn open_outside(path: &Path) -> Result<(), String> {
    let output = Command::new("xdg-open").arg(path).output();
    let output = output.map_err(|err| format!("xdg-open: {err}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success();
    is_done
        .then_some(())
        .ok_or_else(|| format!("xdg-open: {}", said.trim()))
}

/// Does the work; `None` where it panics, which the panic hook has logged.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Runs work that opens a file; a panic becomes an error.
pub(crate) fn survived<T>(work: impl FnOnce() -> Result<T, JobError>) -> Result<T, JobError> {
    guarded(work).unwrap_or_else(|| {
        let err = JobError::new(JobErrorKind::Internal, NOT_SURVIVED);
        Err(err.advise("Try another file. Nothing else is lost"))
    })
}

/// Answers that may wait in a stream until they are taken.
const ROOM: usize = 64;

/// Sender of a thread's results; each wakes the window, and so does the end.
pub struct TaskChannel<T> {
    answers: Option<Sender<T>>,
    ctx: Context,
}

impl<T> Clone for TaskChannel<T> {
    fn clone(&self) -> Self {
        Self {
            answers: self.answers.clone(),
            ctx: self.ctx.clone(),
        }
    }
}

impl<T> std::fmt::Debug for TaskChannel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskChannel").finish_non_exhaustive()
    }
}

impl<T> TaskChannel<T> {
    pub(super) fn new(ctx: &Context, room: usize) -> (Self, Receiver<T>) {
        let (answers, receiver) = bounded(room);
        let postbox = Self {
            answers: Some(answers),
            ctx: ctx.clone(),
        };
        (postbox, receiver)
    }

    /// Waits for room; `false` when the receiver is gone.
    pub fn post(&self, answer: T) -> bool {
        let answers = self.answers.as_ref();
        let is_heard = answers.is_some_and(|answers| answers.send(answer).is_ok());
        if is_heard {
            self.ctx.request_repaint();
        }
        is_heard
    }

    /// Leaves the answer out where there is no room.
    pub fn try_post(&self, answer: T) {
        let answers = self.answers.as_ref();
        if answers.is_some_and(|answers| answers.try_send(answer).is_ok()) {
            self.ctx.request_repaint();
        }
    }
}

impl<T> Drop for TaskChannel<T> {
    fn drop(&mut self) {
        // First the end, then the look at it.
        self.answers = None;
        self.ctx.request_repaint();
    }
}

/// Work that brings one answer or a stream of them; several pieces of work can share it.
#[derive(Debug)]
pub struct BackgroundTask<T>(Vec<Receiver<T>>);

impl<T> BackgroundTask<T> {
    /// Task with one answer.
    pub(super) fn new(ctx: &Context) -> (TaskChannel<T>, Self) {
        Self::with_room(ctx, 1)
    }

    fn with_room(ctx: &Context, room: usize) -> (TaskChannel<T>, Self) {
        let (postbox, answers) = TaskChannel::new(ctx, room);
        (postbox, Self(vec![answers]))
    }

    pub fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// An answer that has come. Of work that ended without one there is none.
    pub fn take(&mut self) -> Option<T> {
        let mut index = 0;
        while let Some(answers) = self.0.get(index) {
            match answers.try_recv() {
                Ok(answer) => {
                    if answers.capacity() == Some(1) {
                        self.0.remove(index);
                    }
                    return Some(answer);
                }
                Err(TryRecvError::Empty) => index += 1,
                Err(TryRecvError::Disconnected) => drop(self.0.remove(index)),
            }
        }
        None
    }

    /// True if more answers may come: to be called when there is nothing to take.
    pub fn is_busy(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<T> Default for BackgroundTask<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Progress or the end of a [`LongTask`].
pub enum TaskUpdate<P, T> {
    Progress(P),
    End(T),
}

/// Work with progress that can be stopped. It is stopped when it is dropped.
pub struct LongTask<P, T> {
    /// Last progress, while it runs.
    pub progress: Option<P>,
    pub(super) cancel: CancelToken,
    pub(super) updates: BackgroundTask<TaskUpdate<P, T>>,
}

impl<P, T> LongTask<P, T> {
    pub fn is_busy(&self) -> bool {
        self.updates.is_busy()
    }

    /// True until its thread has let go.
    pub fn is_stopping(&self) -> bool {
        self.is_busy() && self.cancel.is_cancelled()
    }

    /// Results so far are kept.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Result at the end. A thread that ended in the middle gives nothing.
    pub fn take(&mut self) -> Option<T> {
        loop {
            match self.updates.take()? {
                TaskUpdate::Progress(progress) => self.progress = Some(progress),
                TaskUpdate::End(end) => {
                    self.updates = BackgroundTask::default();
                    return Some(end);
                }
            }
        }
    }
}

impl<P, T> Default for LongTask<P, T> {
    fn default() -> Self {
        Self {
            progress: None,
            cancel: CancelToken::default(),
            updates: BackgroundTask::default(),
        }
    }
}

impl<P, T> Drop for LongTask<P, T> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panicking_task_is_reported_and_the_next_task_still_runs() {
        let background = BackgroundThreads::start(&Context::default());
        let mut panics: BackgroundTask<u8> = background.on_files(|| panic!("on purpose"));
        let mut behind = background.on_files(|| 3);
        let problem = background.problems.recv();
        assert!(
            problem.is_ok_and(|err| err.summary == "the last action on a file was not finished")
        );
        drop(background);
        assert_eq!((panics.take(), behind.take()), (None, Some(3)));
    }

    #[test]
    fn each_answer_is_taken_once_and_work_that_died_is_not_waited_for() {
        let ctx = Context::default();
        let (first, mut pending) = BackgroundTask::new(&ctx);
        let (second, other) = BackgroundTask::new(&ctx);
        pending.add(other);
        assert_eq!(pending.take(), None);
        assert!(second.post("late") && first.post("early"));
        assert_eq!(pending.take(), Some("early"));
        assert_eq!(pending.take(), Some("late"));
        assert!(!pending.is_busy());
        let (dead, mut pending) = BackgroundTask::<u8>::new(&ctx);
        drop(dead);
        assert!(pending.is_busy() && pending.take().is_none() && !pending.is_busy());
    }

    #[test]
    fn stream_ends_with_its_sender_and_a_dropped_stream_refuses_posts() {
        let ctx = Context::default();
        let (postbox, mut stream) = BackgroundTask::with_room(&ctx, ROOM);
        assert!(postbox.post(1) && postbox.post(2));
        drop(postbox);
        assert_eq!((stream.take(), stream.take()), (Some(1), Some(2)));
        assert!(stream.is_busy() && stream.take().is_none() && !stream.is_busy());
        let (postbox, stream) = BackgroundTask::with_room(&ctx, ROOM);
        drop(stream);
        assert!(!postbox.post(3));
    }
}
