//! The server in the app: answers its calls from the queue and the models, and sends it the events of jobs.
//!
//! HTTP is [`crate::server`]'s. Nothing here waits.

pub mod panel;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs;
use std::io::ErrorKind;

use safelight_core::job::{DeviceChoice, PostprocessKind};
use safelight_core::job_update::JobOutcome;
use safelight_core::naming;
use safelight_core::settings::ServerSettings;

use crate::server::link::{
    AppLink, ChangeError, JobChange, JobEvent, JobProblem, JobStatus, JobView, MAX_WAITING,
    NewJobs, PreviewImage, ServerCall, ServerModels, SubmitError, SubmittedJobs, link, result_id,
    without_folders,
};
use crate::server::{self, RunningServer, ServerOptions};
use crate::window::create::choices::MoveTarget;
use crate::window::create::form::{whole_form, window_jobs};
use crate::window::gallery::GalleryState;
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
    /// Last preview of each running job.
    shown: HashMap<JobId, Arc<RgbPixels>>,
    is_headless: bool,
}

impl ServerState {
    /// Connects a server to a program without a window.
    pub fn serve(&mut self, link: AppLink) {
        self.is_headless = true;
        self.connect(link);
    }

    fn connect(&mut self, link: AppLink) {
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
    pub(super) fn poll(
        &mut self,
        queue: &mut JobQueue,
        gallery: &mut GalleryState,
        cx: &mut AppContext,
    ) {
        let calls = self.link.iter().flat_map(|link| link.calls.try_iter());
        let calls: Vec<ServerCall> = calls.collect();
        for call in calls {
            // A client that is gone waits for no answer.
            match call {
                ServerCall::Models(reply) => drop(reply.send(models_of(cx))),
                ServerCall::Submit(jobs, reply) => drop(reply.send(submit(jobs, queue, cx))),
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
                ServerCall::Results(reply) => drop(reply.send(gallery.stored_results(cx))),
            }
        }
    }

    fn change(
        &mut self,
        id: JobId,
        change: JobChange,
        queue: &mut JobQueue,
        cx: &mut AppContext,
    ) -> Result<JobView, ChangeError> {
        let ended = self.ended.iter().position(|job| job.id == id);
        let Some(job) = jobs_of_queue(queue).find(|job| job.id == id) else {
            let at = ended.ok_or(ChangeError::NotFound)?;
            return match (change, self.ended[at].status) {
                (_, JobStatus::Cancelled) => Err(ChangeError::NoEffect(JobStatus::Cancelled)),
                (JobChange::Cancel, _) => self.ended.remove(at).ok_or(ChangeError::NotFound),
                (_, status) => Err(ChangeError::NoEffect(status)),
            };
        };
        let mut id_then = id;
        match (change, job.status) {
            (JobChange::Cancel, JobStatus::Running) => cx.push(QueueCommand::Cancel(Some(id))),
            (JobChange::Cancel, _) => {
                cx.push(QueueCommand::Remove(id));
                ended.and_then(|at| self.ended.remove(at));
                self.remove_folder(id, cx);
            }
            (JobChange::Pause, JobStatus::Running) => cx.push(QueueCommand::SetAside(Some(id))),
            (JobChange::Resume, JobStatus::Paused | JobStatus::Failed) if queue.release(id) => {}
            // It is being edited in the window: the command ends that first.
            (JobChange::Resume, JobStatus::Paused | JobStatus::Failed)
                if queue.edited() == Some(id) =>
            {
                cx.push(QueueCommand::Restart(id));
            }
            (JobChange::Resume, JobStatus::Paused | JobStatus::Failed) => {
                id_then = queue.restart(id).unwrap_or(id);
                cx.notices.end(&NoticeCause::Job(id));
            }
            (JobChange::Move(place), JobStatus::Waiting) => {
                queue.move_job(id, MoveTarget::Before(place));
            }
            (_, status) => return Err(ChangeError::NoEffect(status)),
        }
        let mut jobs = jobs_of_queue(queue);
        Ok(jobs.find(|job| job.id == id_then).unwrap_or(job))
    }

    /// Removes a job's folder; a window keeps it, since a removal can be undone.
    fn remove_folder(&self, id: JobId, cx: &AppContext) {
        if self.is_headless
            && let Some(paths) = &cx.paths
        {
            let folder = paths.jobs().join(id.to_string());
            let remove = move || match fs::remove_dir_all(&folder) {
                Err(err) if err.kind() != ErrorKind::NotFound => {
                    tracing::warn!("the folder of a removed job stays: {err}");
                }
                _ => {}
            };
            drop(cx.background.on_files(remove));
        }
    }

    /// Keeps what clients may ask of a job that has ended.
    pub(super) fn end(&mut self, job: &RunningJob, outcome: &JobOutcome) {
        if self.link.is_none() || matches!(outcome, JobOutcome::Paused) {
            return;
        }
        let mut view = running_view(job);
        (view.device, view.activity, view.seconds_left) = (None, None, None);
        match outcome {
            JobOutcome::Finished(output) | JobOutcome::Kept(output) => {
                view.status = JobStatus::Finished;
                view.progress = 1.0;
                view.paths.clone_from(&output.paths);
                view.num_files = output.paths.len();
                view.results = output.paths.iter().map(|path| result_id(path)).collect();
                view.seconds = Some(output.secs);
                let warnings = output.warnings.iter();
                view.warnings = warnings.map(|text| without_folders(text)).collect();
            }
            JobOutcome::Failed(err) => {
                view.status = JobStatus::Failed;
                view.error = Some(err.into());
            }
            JobOutcome::Cancelled | JobOutcome::Paused => view.status = JobStatus::Cancelled,
        }
        self.keep(view);
    }

    fn keep(&mut self, mut view: JobView) {
        view.ended_at = Some(naming::now_secs());
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
        self.shown
            .retain(|id, _| queue.running.iter().any(|job| job.id == *id));
        for job in &queue.running {
            self.send_changed(running_view(job));
            let Some(image) = job.image() else {
                continue;
            };
            let shown = self.shown.insert(job.id, Arc::clone(image));
            if shown.is_none_or(|shown| !Arc::ptr_eq(&shown, image)) {
                let preview = PreviewImage::new(Arc::clone(image));
                self.send(JobEvent::Preview(job.id, Arc::new(preview)));
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
                device: None,
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
    jobs: NewJobs,
    queue: &mut JobQueue,
    cx: &AppContext,
) -> Result<SubmittedJobs, SubmitError> {
    let has_room = |count: usize| queue.waiting.len().saturating_add(count) <= MAX_WAITING;
    let full = SubmitError::QueueFull(queue.waiting.len());
    let (form, device) = match jobs {
        NewJobs::Generate(form, device) => (form, device),
        NewJobs::Postprocess(_) if !has_room(1) => return Err(full),
        NewJobs::Postprocess(request) => {
            let ids = queue.add(vec![request], cx);
            return Ok(SubmittedJobs {
                ids,
                notices: Vec::new(),
            });
        }
    };
    let model = form.model.clone().unwrap_or_default();
    let spec = cx.models.find(&model).map_err(SubmitError::Model)?;
    let mut whole = whole_form(&form, &spec, form.inputs.clone(), &cx.settings);
    if let Some(format) = form.out.extension().filter(|_| whole.makes_image(&spec)) {
        whole.out.set_extension(format);
    }
    if !has_room(whole.num_results(&spec)) {
        return Err(full);
    }
    let made = window_jobs(&whole, &spec, &cx.models).map_err(SubmitError::Fields)?;
    let ids = queue.add(made.requests, cx);
    if device != DeviceChoice::Auto {
        for id in &ids {
            queue.pin(*id, device);
        }
    }
    let notices = made.notices.into_iter().map(|it| it.message).collect();
    Ok(SubmittedJobs { ids, notices })
}

fn jobs_of_queue(queue: &JobQueue) -> impl Iterator<Item = JobView> {
    let running = queue.running.iter().map(running_view);
    let waiting = queue.waiting.iter().map(waiting_view);
    let stopped = queue.stopped.iter().map(stopped_view);
    running.chain(waiting).chain(stopped)
}

fn view_of(id: JobId, request: &JobRequest, status: JobStatus) -> JobView {
    let generate = request.generate();
    let (width, height) = request.size();
    let kind = match request {
        JobRequest::Finish(request) => match request.work {
            PostprocessKind::Upscale { .. } => "upscale",
            PostprocessKind::Interpolate { .. } => "interpolate",
            PostprocessKind::Depth { .. } => "depth",
        },
        JobRequest::Generate(_) if request.makes_images() => "image",
        JobRequest::Generate(_) => "video",
    };
    JobView {
        model: generate.map(|request| request.model.clone()),
        prompt: request.title().into_owned(),
        seed: generate.map(|request| request.seed),
        width,
        height,
        num_frames: request.num_frames(),
        fps: request.fps(),
        id,
        status,
        kind,
        device: None,
        progress: 0.0,
        activity: None,
        step: None,
        num_steps: None,
        seconds_left: None,
        seconds: None,
        ended_at: None,
        error: None,
        warnings: Vec::new(),
        num_files: 0,
        results: Vec::new(),
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
        device: Some(job.device_name.clone()),
        progress: job.progress(),
        activity: Some(job.activity()),
        step: job.step.map(|(step, _)| step),
        num_steps: job.step.map(|(_, count)| count),
        seconds_left: job.secs_left,
        ..view_of(job.id, &job.request, JobStatus::Running)
    }
}
