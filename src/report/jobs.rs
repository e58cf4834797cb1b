//! Small jobs through a worker of its own, one after the other, with what is held behind each: do any fail, and does
//! memory come back?
//!
//! Reports and soaks run their jobs here. Which jobs is theirs to say.

use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use safelight_core::catalog::{Catalog, EMBEDDED_MODEL};
use safelight_core::job::{
    CancelToken, DeviceChoice, GenerateForm, GenerateRequest, JobError, JobErrorKind, JobId,
    JobOutcome, JobUpdate, MemorySample, Sampling,
};
use safelight_core::library::Companions;

use super::levels::Levels;
use super::sections::Run;
use super::{Figure, Row, Section};
use crate::telemetry::Roots;
use crate::worker::{
    self, ProcessLauncher, WorkerCommand, WorkerHandle, WorkerLimits, WorkerOptions,
};

/// A worker with one engine, and what was held behind its jobs so far.
pub struct SmallJobs {
    handle: WorkerHandle,
    device: DeviceChoice,
    pub levels: Levels,
}

impl SmallJobs {
    pub fn begin(
        options: WorkerOptions,
        launcher: ProcessLauncher,
        device: DeviceChoice,
    ) -> Result<Self, JobError> {
        let (handle, _thread) = worker::spawn(options, Box::new(launcher), Box::new(|| {}))
            .map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
        Ok(Self {
            handle,
            device,
            levels: Levels::default(),
        })
    }

    /// Runs one job to its end; `cancel_after`: at which update it is cancelled, counted from 1. `is_warm_up`: one of
    /// those that meet everything once before memory is looked at.
    pub fn play(
        &mut self,
        request: GenerateRequest,
        cancel: &CancelToken,
        cancel_after: Option<u32>,
        is_warm_up: bool,
    ) -> Result<JobOutcome, JobError> {
        let command = WorkerCommand::Generate {
            id: JobId::next(),
            request: Box::new(request),
            resume: None,
            device: self.device,
            cancel: cancel.clone(),
        };
        let broken = |what: &str| JobError::new(JobErrorKind::Internal, what);
        if self.handle.try_send(command).is_err() {
            return Err(broken("the worker does not take jobs"));
        }
        let (mut last, mut heard) = (MemorySample::default(), 0);
        let outcome = loop {
            let Some(event) = self.handle.wait() else {
                return Err(broken("the worker ended without a word"));
            };
            heard += 1;
            if cancel_after == Some(heard) {
                cancel.cancel();
            }
            match event.update {
                JobUpdate::Memory(memory) => last = memory,
                JobUpdate::Ended(outcome) => break outcome,
                _ => {}
            }
        };
        self.levels.take(is_warm_up, &last);
        Ok(outcome)
    }
}

/// How many jobs a report runs.
const COUNT: u32 = 50;
/// As many of them meet every size once before memory is looked at.
const WARM_UP: u32 = 12;
/// Of all of them, a first search for convolutions included.
const LIMIT: Duration = Duration::from_secs(150);
/// Pixels, and frames of a clip.
const SIZES: [(u32, u32, u32); 4] = [(64, 64, 1), (64, 64, 5), (128, 64, 5), (96, 96, 1)];
/// So much may be held more at the end, as a part of what was held before.
const TOLERANCE: f64 = 0.02;

/// Fifty jobs of the model that ships, in one engine.
pub(super) fn section(run: &mut Run<'_>, section: &mut Section) -> Result<(), String> {
    section.about = "Of the little world, the model that ships with Safelight, in one engine: pictures and clips of different sizes.".to_owned();
    let sentence = |err: JobError| format!("{}.", err.summary);
    let (paths, settings) = (&run.order.paths, &run.order.settings);
    let catalog = Catalog::load(paths, settings);
    let spec = catalog
        .open_with(EMBEDDED_MODEL, &Companions::default())
        .map_err(|err| sentence(JobError::from(&err)))?;
    let form = GenerateForm {
        prompt: "a red boat on the sea".to_owned(),
        ..GenerateForm::default()
    };
    let checked = form.validate(&spec).map_err(|errors| {
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("{}.", text.join("; "))
    })?;
    let limits = WorkerLimits::of(settings);
    let folder = run.scratch.0.clone();
    let options = WorkerOptions {
        jobs: folder.join("jobs"),
        // They say nothing of what people do.
        estimates: None,
        telemetry: None,
        counters: None,
        // A verdict on a device holds for every job.
        conv_backends: Some(paths.conv_backends_file()),
        finished_on: Box::new(|_| {}),
        roots: Roots::of_this_machine(),
        limits: Box::new(move || limits),
    };
    let launcher = ProcessLauncher::of_user(paths);
    let mut jobs = SmallJobs::begin(options, launcher, run.engines.device).map_err(sentence)?;
    let (limit, began) = (LIMIT.min(run.left()), Instant::now());
    let mut tally = Tally::default();
    for number in 1..=COUNT {
        if run.cancel.is_cancelled() || began.elapsed() >= limit {
            break;
        }
        run.progress(
            0.28 + 0.12 * number as f32 / COUNT as f32,
            "Fifty small jobs",
        );
        let (width, height, num_frames) = SIZES[number as usize % SIZES.len()];
        let extension = if num_frames == 1 { "png" } else { "webp" };
        let request = GenerateRequest {
            width,
            height,
            num_frames,
            sampling: Sampling {
                num_steps: 2,
                ..checked.request.sampling
            },
            seed: u64::from(number),
            out: folder.join(format!("job-{number}.{extension}")),
            ..checked.request.clone()
        };
        let cancel = CancelToken::default();
        let _guard = cancel_with(run.cancel, limit.saturating_sub(began.elapsed()), &cancel);
        let before = Instant::now();
        let outcome = jobs
            .play(request, &cancel, None, number <= WARM_UP)
            .map_err(sentence)?;
        tally.count(&outcome, before.elapsed().as_secs_f64());
    }
    section.rows = tally.rows(&jobs.levels);
    if tally.finished < COUNT && !run.cancel.is_cancelled() && tally.failed.is_empty() {
        section.problems.push(format!(
            "{} of {COUNT} jobs ended within {} s.",
            tally.finished,
            limit.as_secs()
        ));
    }
    Ok(())
}

/// How the jobs ended.
#[derive(Debug, Default)]
struct Tally {
    finished: u32,
    secs: Vec<f64>,
    failed: Vec<String>,
    climbs: usize,
}

impl Tally {
    fn count(&mut self, outcome: &JobOutcome, secs: f64) {
        match outcome {
            JobOutcome::Finished(output) => {
                self.finished += 1;
                self.climbs += output.rungs.len();
                self.secs.push(secs);
            }
            JobOutcome::Failed(err) => self.failed.push(err.summary.clone()),
            JobOutcome::Cancelled | JobOutcome::Kept(_) | JobOutcome::Paused => {}
        }
    }

    fn rows(&self, levels: &Levels) -> Vec<Row> {
        let mut secs = self.secs.clone();
        secs.sort_by(f64::total_cmp);
        let first = self.secs.first().copied().unwrap_or(0.0);
        let median = secs.get(secs.len() / 2).copied().unwrap_or(0.0);
        let mut rows = vec![
            Row {
                id: "jobs_time".to_owned(),
                label: "Time of a job".to_owned(),
                figures: vec![
                    Figure::new("median", median, "s"),
                    Figure::new("first", first, "s"),
                ],
                note: format!("{} finished", self.finished),
                is_bad: false,
            },
            Row {
                id: "jobs_failed".to_owned(),
                label: "Jobs that failed".to_owned(),
                figures: vec![
                    Figure::new("failed", self.failed.len() as f64, "jobs"),
                    Figure::new("tries again", self.climbs as f64, "times"),
                    Figure::new("engines", levels.num_engines() as f64, "engines"),
                ],
                note: self.failed.first().cloned().unwrap_or_default(),
                is_bad: !self.failed.is_empty() || levels.num_engines() > 1,
            },
        ];
        if let Some((before, after)) = levels.ends() {
            let growth = after.growth(&before);
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let fields = before.fields().into_iter().zip(after.fields());
            rows.push(Row {
                id: "jobs_growth".to_owned(),
                label: "Memory that did not come back".to_owned(),
                figures: vec![Figure::new("grown", growth * 100.0, "%")],
                note: fields
                    .map(|((name, before), (_, after))| {
                        format!("{name} {:.1} → {:.1} MiB", mib(before), mib(after))
                    })
                    .collect::<Vec<_>>()
                    .join("; "),
                is_bad: growth > TOLERANCE,
            });
        }
        rows
    }
}

/// Cancels `job` when `wanted` is cancelled or the time is over, until what it gives is dropped.
pub(super) fn cancel_with(wanted: &CancelToken, limit: Duration, job: &CancelToken) -> Guard {
    let (guard, ended) = bounded::<()>(0);
    let (wanted, job) = (wanted.clone(), job.clone());
    let watch = move || {
        let deadline = Instant::now() + limit;
        let is_over = || wanted.is_cancelled() || Instant::now() >= deadline;
        while !is_over() {
            let next = Duration::from_millis(50);
            if ended.recv_timeout(next) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
        job.cancel();
    };
    let thread = std::thread::Builder::new().name("report-jobs".to_owned());
    if let Err(err) = thread.spawn(watch) {
        tracing::warn!("small jobs cannot be stopped in their middle: {err}");
    }
    Guard { _end: guard }
}

/// Ends the thread that watches for a cancel.
pub(super) struct Guard {
    _end: Sender<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_cancelled_with_its_report_and_when_its_time_is_over() {
        let (wanted, job) = (CancelToken::default(), CancelToken::default());
        let _guard = cancel_with(&wanted, Duration::from_hours(1), &job);
        assert!(!job.is_cancelled());
        wanted.cancel();
        while !job.is_cancelled() {
            std::thread::yield_now();
        }
        let late = CancelToken::default();
        let _guard = cancel_with(&CancelToken::default(), Duration::ZERO, &late);
        while !late.is_cancelled() {
            std::thread::yield_now();
        }
    }
}
