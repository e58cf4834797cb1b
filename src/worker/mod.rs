//! The worker thread: takes one job at a time, walks its recipe, and owns the engine process.
//!
//! It knows no widgets and no tensors. The queue of waiting jobs is not here: it belongs to whoever
//! submits.

mod amd;
mod climbing;
mod conv_backends;
mod engine;
pub mod environment;
mod estimate;
mod events;
mod fingerprints;
mod finish;
mod handle;
mod inputs;
mod ladder;
mod left;
pub mod link;
mod neighbour;
mod plan;
mod process;
mod save;
mod sections;
mod starting;
mod sweep;
mod walk;
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
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind, JobOutcome, JobUpdate};
use safelight_core::memory::compute_options::ComputeOptions;
use safelight_core::memory::conv_backends::ConvBackendChoice;
use safelight_core::protocol::{EngineMessage, EngineReport};
use safelight_core::settings::{Settings, rocm_of};

pub use events::Wake;
pub use handle::{WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
pub use left::{UnfinishedJob, left_in, number_of};
pub use process::{
    FindRuntime, ProcessLauncher, engine_executable, engine_for, not_started, served_versions,
};
pub(crate) use starting::explain_start;
pub use walk::not_held;

use conv_backends::ConvBackends;
use engine::EngineSlot;
pub use estimate::Estimates;
use events::Events;
use finish::FinishWalk;
use ladder::Ladder;
use link::EngineLauncher;
use neighbour::Neighbour;
use plan::JobPlan;
use walk::Walk;

use crate::telemetry::Roots;
use crate::telemetry::monitor::Monitor;

/// What a worker needs to know of its surroundings.
pub struct WorkerOptions {
    /// Where jobs have their folders while they run.
    pub jobs: PathBuf,
    /// Where the times of earlier jobs are kept, if anywhere.
    pub estimates: Option<PathBuf>,
    /// Where the telemetry of the last jobs is kept, if anywhere.
    pub telemetry: Option<PathBuf>,
    /// File with the results of probing convolutions; `None`: not stored.
    pub conv_backends: Option<PathBuf>,
    /// Where it is counted how often memory ran out and what helped, if anywhere.
    pub counters: Option<PathBuf>,
    /// Told of each job that finished: the folder with the libtorch that it ran on.
    pub finished_on: Box<dyn Fn(&Path) + Send>,
    /// Where the kernel tells of memory and devices.
    pub roots: Roots,
    /// Asked before each job, so that a changed setting counts for the next one.
    pub limits: Box<dyn Fn() -> WorkerLimits + Send>,
}

/// What the settings say of running an engine: how long it may be silent, how it computes, and how well results are kept.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Without any progress, before it counts as hung.
    pub stall: Duration,
    /// After a cancel, before it is ended.
    pub cancel_grace: Duration,
    pub conv_backend: ConvBackendChoice,
    pub compute_options: ComputeOptions,
    /// Whether jobs give their memory to other programs; heeded while one waits, too.
    pub yields: bool,
    /// Quality of lossy files, as [`ClipOptions::crf`](safelight_core::media::ClipOptions::crf).
    pub crf: u8,
}

impl WorkerLimits {
    /// As the settings say.
    pub fn of(settings: &Settings) -> Self {
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
    wake: Wake,
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
    wake: Wake,
    far_end: &WorkerFarEnd,
) {
    sweep::sweep(&options.jobs);
    let conv_backends = ConvBackends::load(options.conv_backends.clone());
    let mut engine = EngineSlot::new(launcher, conv_backends);
    let mut estimates = Estimates::load(options.estimates.clone());
    let monitor = Monitor::start(options.roots.clone(), options.telemetry.clone())
        .inspect_err(|err| tracing::warn!("nothing watches the machine: {err}"));
    let events = Events::new(
        far_end.events.clone(),
        wake,
        far_end.gone.clone(),
        monitor.ok(),
    );
    while let Ok(command) = far_end.commands.recv() {
        let limits = (options.limits)();
        let ladder = Ladder::new(options.counters.clone());
        let mut neighbour = Neighbour::new(&options.roots, limits.yields);
        // What others take while the engine starts is theirs too.
        neighbour.look(None);
        let (id, job_events, walked) = match command {
            WorkerCommand::Generate {
                id,
                request,
                device,
                cancel,
                resume,
            } => {
                tracing::info!(
                    "job {id} starts: {}, {}x{}, {} frames",
                    request.model,
                    request.width,
                    request.height,
                    request.num_frames
                );
                let job_events = events.of(id, &request.model, cancel);
                engine.want(device);
                let walked = catch_unwind(AssertUnwindSafe(|| {
                    Walk {
                        id,
                        request: &request,
                        resume: resume.as_deref(),
                        events: &job_events,
                        options,
                        limits: &limits,
                        engine: &mut engine,
                        estimates: &mut estimates,
                        ladder,
                        neighbour,
                        plan: JobPlan::new(&request, options.estimates.as_deref()),
                    }
                    .run()
                }));
                (id, job_events, walked)
            }
            WorkerCommand::Finish {
                id,
                request,
                device,
                cancel,
                resume,
            } => {
                tracing::info!("job {id} starts: {}", request.network_name());
                let job_events = events.of(id, &request.network_name(), cancel);
                engine.want(device);
                let walked = catch_unwind(AssertUnwindSafe(|| {
                    FinishWalk {
                        id,
                        request: &request,
                        resume: resume.as_deref(),
                        events: &job_events,
                        options,
                        limits: &limits,
                        engine: &mut engine,
                        ladder,
                        neighbour,
                        plan: std::cell::OnceCell::new(),
                    }
                    .run()
                }));
                (id, job_events, walked)
            }
        };
        let outcome = walked.unwrap_or_else(|panic| {
            engine.drop_engine();
            JobOutcome::Failed(panic_error(panic.as_ref()))
        });
        if matches!(outcome, JobOutcome::Paused) {
            // Whoever pauses wants the memory for something else.
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

/// Of a failure that may be the device's or its libraries': which they are.
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

/// Starts an engine, hears what it is, and ends it: for the doctor.
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
