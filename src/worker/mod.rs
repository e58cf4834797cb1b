//! The worker thread: runs one job at a time, stage by stage, and owns the engine process.
//!
//! The queue of waiting jobs belongs to the sender.

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
mod save;
mod settle;
mod stage_failure;
mod starting;
mod sweep;
mod unfinished_jobs;
mod watching;

#[cfg(test)]
mod request_of_tests;
#[cfg(test)]
#[path = "../../tests/common/scripts.rs"]
mod scripts;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::job_update::{JobOutcome, JobUpdate};
use safelight_core::memory::compute_options::ComputeOptions;
use safelight_core::memory::conv_backends::ConvBackendChoice;
use safelight_core::protocol::{EngineMessage, EngineReport};
use safelight_core::settings::{Settings, rocm_of};

pub use events::WorkerWake;
pub use handle::{WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
pub use process::{
    FindRuntime, ProcessLauncher, engine_executable, engine_for, not_started, served_versions,
};
pub use settle::JobSources;
pub(crate) use starting::explain_start;
pub use unfinished_jobs::{UnfinishedJob, left_in, number_of};

use conv_backends::ConvBackends;
use engine::EngineManager;
pub use estimate::TimeEstimates;
use events::WorkerEvents;
pub use job_run::not_held;
use job_run::{JobRun, RunProgress};
use link::EngineLauncher;
use memory_pressure::MemoryPressureMonitor;
use oom_fallback::OomFallbacks;
use plan::JobPlan;

use crate::telemetry::SystemRoots;
use crate::telemetry::monitor::TelemetryMonitor;

/// Paths and callbacks of a worker.
pub struct WorkerOptions {
    /// Parent of the jobs' folders.
    pub jobs: PathBuf,
    /// File with the times of earlier jobs; `None`: not stored.
    pub estimates: Option<PathBuf>,
    /// Folder with the telemetry of the last jobs; `None`: not stored.
    pub telemetry: Option<PathBuf>,
    /// File with the results of probing convolutions; `None`: not stored.
    pub conv_backends: Option<PathBuf>,
    /// File that counts out-of-memory errors and what helped; `None`: not counted.
    pub counters: Option<PathBuf>,
    /// Called after each finished job with the folder of its libtorch.
    pub finished_on: Box<dyn Fn(&Path) + Send>,
    /// Roots of `/proc` and `/sys`.
    pub roots: SystemRoots,
    /// Called before each job, so that changed settings apply to the next one.
    pub limits: Box<dyn Fn() -> WorkerLimits + Send>,
    /// Called before each job, as `limits`.
    pub sources: Box<dyn Fn() -> JobSources + Send>,
}

/// Settings of running jobs: time limits, compute options, quality of results.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Time without progress after which an engine counts as hung.
    pub stall: Duration,
    /// Time after a cancel before the engine is killed.
    pub cancel_grace: Duration,
    pub conv_backend: ConvBackendChoice,
    pub compute_options: ComputeOptions,
    /// Jobs release their memory for other programs; read again while one waits.
    pub yields: bool,
    /// Quality of lossy files, as [`VideoOptions::crf`](safelight_core::media::VideoOptions::crf).
    pub crf: u8,
}

impl WorkerLimits {
    pub fn from_settings(settings: &Settings) -> Self {
        let Settings {
            runtime,
            memory,
            output,
            ..
        } = settings;
        Self {
            stall: Duration::from_secs(runtime.stall_limit_secs.max(1)),
            cancel_grace: Duration::from_secs(runtime.cancel_grace_secs),
            conv_backend: runtime.convolution,
            compute_options: runtime.compute_options(),
            yields: memory.yields,
            crf: output.crf,
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
    sweep::sweep(&options.jobs);
    let conv_backends = ConvBackends::load(options.conv_backends.clone());
    let mut engine = EngineManager::new(launcher, conv_backends);
    let mut estimates = TimeEstimates::load(options.estimates.clone());
    let monitor = TelemetryMonitor::start(options.roots.clone(), options.telemetry.clone())
        .inspect_err(|err| tracing::warn!("nothing watches the machine: {err}"));
    let events = WorkerEvents::new(
        far_end.events.clone(),
        wake,
        far_end.gone.clone(),
        monitor.ok(),
    );
    while let Ok(command) = far_end.commands.recv() {
        let id = command.id;
        let limits = (options.limits)();
        let mut pressure = MemoryPressureMonitor::new(&options.roots, limits.yields);
        // Memory that others take while the engine starts counts as theirs.
        pressure.look(None);
        let ((width, height), num_frames) = (command.request.size(), command.request.num_frames());
        let model = command.request.model();
        tracing::info!("job {id} starts: {model}, {width}x{height}, {num_frames} frames");
        let job_events = events.of(id, &model, command.cancel.clone());
        engine.want(command.device);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let (request, notices) = match (options.sources)().settle(&command) {
                Ok(settled) => settled,
                Err(err) => return JobOutcome::Failed(err),
            };
            job_events.certain(JobUpdate::Settled {
                request: Box::new(request.clone()),
                notices,
            });
            JobRun {
                id,
                request: &request,
                resume: command.resume.as_deref(),
                events: &job_events,
                options,
                limits: &limits,
                engine: &mut engine,
                estimates: &mut estimates,
                fallbacks: OomFallbacks::new(options.counters.clone()),
                pressure,
                plan: JobPlan::new(&request, options.estimates.as_deref()),
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
        "It ran on {device} with libtorch {libtorch}{rocm}; `safelight doctor` says whether they go together"
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
    match link.messages.recv_timeout(limit) {
        Ok((EngineMessage::Ready(report), _)) => Ok(report),
        Ok((EngineMessage::Refused(error), _)) => Err(error),
        Ok(_) => Err(JobError::new(
            JobErrorKind::Internal,
            "the engine sent an unexpected message",
        )),
        Err(RecvTimeoutError::Timeout) => {
            link.control.kill();
            let what = format!("the engine did not start within {} s", limit.as_secs());
            Err(JobError::new(JobErrorKind::EngineLost, what)
                .advise("The GPU's driver may hang: look at the kernel's log, and restart the computer if that does not help"))
        }
        Err(RecvTimeoutError::Disconnected) => {
            let words = link.control.last_words().text;
            Err(
                explain_start(&words, &launcher.concerns()).unwrap_or_else(|| {
                    JobError::new(JobErrorKind::EngineLost, "the engine did not start")
                        .detail(words)
                }),
            )
        }
    }
}
