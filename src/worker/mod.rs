//! The worker thread of a device: runs one job at a time, stage by stage, and owns the engine process.
//!
//! The queue of waiting jobs belongs to the sender, which may have several workers.

mod amd;
mod conv_backends;
mod engine;
pub mod environment;
mod estimate;
mod events;
mod fingerprints;
mod generated;
mod handle;
mod inputs;
mod job_run;
pub mod link;
mod memory_pressure;
mod oom_fallback;
mod plan;
mod postprocess;
mod process;
mod result_sound;
mod save;
mod settle;
pub mod shared_memory;
mod stage_failure;
mod starting;
mod sweep;
mod unfinished_jobs;
mod watching;

#[cfg(test)]
#[path = "../../tests/common/scripts.rs"]
mod scripts;
#[cfg(test)]
pub(crate) mod testing;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use safelight_core::compute::ComputeOptions;
use safelight_core::compute::conv_backends::ConvBackendChoice;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::job_update::{JobOutcome, JobUpdate};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{AppPaths, Settings, rocm_of};

pub use events::WorkerWake;
pub use handle::{WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
pub use process::{
    FindRuntime, ProcessLauncher, engine_executable, engine_for, not_started, served_versions,
};
pub use settle::{JobSources, OutputName};
pub(crate) use starting::explain_start;
pub use unfinished_jobs::{UnfinishedJob, left_in, number_of};

use conv_backends::ConvBackends;
use engine::EngineManager;
pub use estimate::TimeEstimates;
use events::WorkerEvents;
pub(crate) use events::preview_frame;
pub use job_run::not_held;
use job_run::{JobRun, RunProgress};
use link::{EngineLauncher, EngineStart};
use memory_pressure::MemoryPressureMonitor;
use oom_fallback::OomFallbacks;
use plan::JobPlan;
use shared_memory::SharedMemory;

use crate::telemetry::SystemRoots;
use crate::telemetry::monitor::TelemetryMonitor;

/// Paths and callbacks of a worker.
pub struct WorkerOptions {
    /// Folders of jobs, telemetry, and of what is learned from them.
    pub paths: AppPaths,
    /// Called after each finished job with the folder of its libtorch.
    pub finished_on: Box<dyn Fn(&Path) + Send>,
    /// Roots of `/proc` and `/sys`.
    pub roots: SystemRoots,
    /// With the other workers of this program.
    pub memory: SharedMemory,
    /// Called before each job and while one waits, so that changed settings apply to the next one.
    pub settings: Box<dyn Fn() -> Settings + Send>,
}

/// Settings of running jobs: time limits, compute options, quality of results.
#[derive(Clone, Copy, Debug)]
struct WorkerLimits {
    /// Time without progress after which an engine counts as hung.
    stall: Duration,
    /// Time after a cancel before the engine is killed.
    cancel_grace: Duration,
    conv_backend: ConvBackendChoice,
    compute_options: ComputeOptions,
    /// Jobs release their memory for other programs; read again while one waits.
    yields: bool,
    /// Quality of lossy files, as [`VideoOptions::crf`](safelight_core::media::VideoOptions::crf).
    crf: u8,
}

impl WorkerLimits {
    fn from_settings(settings: &Settings) -> Self {
        let runtime = &settings.runtime;
        Self {
            stall: Duration::from_secs(runtime.stall_limit_secs.max(1)),
            cancel_grace: Duration::from_secs(runtime.cancel_grace_secs),
            conv_backend: runtime.convolution,
            compute_options: runtime.compute_options(),
            yields: settings.memory.yields,
            crf: settings.output.crf,
        }
    }
}

/// Starts the worker thread. It ends when the handle is dropped; a running job is cancelled then.
pub fn spawn(
    options: WorkerOptions,
    launcher: Box<dyn EngineLauncher>,
    wake: WorkerWake,
) -> io::Result<(WorkerHandle, JoinHandle<()>)> {
    let (handle, far_end) = WorkerHandle::detached();
    let thread = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || work(&options, launcher, wake, &far_end))?;
    Ok((handle, thread))
}

fn work(
    options: &WorkerOptions,
    launcher: Box<dyn EngineLauncher>,
    wake: WorkerWake,
    far_end: &WorkerFarEnd,
) {
    let paths = &options.paths;
    sweep::sweep(paths);
    let conv_backends = ConvBackends::load(paths.conv_backends_file());
    let mut engine = EngineManager::new(launcher, conv_backends);
    let mut estimates = TimeEstimates::load(Some(paths.times_file()));
    let monitor = TelemetryMonitor::start(options.roots.clone(), Some(paths.telemetry()))
        .inspect_err(|err| tracing::warn!("nothing watches the machine: {err}"));
    let events = WorkerEvents {
        sender: far_end.events.clone(),
        wake,
        gone: far_end.gone.clone(),
        monitor: monitor.ok(),
        memory: options.memory.join(),
    };
    while let Ok(command) = far_end.commands.recv() {
        let id = command.id;
        let settings = (options.settings)();
        let limits = WorkerLimits::from_settings(&settings);
        let mut pressure = MemoryPressureMonitor::new(&options.roots, limits.yields);
        // Memory that others take while the engine starts counts as theirs.
        pressure.look(&events.memory.engines());
        let ((width, height), num_frames) = (command.request.size(), command.request.num_frames());
        let model = command.request.model();
        tracing::info!("job {id} starts: {model}, {width}x{height}, {num_frames} frames");
        let job_events = events.of(id, &model, command.cancel.clone());
        engine.want(command.device);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let (request, notices) = match JobSources::new(paths, &settings).settle(&command) {
                Ok(settled) => settled,
                Err(err) => return JobOutcome::Failed(err),
            };
            job_events.certain(JobUpdate::Settled {
                request: Box::new(request.clone()),
                notices,
            });
            let _name = OutputName(request.out());
            JobRun {
                id,
                request: &request,
                resume: command.resume.as_deref(),
                events: &job_events,
                options,
                limits: &limits,
                engine: &mut engine,
                estimates: &mut estimates,
                fallbacks: OomFallbacks::new(paths.memory_counters()),
                pressure,
                plan: JobPlan::new(&request, paths.corrections_file()),
                progress: RunProgress::begin(),
            }
            .run()
        }));
        let outcome = ended.unwrap_or_else(|panic| {
            engine.drop_engine();
            JobOutcome::Failed(panic_error(panic.as_ref()))
        });
        if matches!(outcome, JobOutcome::Paused) {
            // The memory is wanted for something else.
            engine.drop_engine();
        }
        if let (JobOutcome::Finished(_), Some(libtorch)) = (&outcome, engine.libtorch()) {
            (options.finished_on)(libtorch);
        }
        let outcome = match outcome {
            JobOutcome::Failed(err) => JobOutcome::Failed(with_versions(err, engine.report())),
            outcome => outcome,
        };
        if let JobOutcome::Failed(err) = &outcome {
            tracing::error!("job {id} failed: {err}\n{}", err.details);
        }
        events.memory.release();
        // The one place that ends a job.
        job_events.certain(JobUpdate::Ended(outcome));
    }
}

/// Adds the device and its libraries to a failure that they may have caused.
fn with_versions(err: JobError, engine: Option<&EngineReport>) -> JobError {
    let may_be_theirs = matches!(
        err.kind,
        JobErrorKind::OutOfMemory | JobErrorKind::EngineLost | JobErrorKind::Device
    );
    let Some(engine) = engine.filter(|_| may_be_theirs) else {
        return err;
    };
    let rocm = rocm_of(&engine.libtorch);
    let rocm = rocm.map_or_else(String::new, |(major, minor)| {
        format!(" for ROCm {major}.{minor}")
    });
    let (device, libtorch) = (&engine.device_name, &engine.libtorch);
    let what = format!(
        "It ran on {device} with libtorch {libtorch}{rocm}; the Doctor says whether they go together"
    );
    let advice = match err.advice.as_str() {
        "" => what,
        advice => format!("{advice}. {what}"),
    };
    let details = format!("{}\n{}", err.details, engine.line);
    err.advise(advice).detail(details.trim_start())
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> JobError {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    JobError::new(
        JobErrorKind::Internal,
        "an error in Safelight stopped this job",
    )
    .advise("Please report it with the details")
    .detail(text)
}

/// Starts an engine, takes its report, and ends it: for the doctor.
pub fn probe_engine(
    launcher: &mut dyn EngineLauncher,
    device: DeviceChoice,
    limit: Duration,
) -> Result<EngineReport, JobError> {
    let mut link = launcher.launch(device)?;
    match link.await_report(limit, &|| false, &launcher.concerns())? {
        EngineStart::Ready(report) => Ok(report),
        EngineStart::TooLate | EngineStart::Cancelled => {
            let what = format!("the engine did not start within {} s", limit.as_secs());
            Err(JobError::new(JobErrorKind::EngineLost, what)
                .advise("The GPU's driver may hang: look at the kernel's log, and restart the computer if that does not help"))
        }
        EngineStart::Died(words) => {
            Err(JobError::new(JobErrorKind::EngineLost, "the engine did not start").detail(words))
        }
    }
}
