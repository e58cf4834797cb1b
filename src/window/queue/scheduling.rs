//! Scheduling: waiting jobs get the devices that are free, and at the end of a job the next one follows.

use std::num::NonZeroU32;

use safelight_core::job::DeviceChoice;
use safelight_core::job_update::{JobOutcome, JobOutput, JobUpdate};
use safelight_core::sanitize::one_line;
use safelight_core::units::duration_text;

use crate::window::computers::RemoteComputers;
use crate::window::create::undo::UndoAction;
use crate::window::devices::JobDevices;
use crate::window::memory::planning::MemoryPlanning;
use crate::window::prelude::*;
use crate::window::queue::jobs::{RemovedJob, ResultItem, StopReason, StoppedJob, WaitingJob};
use crate::window::queue::{JobQueue, RunningJob};
use crate::worker::{WorkerCommand, WorkerHandle};

/// Maximum number of characters of a prompt that names a job.
const MAX_PROMPT: usize = 80;

impl JobQueue {
    /// Gives waiting jobs, in their order, to the free devices that they fit.
    pub(crate) fn start_next(
        &mut self,
        devices: &mut JobDevices,
        computers: &RemoteComputers,
        cx: &mut AppContext,
    ) {
        let mut at = 0;
        while !self.is_paused && devices.are_ready() {
            let Some(job) = self.waiting.get(at) else {
                return;
            };
            if job.is_held || Some(job.id) == self.edited() {
                at += 1;
            } else if let Some(host) = job.request.computer().map(str::to_owned) {
                match computers.worker(&host) {
                    Some(worker) if !self.is_busy(&host) => {
                        if !self.start(at, worker, host, None, cx) {
                            return self.lose_worker(cx);
                        }
                    }
                    Some(_) => at += 1,
                    None => self.fail_unknown_computer(at, &host, cx),
                }
            } else if let Some(index) = devices.free_for(job, &|name| self.is_free(name), cx) {
                let is_alone = self.waiting.len() == 1;
                let shared_by =
                    devices.shared_by(index, job, is_alone, &|name| self.is_free(name), cx);
                devices.begin(index, job);
                let device = &devices.list[index];
                let name = device.name.clone();
                let place = (device.device, shared_by);
                if !self.start(at, &device.worker, name, Some(place), cx) {
                    devices.list.remove(index);
                    if devices.list.is_empty() {
                        return self.lose_worker(cx);
                    }
                }
            } else if job.request.num_devices() > 1 {
                // Later jobs would keep its devices busy for ever.
                return;
            } else {
                at += 1;
            }
        }
    }

    /// Sends a waiting job to a worker, if that lives. `place`: where it runs unless it is pinned, and the number of devices
    /// that share it where it does not say so.
    fn start(
        &mut self,
        at: usize,
        worker: &WorkerHandle,
        device_name: String,
        place: Option<(DeviceChoice, Option<NonZeroU32>)>,
        cx: &mut AppContext,
    ) -> bool {
        let Some(job) = self.waiting.remove(at) else {
            return true;
        };
        let cancel = CancelToken::default();
        let (device, shared_by) = place.unzip();
        let any = device.filter(|_| job.device == DeviceChoice::Auto);
        let mut request = job.request.clone();
        if let (Some(Some(devices)), Some(request)) = (shared_by, request.generate_mut()) {
            request.options.memory.devices = Some(devices);
        }
        let command = WorkerCommand {
            id: job.id,
            request: request.clone(),
            device: any.unwrap_or(job.device),
            cancel: cancel.clone(),
            resume: job.resume.clone(),
        };
        if worker.try_send(command).is_err() {
            tracing::error!("the worker of {device_name} has ended");
            self.waiting.insert(at, job);
            return false;
        }
        // Notices of its earlier run.
        cx.notices.end(&NoticeCause::Job(job.id));
        let mut running = RunningJob::new(job, device_name, cancel);
        running.request = request;
        self.running.push(running);
        self.touch();
        true
    }

    fn fail_unknown_computer(&mut self, at: usize, host: &str, cx: &mut AppContext) {
        let Some(job) = self.waiting.remove(at) else {
            return;
        };
        let err = JobError::invalid(format!("{host} is not among your computers"));
        let advice = "Add it in the settings, then run the job again";
        self.fail(job, err.advise(advice), cx);
    }

    fn fail(&mut self, job: WaitingJob, err: JobError, cx: &mut AppContext) {
        let notice = UserNotice::of_failed(job.id, err.clone(), &job_text(&job.request));
        cx.notices.show(notice);
        self.stop(StoppedJob::new(job, StopReason::Failed(err)));
    }

    /// Returns true if another job runs, or starts without a click.
    pub(crate) fn will_go_on(&self) -> bool {
        let has_more = self.next(self.edited()).is_some() || !self.opening.is_empty();
        !self.running.is_empty() || (has_more && !self.is_paused && !self.pauses_after)
    }

    /// The jobs stay for the next start of the program.
    fn lose_worker(&mut self, cx: &mut AppContext) {
        self.is_paused = true;
        let mut advice = "Close Safelight and open it again: the queue is kept".to_owned();
        if let Some(paths) = &cx.paths {
            advice = format!("{advice}; the log says why: {}", paths.log_file().display());
        }
        let text = "the worker of this window has ended";
        let err = JobError::new(JobErrorKind::Internal, text).advise(advice);
        cx.notify(NoticeSeverity::Error, err);
    }

    /// Takes in what a worker says of its job, but not its end.
    pub(crate) fn take_update(
        &mut self,
        id: JobId,
        update: JobUpdate,
        planning: &MemoryPlanning,
        cx: &mut AppContext,
    ) {
        let Some(running) = self.running.iter_mut().find(|job| job.id == id) else {
            return;
        };
        match &update {
            JobUpdate::Warning(text) => warn(running, text.clone(), cx),
            JobUpdate::Settled { request, notices } => {
                cx.notices.show_changes(&request.model(), notices);
            }
            JobUpdate::Device(line) => self.device_line.clone_from(line),
            JobUpdate::Plan(plan) => {
                let request = running.request.generate();
                running.memory.course = request.map(|request| planning.course_of(request, plan));
            }
            _ => {}
        }
        running.apply(update);
    }

    /// A job has ended, and is among the finished, stopped or cancelled ones now.
    pub(crate) fn end(&mut self, mut job: RunningJob, outcome: JobOutcome, cx: &mut AppContext) {
        let output = outcome.output();
        let plan = output.and_then(|output| output.plan.clone());
        let climbs = output.map_or_else(Vec::new, |output| output.rungs.clone());
        match outcome {
            JobOutcome::Finished(output) => {
                self.grids.finish_cell(&job.request, output.path());
                self.keep_result(&job, output, cx);
            }
            JobOutcome::Cancelled => {
                offer_cancelled(&job, cx);
                cx.say("Cancelled; Ctrl+Z puts it back");
            }
            JobOutcome::Kept(output) => {
                self.keep_result(&job, output, cx);
                offer_cancelled(&job, cx);
                cx.say("Cancelled; what was made is kept");
            }
            JobOutcome::Paused => self.put_off(&job, cx),
            JobOutcome::Failed(err) => {
                cx.say("The last job failed");
                self.fail(job.to_idle(err.kept.clone()), err, cx);
                self.find_left(cx);
            }
        }
        self.has_worked = true;
        if std::mem::take(&mut self.pauses_after) {
            self.is_paused = true;
        }
        self.touch();
        self.last_memory = std::mem::take(&mut job.memory);
        self.last_job = Some(job.id);
        self.last_memory.conclude(plan, climbs);
        // It may hold the whole video.
        cx.background.free(job);
    }

    fn keep_result(&mut self, job: &RunningJob, output: JobOutput, cx: &mut AppContext) {
        cx.say(format!("Done in {}", duration_text(output.secs)));
        for text in &output.warnings {
            warn(job, text.clone(), cx);
        }
        let request = job.request.clone();
        if output.video.frames.is_empty() && request.generate().is_some() {
            let text = "the finished job came without frames";
            let err = JobError::new(JobErrorKind::Internal, text)
                .advise(format!("The file is {}", output.path().display()));
            cx.tell_about(NoticeCause::Job(job.id), NoticeSeverity::Warning, err);
            return;
        }
        let item = ResultItem {
            id: job.id,
            is_in_memory: request.generate().is_some(),
            request,
            output,
        };
        cx.background.free(self.keep(item));
    }

    /// A job whose device has failed continues on another one.
    pub(crate) fn move_on(&mut self, job: RunningJob, err: JobError, cx: &mut AppContext) {
        self.put_first(job.to_idle(err.kept.clone()));
        let summary = format!("{}: {}", job.device_name, err.summary);
        let err = JobError::new(err.kind, summary).detail(err.details).advise(
            "The job continues on another device, and this one gets new jobs last. Check it in the Doctor",
        );
        cx.tell_about(NoticeCause::Job(job.id), NoticeSeverity::Warning, err);
        cx.background.free(job);
    }

    /// Puts a job before those that wait, and after those that began before it and stopped too.
    fn put_first(&mut self, idle: WaitingJob) {
        let is_before = |job: &&WaitingJob| job.resume.is_some() && job.id < idle.id;
        let at = self.waiting.iter().take_while(is_before).count();
        self.waiting.insert(at, idle);
        self.touch();
    }

    /// A paused job becomes the first again, or is set aside if only it was paused.
    fn put_off(&mut self, job: &RunningJob, cx: &mut AppContext) {
        let folder = cx.paths.as_ref().map(AppPaths::jobs);
        let idle = job.to_idle(folder.map(|jobs| jobs.join(job.id.to_string())));
        if job.is_set_aside {
            self.stop(StoppedJob::new(idle, StopReason::Paused));
            // Its folder contains its progress.
            self.find_left(cx);
        } else {
            self.put_first(idle);
        }
        cx.say("Paused; it can be resumed");
    }
}

fn job_text(request: &JobRequest) -> String {
    format!("The job: {}", one_line(&request.title(), MAX_PROMPT))
}

/// A cancelled job can be put back, to be made from its beginning.
fn offer_cancelled(job: &RunningJob, cx: &mut AppContext) {
    let job = WaitingJob {
        // The old number has had its end.
        id: JobId::next(),
        ..job.to_idle(None)
    };
    let done = format!("Cancelled: {}", job.request.title());
    let (jobs, was_paused) = (vec![RemovedJob::Cancelled(job)], false);
    cx.offer_undo("cancel a job", done, UndoAction::Jobs { jobs, was_paused });
}

/// A job's warning stays for whoever comes back to a queue that ran alone.
fn warn(job: &RunningJob, text: String, cx: &mut AppContext) {
    let warning = JobError::new(JobErrorKind::Internal, text);
    let warning = warning.advise(job_text(&job.request));
    cx.tell_about(NoticeCause::Job(job.id), NoticeSeverity::Warning, warning);
}
