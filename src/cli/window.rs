//! The program without a subcommand: the window, in front of a worker thread.
//!
//! Only puts the parts together; what the window does is in [`crate::window::app`] and [`crate::window::layout`].

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::JoinHandle;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::LiveSettings;

use super::CliEnvironment;
use super::generate::ended;
use crate::window::app::StartupOptions;
use crate::window::desktop::instance::{self, InstanceStart};
use crate::{window, worker};

/// Opens the window with these files and returns when it is closed; or gives them to the window that is open.
pub fn run(environment: CliEnvironment, files: Vec<PathBuf>) -> ExitCode {
    let files: Vec<PathBuf> = files
        .into_iter()
        .filter_map(|path| std::path::absolute(path).ok())
        .collect();
    let instance = match instance::start(&files) {
        InstanceStart::HandedOver => return ExitCode::SUCCESS,
        InstanceStart::First(instance) => Some(instance),
        InstanceStart::Alone => None,
    };
    let live = LiveSettings::new(environment.loaded.settings.clone());
    let options = environment.worker_options_of(&live);
    let launcher = environment.launcher_of(&live);
    let startup = StartupOptions {
        files,
        instance,
        live_settings: live,
        ..StartupOptions::new(environment.loaded, environment.paths)
    };
    let mut thread: Option<JoinHandle<()>> = None;
    let opened = window::run(startup, |wake| {
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
            let err = JobError::from_error(JobErrorKind::Internal, &err);
            ended(Err(err), false)
        }
    }
}
