//! The program without a subcommand: the window, in front of worker threads.
//!
//! Only puts the parts together; what the window does is in [`crate::window::app`] and [`crate::window::layout`].

use std::path::PathBuf;
use std::process::ExitCode;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::LiveSettings;

use super::environment::{CliEnvironment, WorkerThreads};
use super::generate::ended;
use crate::window;
use crate::window::app::StartupOptions;
use crate::window::desktop::instance::{self, InstanceStart};

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
    let workers = WorkerThreads::default();
    let start_worker = workers.starter(&environment, &live);
    let startup = StartupOptions {
        files,
        instance,
        live_settings: live,
        ..StartupOptions::new(environment.loaded, environment.paths)
    };
    let opened = window::run(startup, start_worker);
    // The window is gone and its handles with it: the workers end as soon as their stages let go.
    workers.join();
    match opened {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            let err = JobError::from_error(JobErrorKind::Internal, &err);
            ended(Err(err), false)
        }
    }
}
