//! The server in the app: answers its calls from the queue and the models, and sends it the events of jobs.
//!
//! HTTP is [`crate::server`]'s. Nothing here waits.

pub mod panel;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use safelight_core::job::PostprocessKind;
use safelight_core::job_update::JobOutcome;
use safelight_core::settings::ServerSettings;

use crate::server::link::{
    AppLink, JobChange, JobEvent, JobProblem, JobStatus, JobView, MAX_WAITING, ServerCall,
    ServerModels, SubmitError, SubmittedJobs, link,
};
use crate::server::{self, RunningServer, ServerOptions};
use crate::window::create::choices::MoveTarget;
use crate::window::create::form::{whole_form, window_jobs};
use crate::window::prelude::*;
use crate::window::queue::{JobQueue, RunningJob, StopReason, StoppedJob, WaitingJob};

/// Ended jobs that clients can still ask for.
const MAX_ENDED: usize = 1000;

#[derive(Default)]
pub struct ServerState {
    link: Option<AppLink>,
    /// The settings' server, or why it does not run.
    pub running: Option<Result<RunningServer, JobError>>,
    starting: BackgroundTask<Result<RunningServer, JobError>>,
    followed: ServerSettings,
    /// Newest first.
    ended: VecDeque<JobView>,
    /// Last event of each job that has not ended.
    sent: HashMap<JobId, Arc<JobView>>,
    /// State of the queue at the last event.
    revision: u64,
    shown: Option<Arc<RgbPixels>>,
}

impl ServerState {
    pub fn connect(&mut self, link: AppLink) {
        self.link = Some(link);
        self.sent.clear();
        self.revision = 0;
    }

    /// Starts and stops the server as the settings say.
    pub(super) fn follow_settings(&mut self, cx: &mut AppContext) {
        if let Some(started) = self.starting.take() {
            if let Err(err) = &started {
                cx.notify(NoticeSeverity::Error, err.clone());
            }
            self.running = Some(started);
        }
        let wanted = cx.settings.server;
        if wanted == self.followed || self.starting.is_busy() {
            return;
        }
        self.followed = wanted;
        // Its end waits for clients.
        let old = self.running.take();
        let paths = cx.paths.clone();
        let Some((address, paths)) = wanted.address().zip(paths) else {
            self.link = None;
            cx.background.free(old);
            return;
        };
        let ctx = cx.ctx.clone();
        let (server, app) = link(move || ctx.request_repaint());
        self.connect(app);
        self.starting = cx.background.run("start-server", move || {
            // The port is free when the old one has ended.
            drop(old);
            let options = ServerOptions::new(address, &paths)?;
            server::start(server, options)
        });
    }

    /// Takes the calls that have come.
    pub(super) fn poll(&mut self, queue: &mut JobQueue, cx: &mut AppContext) {
        let calls = self.link.iter().flat_map(|link| link.calls.try_iter());
        let calls: Vec<ServerCall> = calls.collect();
        for call in calls {
            // A client that is gone waits for no answer.
            match call {
                ServerCall::Models(reply) => drop(reply.send(models_of(cx))),
                ServerCall::Submit(form, reply) => drop(reply.send(submit(&form, queue, cx))),
                ServerCall::List(reply) => {
                    let mut jobs: Vec<JobView> = jobs_of_queue(queue).collect();
                    let queued: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
                    let ended = self.ended.iter();
                    jobs.extend(ended.filter(|job| !queued.contains(&job.id)).cloned());
                    drop(reply.send(jobs));
                }
                ServerCall::Change(id, change, reply) => {
                    drop(reply.send(self.change(id, change, queue, cx)));
                }
            }
        }
    }

    /// Returns the job as it was before; `None` where there is none.
    fn change(
        &mut self,
        id: JobId,
        change: JobChange,
        queue: &mut JobQueue,
        cx: &mut AppContext,
    ) -> Option<JobView> {
        if change == JobChange::Cancel
            && let Some(at) = self.ended.iter().position(|job| job.id == id)
            && queue.idle_job(id).is_none()
        {
            // A client that asks again still finds a cancelled one.
            return match self.ended[at].status {
                JobStatus::Cancelled => Some(self.ended[at].clone()),
                _ => self.ended.remove(at),
            };
        }
        let job = jobs_of_queue(queue).find(|job| job.id == id)?;
        match (change, job.status) {
            (JobChange::Cancel, JobStatus::Running) => cx.push(QueueCommand::Cancel),
            (JobChange::Cancel, _) => cx.push(QueueCommand::Remove(id)),
            (JobChange::Pause, JobStatus::Running) => cx.push(QueueCommand::PauseRunning),
            (JobChange::Resume, JobStatus::Paused | JobStatus::Failed) if !queue.release(id) => {
                cx.push(QueueCommand::Restart(id));
            }
            (JobChange::Move(place), JobStatus::Waiting) => {
                queue.move_job(id, MoveTarget::Before(place));
            }
            _ => {}
        }
        Some(job)
    }

    /// Keeps what clients may ask of a job that has ended.
    pub(super) fn end(&mut self, job: &RunningJob, outcome: &JobOutcome) {
        if self.link.is_none() || matches!(outcome, JobOutcome::Paused) {
            return;
        }
        let mut view = running_view(job);
        (view.activity, view.seconds_left) = (None, None);
        match outcome {
            JobOutcome::Finished(output) | JobOutcome::Kept(output) => {
                view.status = JobStatus::Finished;
                view.progress = 1.0;
                view.paths.clone_from(&output.paths);
                view.num_files = output.paths.len();
                view.seconds = Some(output.secs);
                view.warnings.clone_from(&output.warnings);
            }
            JobOutcome::Failed(err) => {
                view.status = JobStatus::Failed;
                view.error = Some(err.into());
            }
            JobOutcome::Cancelled | JobOutcome::Paused => view.status = JobStatus::Cancelled,
        }
        self.keep(view);
    }

    fn keep(&mut self, view: JobView) {
        self.sent.remove(&view.id);
        self.send(JobEvent::Changed(Arc::new(view.clone())));
        self.ended.push_front(view);
        self.ended.truncate(MAX_ENDED);
    }

    /// Sends what has changed since the last round.
    pub(super) fn follow(&mut self, queue: &JobQueue) {
        if self.link.is_none() {
            return;
        }
        if let Some(job) = &queue.running {
            self.send_changed(running_view(job));
            let frame = job.frame.as_ref().map(|frame| &frame.image);
            let image = frame.or_else(|| job.preview(job.num_previews() / 2));
            let is_shown = match (&self.shown, image) {
                (Some(shown), Some(image)) => Arc::ptr_eq(shown, image),
                (None, None) => true,
                _ => false,
            };
            if !is_shown {
                self.shown = image.cloned();
                if let Some(image) = image {
                    self.send(JobEvent::Preview(job.id, Arc::clone(image)));
                }
            }
        }
        if self.revision == queue.revision() {
            return;
        }
        self.revision = queue.revision();
        let jobs: Vec<JobView> = jobs_of_queue(queue).collect();
        let ids: BTreeSet<JobId> = jobs.iter().map(|job| job.id).collect();
        let sent = self.sent.values();
        let gone = sent.filter(|sent| !ids.contains(&sent.id) && !sent.status.has_ended());
        let gone: Vec<Arc<JobView>> = gone.cloned().collect();
        for job in gone {
            self.keep(JobView {
                status: JobStatus::Cancelled,
                activity: None,
                ..JobView::clone(&job)
            });
        }
        for job in jobs {
            self.send_changed(job);
        }
    }

    fn send_changed(&mut self, view: JobView) {
        if self.sent.get(&view.id).is_some_and(|sent| **sent == view) {
            return;
        }
        let view = Arc::new(view);
        self.sent.insert(view.id, Arc::clone(&view));
        self.send(JobEvent::Changed(view));
    }

    fn send(&self, event: JobEvent) {
        if let Some(link) = &self.link {
            // Without a client there is no receiver.
            link.events.send(event).ok();
        }
    }
}

fn models_of(cx: &AppContext) -> ServerModels {
    ServerModels {
        specs: cx.models.all().to_vec(),
        chosen: cx.form.model.clone(),
        settings: cx.settings.clone(),
        are_loading: cx.models.are_loading,
        paths: cx.paths.clone(),
    }
}

fn submit(
    form: &GenerateForm,
    queue: &mut JobQueue,
    cx: &AppContext,
) -> Result<SubmittedJobs, SubmitError> {
    let model = form.model.clone().unwrap_or_default();
    let spec = cx.models.find(&model).map_err(SubmitError::Model)?;
    let format = form.out.extension().map(ToOwned::to_owned);
    let mut whole = whole_form(form, &spec, form.inputs.clone(), &cx.settings);
    if let Some(format) = format.filter(|_| whole.makes_image(&spec)) {
        whole.out.set_extension(format);
    }
    let num_waiting = queue.waiting.len();
    if num_waiting.saturating_add(whole.num_results(&spec)) > MAX_WAITING {
        return Err(SubmitError::QueueFull(num_waiting));
    }
    let made = window_jobs(&whole, &spec, &cx.models).map_err(SubmitError::Fields)?;
    let mut notices: Vec<String> = Vec::new();
    let mut requests = Vec::new();
    for job in made.jobs {
        requests.push(job.request);
        let new = job.notices.into_iter().map(|notice| notice.message);
        notices.extend(
            new.filter(|message| !notices.contains(message))
                .collect::<Vec<_>>(),
        );
    }
    let ids = queue.add(requests, cx);
    Ok(SubmittedJobs { ids, notices })
}

fn jobs_of_queue(queue: &JobQueue) -> impl Iterator<Item = JobView> {
    let running = queue.running.iter().map(running_view);
    let waiting = queue.waiting.iter().map(waiting_view);
    running
        .chain(waiting)
        .chain(queue.stopped.iter().map(stopped_view))
}

fn view_of(id: JobId, request: &JobRequest, status: JobStatus) -> JobView {
    let generate = request.generate();
    let (width, height) = request.size();
    let kind = match request {
        JobRequest::Finish(request) => match request.work {
            PostprocessKind::Upscale { .. } => "upscale",
            PostprocessKind::Interpolate { .. } => "interpolate",
        },
        JobRequest::Generate(_) if request.makes_images() => "image",
        JobRequest::Generate(_) => "video",
    };
    JobView {
        id,
        status,
        kind,
        model: generate.map(|request| request.model.clone()),
        prompt: request.title().into_owned(),
        seed: generate.map(|request| request.seed),
        width,
        height,
        num_frames: request.num_frames(),
        fps: request.fps(),
        progress: 0.0,
        activity: None,
        step: None,
        num_steps: None,
        seconds_left: None,
        seconds: None,
        error: None,
        warnings: Vec::new(),
        num_files: 0,
        paths: Vec::new(),
    }
}

fn waiting_view(job: &WaitingJob) -> JobView {
    let status = if job.is_held {
        JobStatus::Paused
    } else {
        JobStatus::Waiting
    };
    view_of(job.id, &job.request, status)
}

fn stopped_view(stopped: &StoppedJob) -> JobView {
    let view = view_of(stopped.job.id, &stopped.job.request, JobStatus::Paused);
    match &stopped.why {
        StopReason::Failed(err) => JobView {
            status: JobStatus::Failed,
            error: Some(JobProblem::from(err)),
            ..view
        },
        StopReason::Paused | StopReason::Unfinished => view,
    }
}

fn running_view(job: &RunningJob) -> JobView {
    JobView {
        progress: job.progress(),
        activity: Some(job.activity()),
        step: job.step.map(|(step, _)| step),
        num_steps: job.step.map(|(_, count)| count),
        seconds_left: job.secs_left,
        ..view_of(job.id, &job.request, JobStatus::Running)
    }
}
