//! `safelight generate`: jobs from the command line, on the same path as the window's.

mod args;
mod carried;
mod jobs;
mod memory;
mod outpaint;
mod report;
pub(super) mod restored;
pub mod resume;
mod sampling;
mod second_pass;
mod telemetry;

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use safelight_core::job::{
    CancelToken, DeviceChoice, FormNotice, GridId, GridRecord, JobError, JobErrorKind, JobId,
    JobRequest, PostprocessRequest, ValidatedForm, write_sheet,
};
use safelight_core::job_update::{JobOutcome, JobUpdate};

pub use args::GenerateArgs;
use carried::CarriedArgs;
use jobs::RequestedJobs;
pub use memory::gib_value;
use report::{HumanReport, JobListener, JsonReport};
pub(super) use report::{ended, print_event, print_failed, progress_bar, say};
use telemetry::TelemetryOutput;

use super::CliEnvironment;
use crate::computers::client;
use crate::worker::{self, WorkerCommand, WorkerHandle};

/// Exit code of a cancelled job.
pub(super) const CANCELLED: u8 = 5;
/// Time after the first interrupt in which others belong to it.
const ONE_PRESS: Duration = Duration::from_millis(200);

/// The jobs that these arguments ask for, checked and not begun.
pub(super) fn jobs_of(
    args: &GenerateArgs,
    environment: &CliEnvironment,
) -> Result<Vec<ValidatedForm>, JobError> {
    Ok(jobs::jobs_from_args(args, environment)?.jobs)
}

/// Runs the jobs to their end.
pub fn run(args: GenerateArgs, environment: &CliEnvironment) -> ExitCode {
    let is_json = args.json;
    ended(generate(args, environment), is_json)
}

/// The exit code of the jobs, once one began: that of the first that did not finish. The error when none could.
fn generate(args: GenerateArgs, environment: &CliEnvironment) -> Result<u8, JobError> {
    let (device, is_json) = (args.device, args.json);
    let telemetry = args.telemetry.clone();
    let (made, warnings) = jobs_of_all(args.with_carried(environment)?, environment)?;
    let telemetry = telemetry.map(|file| TelemetryOutput::to(file, environment));
    let telemetry = telemetry.transpose()?;
    let jobs = made
        .jobs
        .into_iter()
        .map(|job| CliJob {
            id: JobId::next(),
            request: job.request.into(),
            notices: job.notices,
            resume: None,
        })
        .collect();
    let orders = CliJobs {
        jobs,
        grids: made.grids,
        warnings,
        telemetry,
    };
    work(orders, device, is_json, environment)
}

/// Jobs of the results of a file, and warnings. Of several results those that cannot be made are left out, which is
/// said; the error when none can.
fn jobs_of_all(
    all: Vec<CarriedArgs>,
    environment: &CliEnvironment,
) -> Result<(RequestedJobs, Vec<String>), JobError> {
    let is_one = all.len() == 1;
    let (mut made, mut warnings) = (RequestedJobs::default(), Vec::new());
    let mut first_error = None;
    for (number, args) in (1..).zip(all) {
        let jobs = args.and_then(|(args, warnings)| {
            if args.needs_prompt {
                let summary = "a prompt is needed: the file has none that could be read";
                return Err(JobError::invalid(summary)
                    .advise("Add --prompt TEXT; `safelight inspect FILE` says what was read"));
            }
            Ok((jobs::jobs_from_args(&args, environment)?, warnings))
        });
        let prefix = if is_one {
            String::new()
        } else {
            format!("result {number}: ")
        };
        match jobs {
            Ok((jobs, more)) => {
                made.jobs.extend(jobs.jobs);
                made.grids.extend(jobs.grids);
                warnings.extend(more.iter().map(|text| format!("{prefix}{text}")));
            }
            Err(err) => {
                warnings.push(format!("{prefix}it is left out: {}", err.summary));
                first_error.get_or_insert(err);
            }
        }
    }
    match first_error {
        Some(err) if made.jobs.is_empty() => Err(err),
        _ => Ok((made, warnings)),
    }
}

/// A job to run.
struct CliJob {
    id: JobId,
    request: JobRequest,
    /// Differences from the arguments.
    notices: Vec<FormNotice>,
    /// The folder in which an earlier program left it.
    resume: Option<PathBuf>,
}

/// All that is to be done.
#[derive(Default)]
struct CliJobs {
    jobs: Vec<CliJob>,
    /// The grids that the jobs are cells of, each with the file of its contact sheet.
    grids: Vec<(GridRecord, PathBuf)>,
    warnings: Vec<String>,
    telemetry: Option<TelemetryOutput>,
}

impl CliJobs {
    /// One job. `resume`: the folder in which an earlier program left it.
    fn single(request: JobRequest, resume: Option<PathBuf>) -> Self {
        let id = resume.as_deref().and_then(worker::number_of);
        let job = CliJob {
            id: id.unwrap_or_else(JobId::next),
            request,
            notices: Vec::new(),
            resume,
        };
        Self {
            jobs: vec![job],
            ..Self::default()
        }
    }
}

/// Runs a job that finishes something to its end; the exit code as [`generate`] has it.
pub(in crate::cli) fn finish(
    request: PostprocessRequest,
    device: Option<DeviceChoice>,
    is_json: bool,
    environment: &CliEnvironment,
) -> Result<u8, JobError> {
    work(
        CliJobs::single(request.into(), None),
        device,
        is_json,
        environment,
    )
}

/// Runs jobs one after the other; the exit code as [`generate`] has it.
fn work(
    orders: CliJobs,
    device: Option<DeviceChoice>,
    is_json: bool,
    environment: &CliEnvironment,
) -> Result<u8, JobError> {
    let device = device.unwrap_or_else(|| environment.settings().runtime.first_device());
    let cancel = CancelToken::default();
    stop_on_signal(&cancel)?;

    let host = orders.jobs.iter().find_map(|job| job.request.computer());
    let (handle, thread) = match host.map(str::to_owned) {
        Some(host) => connected(&host, environment),
        None => worker::spawn(
            environment.worker_options(),
            environment.launcher(),
            Box::new(|| {}),
        ),
    }
    .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    let CliJobs {
        jobs,
        mut grids,
        warnings,
        mut telemetry,
    } = orders;
    let mut failed = HashSet::new();
    let num_jobs = jobs.len();
    let mut codes = Vec::new();
    let said = environment.oddities().into_iter().chain(warnings);
    let mut report: Box<dyn JobListener> = if is_json {
        Box::<JsonReport>::default()
    } else {
        Box::new(HumanReport::new())
    };
    for text in said {
        report.update(&JobUpdate::Warning(text));
    }
    for (index, job) in jobs.into_iter().enumerate() {
        let (id, cell) = (job.id, job.request.cell());
        let folder = job.resume.clone();
        let folder = folder.unwrap_or_else(|| environment.paths.jobs().join(id.to_string()));
        let CliJob {
            request,
            notices,
            resume,
            ..
        } = job;
        let number = Some((index + 1, num_jobs)).filter(|_| num_jobs > 1);
        let command = WorkerCommand {
            id,
            request,
            device,
            cancel: cancel.clone(),
            resume,
        };
        let outcome = outcome_of(&handle, command, (number, &notices), report.as_mut())?;
        if let Some(Err(text)) = telemetry.as_mut().map(|it| it.add(id)) {
            report.update(&JobUpdate::Warning(text));
        }
        report.end(&outcome, &folder);
        match (&outcome, cell) {
            (JobOutcome::Finished(output), Some((grid, index))) => {
                let record = grids.iter_mut().find(|(record, _)| record.grid.id == grid);
                if let Some((record, _)) = record {
                    record.finish(index, output.path());
                }
            }
            (JobOutcome::Failed(_), Some(cell)) => {
                failed.insert(cell);
            }
            _ => {}
        }
        codes.push(exit_code(&outcome));
        if cancel.is_cancelled() {
            break;
        }
    }
    drop(handle);
    thread.join().ok();
    codes.extend(write_sheets(&grids, &failed, report.as_mut()));
    Ok(codes.into_iter().find(|code| *code != 0).unwrap_or(0))
}

/// The worker on another computer.
fn connected(
    host: &str,
    environment: &CliEnvironment,
) -> io::Result<(WorkerHandle, JoinHandle<()>)> {
    let (paths, settings) = (environment.paths.clone(), environment.settings().clone());
    let settings = Box::new(move || settings.clone());
    let (link, thread) = client::connect(host, paths, settings, Box::new(|| {}))?;
    Ok((link.worker, thread))
}

/// The contact sheets of all grids with a result; the exit codes of those that could not be written.
fn write_sheets(
    grids: &[(GridRecord, PathBuf)],
    failed: &HashSet<(GridId, usize)>,
    report: &mut dyn JobListener,
) -> Vec<u8> {
    let mut codes = Vec::new();
    for (record, out) in grids.iter().filter(|(record, _)| record.lacks_sheet()) {
        let id = record.grid.id;
        match write_sheet(record, &|index| failed.contains(&(id, index)), out) {
            Ok(path) => report.sheet(&path),
            Err(err) => {
                let text = format!("the contact sheet could not be written: {err}");
                report.update(&JobUpdate::Warning(text));
                codes.push(JobErrorKind::Disk.exit_code());
            }
        }
    }
    codes
}

/// Runs one job to its end. `number`: of several jobs, counted from 1, and their count; `notices`: what differs from the
/// arguments.
fn outcome_of(
    handle: &WorkerHandle,
    command: WorkerCommand,
    (number, notices): (Option<(usize, usize)>, &[FormNotice]),
    report: &mut dyn JobListener,
) -> Result<JobOutcome, JobError> {
    let broken = |what: &str| JobError::new(JobErrorKind::Internal, what);
    if handle.try_send(command).is_err() {
        return Err(broken("the worker does not take jobs"));
    }
    loop {
        let Some(event) = handle.wait() else {
            return Err(broken("the worker ended without an answer"));
        };
        match event.update {
            JobUpdate::Ended(outcome) => return Ok(outcome),
            JobUpdate::Settled {
                request,
                notices: more,
            } => {
                if let Some(((number, count), request)) = number.zip(request.generate()) {
                    report.job(number, count, request);
                }
                let more = more.iter().filter(|notice| !notices.contains(notice));
                for notice in notices.iter().chain(more) {
                    report.notice(notice);
                }
            }
            update => report.update(&update),
        }
    }
}

fn exit_code(outcome: &JobOutcome) -> u8 {
    match outcome {
        JobOutcome::Finished(_) => 0,
        JobOutcome::Cancelled | JobOutcome::Kept(_) | JobOutcome::Paused => CANCELLED,
        JobOutcome::Failed(err) => err.kind.exit_code(),
    }
}

/// Ctrl-C, SIGTERM and SIGHUP stop the work so that it can resume later; a second one exits immediately, with the
/// effects of a crash.
pub(in crate::cli) fn stop_on_signal(cancel: &CancelToken) -> Result<(), JobError> {
    let cancel = cancel.clone();
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || match first {
        None => {
            first = Some(Instant::now());
            cancel.pause();
        }
        // Two signals of one key press (to the group and to the process) count once.
        Some(first) if first.elapsed() < ONE_PRESS => {}
        Some(_) => {
            #[expect(
                clippy::exit,
                reason = "the user insists; the engine ends with its input"
            )]
            std::process::exit(i32::from(CANCELLED));
        }
    })
    .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))
}
