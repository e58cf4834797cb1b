//! The program without a subcommand: the window, in front of a worker thread.
//!
//! Only puts the parts together; what the window does is in [`crate::app`].

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::JoinHandle;

use safelight_core::job::{JobError, JobErrorKind};

use super::Surroundings;
use super::generate::explain;
use crate::app::{self, StartupOptions};
use crate::worker;

/// Opens the window, with a start picture if there is one, and returns when it is closed.
pub fn run(surroundings: Surroundings, picture: Option<PathBuf>) -> ExitCode {
    let options = surroundings.worker_options();
    let launcher = surroundings.launcher();
    let startup = StartupOptions {
        picture: picture.and_then(|path| std::path::absolute(path).ok()),
        ..StartupOptions::new(surroundings.loaded, surroundings.paths)
    };
    let mut thread: Option<JoinHandle<()>> = None;
    let opened = app::run(startup, |wake| {
        let (handle, worker) = worker::spawn(options, launcher, wake)?;
        thread = Some(worker);
        Ok::<_, std::io::Error>(handle)
    });
    // The window is gone and its handle with it: the worker ends as soon as its stage lets go.
    if let Some(thread) = thread {
        thread.join().ok();
    }
    match opened {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            explain(&JobError::from_error(JobErrorKind::Internal, &err));
            ExitCode::FAILURE
        }
    }
}
