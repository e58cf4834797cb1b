//! Environment of every interface of the program: the user's folders, the settings, the engine's path.
//!
//! Reads the settings file; starts nothing.

use safelight_core::files::remove_partials;
use safelight_core::job::JobFolder;
use safelight_core::settings::{AppPaths, LiveSettings, LoadedSettings, Settings, own_runtime};

use crate::runtimes;
use crate::telemetry::SystemRoots;
use crate::worker::link::EngineLauncher;
use crate::worker::{ProcessLauncher, WorkerOptions};

/// The user's folders and settings.
#[derive(Debug)]
pub struct CliEnvironment {
    pub paths: AppPaths,
    /// The settings, with what is odd about their file.
    pub loaded: LoadedSettings,
}

impl CliEnvironment {
    /// Of the user who started this program; without a home folder, everything is in the folder for temporary files of
    /// the working folder.
    pub fn of_this_user() -> Self {
        let paths =
            AppPaths::of_this_user().unwrap_or_else(|| AppPaths::under("safelight-data".as_ref()));
        let loaded = Settings::load(&paths.settings_file());
        Self { paths, loaded }
    }

    /// Problems of the settings file, one sentence each.
    pub fn oddities(&self) -> Vec<String> {
        let broken = self
            .loaded
            .error
            .iter()
            .map(|err| format!("{err}; the defaults are used"));
        broken.chain(self.loaded.warnings.iter().cloned()).collect()
    }

    /// Removes half-written files of killed programs in the app's folders. Result folders may be remote and large: the
    /// next job there cleans up.
    pub fn remove_partials(&self) {
        for folder in self.paths.written() {
            remove_partials(&folder);
        }
        JobFolder::remove_partials(&self.paths.jobs());
    }

    pub fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// For a worker that heeds later changes of the settings file.
    pub fn worker_options(&self) -> WorkerOptions {
        let (file, paths) = (self.paths.settings_file(), self.paths.clone());
        WorkerOptions {
            paths: self.paths.clone(),
            finished_on: Box::new(move |libtorch| runtimes::finished_on(&paths, libtorch)),
            roots: SystemRoots::of_this_machine(),
            settings: Box::new(move || Settings::load(&file).settings),
        }
    }

    /// For a worker that goes by the settings of the window, which stay as they were while the file is broken.
    pub fn worker_options_of(&self, live: &LiveSettings) -> WorkerOptions {
        let live = live.clone();
        WorkerOptions {
            settings: Box::new(move || live.get().as_ref().clone()),
            ..self.worker_options()
        }
    }

    /// `cpu`, `cuda` or `rocm`: what the runtime that the settings name can do; `cpu` where there is none.
    pub fn runtime_kind(&self) -> &'static str {
        let runtime = own_runtime(self.settings(), &self.paths.cache);
        runtime.map_or("cpu", |runtime| runtime.kind())
    }

    /// Starts engines on the runtime that the settings name at that moment.
    pub fn launcher(&self) -> Box<dyn EngineLauncher> {
        Box::new(self.process_launcher())
    }

    /// Environment by the settings of the window.
    pub fn launcher_of(&self, live: &LiveSettings) -> Box<dyn EngineLauncher> {
        let live = live.clone();
        let settings = move || live.get().as_ref().clone();
        Box::new(ProcessLauncher::with_settings(settings, &self.paths))
    }

    /// Environment for commands that are no jobs.
    pub fn process_launcher(&self) -> ProcessLauncher {
        ProcessLauncher::of_user(&self.paths)
    }
}
