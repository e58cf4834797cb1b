//! The threads for everything that the window must not wait for: files, dialogs, other programs.
//!
//! One named thread does the file work in order, one searches that a slow disk holds up; what waits for people or takes
//! long has a thread of its own. What comes of it is its owner's, over [`crate::app::pending`].

mod dialogs;
pub(in crate::app) mod guard;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use egui::Context;
use safelight_core::job::{JobError, JobErrorKind};

use crate::app::pending::{Pending, Postbox, Stream};
use guard::guarded;

/// Requests that may wait for the file thread.
const TASK_ROOM: usize = 64;
/// How long quitting waits for what is to be kept, the last settings above all.
pub(in crate::app) const FINISH_WITHIN: Duration = Duration::from_secs(2);

type Work = Box<dyn FnOnce() + Send>;

/// While it lives, quitting waits.
#[derive(Clone)]
pub struct Hold {
    _end: Sender<()>,
}

/// The near end of the background threads.
pub struct Background {
    ctx: Context,
    files: Option<Sender<Work>>,
    searches: Sender<Work>,
    /// Closed when nothing is left that quitting waits for.
    end: Receiver<()>,
    /// There until quitting.
    hold: Option<Hold>,
    /// A dialog is open.
    is_asking: Arc<AtomicBool>,
    problem_box: Postbox<JobError>,
    problems: Receiver<JobError>,
}

impl Background {
    /// Starts the threads that are always there.
    pub fn start(ctx: &Context) -> Self {
        let (problem_box, problems) = Postbox::new(ctx, TASK_ROOM);
        let (files, waiting_files) = bounded::<Work>(TASK_ROOM);
        let (searches, waiting_searches) = bounded::<Work>(TASK_ROOM);
        let (hold, end) = bounded::<()>(1);
        let hold = Hold { _end: hold };
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

    /// Work on a thread of its own.
    pub fn run<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let (postbox, pending) = Pending::new(&self.ctx);
        spawn(name, move || postbox.post(work()));
        pending
    }

    /// The same for work that has more than one thing to say.
    pub fn stream<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Postbox<T>) + Send + 'static,
    ) -> Stream<T> {
        let (postbox, stream) = Stream::new(&self.ctx);
        spawn(name, move || work(&postbox));
        stream
    }

    /// For a thread of its own that writes something until its owner is gone.
    pub fn hold(&self) -> Option<Hold> {
        self.hold.clone()
    }

    /// File work, behind all that was handed over before; nothing when too much of it waits already.
    pub fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Pending<T>> {
        self.hand_over(self.files.as_ref()?, work)
    }

    /// Work that takes what a slow disk with many models takes: nothing that is to be kept waits behind it.
    pub fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Pending<T>> {
        self.hand_over(&self.searches, work)
    }

    fn hand_over<T: Send + 'static>(
        &self,
        thread: &Sender<Work>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Pending<T>> {
        let (postbox, pending) = Pending::new(&self.ctx);
        let work = Box::new(move || {
            postbox.post(work());
        });
        let sent = thread.try_send(work);
        if sent.is_err() {
            tracing::warn!("a file task was not taken");
        }
        sent.ok().map(|()| pending)
    }

    /// An errand of which only its failure is told.
    pub fn attempt(
        &self,
        name: &str,
        errand: impl FnOnce() -> Result<(), JobError> + Send + 'static,
    ) {
        let problems = self.problem_box.clone();
        spawn(name, move || {
            if let Err(err) = errand() {
                problems.post(err);
            }
        });
    }

    /// Failures of errands, and of work that ended in the middle.
    pub fn problems(&self) -> impl Iterator<Item = JobError> + '_ {
        self.problems.try_iter()
    }

    /// Shows a folder in the user's file manager.
    pub fn open_folder(&self, folder: PathBuf) {
        self.attempt("open-folder", move || {
            open_outside(&folder).map_err(|why| {
                JobError::new(JobErrorKind::Disk, "no file manager could be opened")
                    .advise(format!("The folder is {}", folder.display()))
                    .detail(why)
            })
        });
    }

    /// Drops what may hold many pictures on a thread of its own: to give half a gigabyte back takes a tenth of a second.
    pub fn free(&self, what: impl Send + 'static) {
        spawn("free", move || drop(what));
    }
}

impl Drop for Background {
    /// Lets the file thread and all that has a [`Hold`] finish what they have, but not for ever.
    fn drop(&mut self) {
        (self.files, self.hold) = (None, None);
        let ended = self.end.recv_timeout(FINISH_WITHIN);
        if ended.is_err_and(|err| err.is_timeout()) {
            tracing::warn!("file work was still going on when the window closed");
        }
    }
}

/// Does the work of one thread until nobody can hand over more. All others need this thread: work that panics ends alone.
fn do_all(waiting: &Receiver<Work>, problems: &Postbox<JobError>) {
    for work in waiting {
        if guarded(work).is_none() {
            let err = JobError::new(
                JobErrorKind::Internal,
                "the last action on a file was not finished",
            )
            .advise("Do it again. The log says what went wrong");
            problems.post(err);
        }
    }
}

/// A named thread; `None`, and a line of the log, where it cannot start.
fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned
        .inspect_err(|err| tracing::error!("the thread {name} could not start: {err}"))
        .ok()
}

/// Opens a file or folder with whatever the desktop opens such things with; or why not.
pub fn open_outside(path: &Path) -> Result<(), String> {
    let output = Command::new("xdg-open").arg(path).output();
    let output = output.map_err(|err| format!("xdg-open: {err}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let is_done = output.status.success();
    let why = || format!("xdg-open: {said}");
    is_done.then_some(()).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_is_told_and_what_comes_behind_it_is_done() {
        let background = Background::start(&Context::default());
        let panics: Option<Pending<u8>> = background.on_files(|| panic!("on purpose"));
        let behind = background.on_files(|| 3);
        let (mut panics, mut behind) = panics.zip(behind).expect("there is room");
        let told = background.problems.recv();
        assert!(told.is_ok_and(|err| err.summary == "the last action on a file was not finished"));
        drop(background);
        assert_eq!((panics.take(), behind.take()), (None, Some(3)));
    }
}
