//! Environment of every interface of the program: the user's folders, the settings, the engine's path.
//!
//! Reads the settings file; starts nothing.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::thread::JoinHandle;

use safelight_core::files::remove_partials;
use safelight_core::job::{DeviceChoice, JobFolder};
use safelight_core::settings::{AppPaths, LiveSettings, LoadedSettings, Settings, own_runtime};

use crate::telemetry::{SystemRoots, nvidia};
use crate::worker::environment::job_gpus;
use crate::worker::link::EngineLauncher;
use crate::worker::shared_memory::SharedMemory;
use crate::worker::{ProcessLauncher, WorkerHandle, WorkerOptions, WorkerWake};
use crate::{runtimes, worker};

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
        worker_options(&self.paths)
    }

    /// `cpu`, `cuda` or `rocm`: what the runtime that the settings name can do; `cpu` where there is none.
    pub fn runtime_kind(&self) -> &'static str {
        let runtime = own_runtime(self.settings(), &self.paths.cache);
        runtime.map_or("cpu", |runtime| runtime.kind())
    }

    /// The devices that run jobs.
    pub fn job_devices(&self) -> Vec<DeviceChoice> {
        let (runtime, kind) = (&self.settings().runtime, self.runtime_kind());
        let roots = SystemRoots::of_this_machine();
        runtime.job_devices(job_gpus(runtime, kind, &roots, nvidia::report))
    }

    /// Starts engines on the runtime that the settings name at that moment.
    pub fn launcher(&self) -> Box<dyn EngineLauncher> {
        Box::new(self.process_launcher())
    }

    /// Environment for commands that are no jobs.
    pub fn process_launcher(&self) -> ProcessLauncher {
        ProcessLauncher::of_user(&self.paths)
    }
}

fn worker_options(paths: &AppPaths) -> WorkerOptions {
    let (file, own) = (paths.settings_file(), paths.clone());
    WorkerOptions {
        paths: paths.clone(),
        finished_on: Box::new(move |libtorch| runtimes::finished_on(&own, libtorch)),
        roots: SystemRoots::of_this_machine(),
        memory: SharedMemory::default(),
        settings: Box::new(move || Settings::load(&file).settings),
    }
}

/// Threads of a program's workers, which share its memory.
#[derive(Clone, Default)]
pub struct WorkerThreads {
    memory: SharedMemory,
    threads: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

impl WorkerThreads {
    /// Starts a worker with each call. They go by the settings of the window, which stay as they were while the file is
    /// broken.
    pub fn starter(
        &self,
        environment: &CliEnvironment,
        live: &LiveSettings,
    ) -> impl FnMut(WorkerWake) -> io::Result<WorkerHandle> + use<> {
        let (workers, paths, live) = (self.clone(), environment.paths.clone(), live.clone());
        move |wake| {
            let live = live.clone();
            let settings = move || live.get().as_ref().clone();
            let launcher = ProcessLauncher::with_settings(settings.clone(), &paths);
            let options = WorkerOptions {
                memory: workers.memory.clone(),
                settings: Box::new(settings),
                ..worker_options(&paths)
            };
            let (handle, thread) = worker::spawn(options, Box::new(launcher), wake)?;
            workers.threads.borrow_mut().push(thread);
            Ok(handle)
        }
    }

    /// Waits until all have ended, which they do without their handles.
    pub fn join(&self) {
        for thread in self.threads.take() {
            thread.join().ok();
        }
    }
}
