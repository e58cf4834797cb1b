//! The process of a computer that runs jobs for others: it owns the worker, keeps the events and results of each job
//! until their client has them, and outlives connections. It ends when it is idle and no client or result is left.
//!
//! One thread owns everything; others pass it what clients and the worker say, and write to clients.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::files::{make_private, make_private_folder};
use safelight_core::fitting::LoraIndex;
use safelight_core::job::{CancelToken, JobError, JobErrorKind, JobId, JobRequest};
use safelight_core::job_update::{JobOutcome, JobUpdate, PreviewFrame};
use safelight_core::locks::FileLock;
use safelight_core::protocol::PixelHeader;
use safelight_core::settings::{AppPaths, Settings};
use safelight_core::units::size_text;

use super::clients::{HostInput, Outgoing, accept};
use super::inputs::InputStore;
use super::relay::{READY, socket_in};
use super::results::ResultFile;
use super::sections::GrowingVideo;
use super::transfer::{FileContent, FileDownload, FilePart};
use super::{ClientMessage, ComputerInfo, HostEvent, HostMessage, HostUpdate, SubmittedJob, spawn};
use crate::worker::{WorkerCommand, WorkerHandle, WorkerWake};

const IDLE: Duration = Duration::from_mins(2);
/// Time that a result waits for its client.
const RESULTS_WAIT: Duration = Duration::from_hours(7 * 24);
const POLL: Duration = Duration::from_millis(500);
/// Messages of clients that wait before they are read no further.
const INPUT_ROOM: usize = 16;
/// Unsent messages from which on a client misses updates that the next ones replace.
const UNSENT: usize = 2;

/// Folders, settings and description of this computer.
pub struct HostOptions {
    /// With a data folder for jobs of other computers alone.
    pub paths: AppPaths,
    pub settings: Box<dyn Fn() -> Settings>,
    /// Quality of lossy files of the running job, for the worker's settings.
    pub crf: Arc<AtomicU8>,
    /// Describes this computer; called for each client, on its thread.
    pub look: Arc<dyn Fn() -> ComputerInfo + Send + Sync>,
}

struct HostedJob {
    submitted: SubmittedJob,
    cancel: CancelToken,
    /// Inputs that are not here yet.
    download: Option<FileDownload>,
    /// Each with the bytes that follow it.
    events: Vec<(HostEvent, Vec<u8>)>,
    num_events: u64,
    growing: GrowingVideo,
    /// The client that gets its events.
    client: Option<u64>,
}

impl HostedJob {
    fn outcome(&self) -> Option<&JobOutcome> {
        match &self.events.last()?.0.update {
            HostUpdate::Update(JobUpdate::Ended(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Returns whether it ended without a result, so that another submission runs it again.
    fn has_stopped(&self) -> bool {
        self.outcome()
            .is_some_and(|outcome| outcome.output().is_none())
    }
}

/// Hosts jobs until it is idle. `start_worker` is called once, with a closure that the worker calls after each event.
pub fn run(
    options: HostOptions,
    start_worker: impl FnOnce(WorkerWake) -> io::Result<WorkerHandle>,
) -> Result<(), JobError> {
    let folder = options.paths.data.clone();
    let disk = |err: io::Error| JobError::disk("the folder for jobs of other computers", &err);
    make_private_folder(&folder).map_err(disk)?;
    let _lock = match FileLock::take(&folder.join("worker.lock")) {
        Ok(lock) => lock,
        // Clients go to that one.
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(err) => return Err(disk(err)),
    };
    let store = InputStore::open(&folder).map_err(disk)?;
    let socket = socket_in(&folder);
    // Of a process that was killed.
    fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).map_err(disk)?;
    make_private(&socket).map_err(disk)?;
    let (inputs, received) = bounded(INPUT_ROOM);
    let by_worker = inputs.clone();
    let worker = start_worker(Box::new(move || {
        // A full channel wakes the thread too.
        by_worker.try_send(HostInput::Worker).ok();
    }));
    let worker = worker.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    let look = Arc::clone(&options.look);
    spawn("clients", move || accept(&listener, &inputs, &look));
    let mut out = io::stdout();
    // Nobody else reads it afterwards.
    writeln!(out, "{READY}").and_then(|()| out.flush()).ok();
    let host = JobHost {
        options,
        store,
        worker,
        jobs: BTreeMap::new(),
        waiting: VecDeque::new(),
        running: None,
        clients: HashMap::new(),
    };
    host.work(&received, &socket);
    fs::remove_file(&socket).ok();
    Ok(())
}

struct JobHost {
    options: HostOptions,
    store: InputStore,
    worker: WorkerHandle,
    jobs: BTreeMap<JobId, HostedJob>,
    waiting: VecDeque<JobId>,
    running: Option<JobId>,
    clients: HashMap<u64, Sender<Outgoing>>,
}

impl JobHost {
    fn work(mut self, received: &Receiver<HostInput>, socket: &Path) {
        let mut used = Instant::now();
        loop {
            let has_result =
                |job: &HostedJob| job.outcome().is_some_and(|it| it.output().is_some());
            let limit = if self.jobs.values().any(has_result) {
                RESULTS_WAIT
            } else {
                IDLE
            };
            if used.elapsed() > limit || !socket.exists() {
                return;
            }
            match received.recv_timeout(POLL) {
                Ok(HostInput::Joined(client, sender)) => {
                    self.clients.insert(client, sender);
                }
                Ok(HostInput::Left(client)) => {
                    self.clients.remove(&client);
                }
                Ok(HostInput::Message(client, message, bytes)) => {
                    self.take(client, message, &bytes);
                }
                Ok(HostInput::Worker) | Err(_) => {}
            }
            let events: Vec<_> = self.worker.drain().collect();
            for event in events {
                self.take_update(event.id, event.update);
            }
            self.start_next();
            if self.running.is_some() || !self.clients.is_empty() {
                used = Instant::now();
            }
        }
    }

    fn take(&mut self, client: u64, message: ClientMessage, bytes: &[u8]) {
        match message {
            ClientMessage::Submit(job) => self.submit(client, *job),
            ClientMessage::Part(part) => self.take_input(part, bytes),
            ClientMessage::Cancel(id) => self.stop(id, CancelToken::cancel, JobOutcome::Cancelled),
            ClientMessage::Pause(id) => self.stop(id, CancelToken::pause, JobOutcome::Paused),
            ClientMessage::WaitNoMore(id) => {
                if let Some(job) = self.jobs.get(&id) {
                    job.cancel.wait_no_more();
                }
            }
            ClientMessage::Fetch(part) => {
                let job = self.jobs.get(&part.id);
                let files = job.and_then(|job| job.events.last());
                let file = files.and_then(|(event, _)| event.files.get(part.file));
                let bytes = part.read(file.map(|file| &file.path));
                self.send(client, HostMessage::Part(part), bytes);
            }
            ClientMessage::Forget(id) => {
                if self.running != Some(id) {
                    self.jobs.remove(&id);
                    fs::remove_dir_all(self.results(id)).ok();
                    fs::remove_dir_all(self.store.job_folder(id)).ok();
                }
            }
        }
    }

    /// Folder of what is finished of a job.
    fn folder(&self, id: JobId) -> PathBuf {
        self.options.paths.jobs().join(id.to_string())
    }

    /// Folder of the result files of a job.
    fn results(&self, id: JobId) -> PathBuf {
        self.options.paths.data.join("results").join(id.to_string())
    }

    fn send(&self, client: u64, message: HostMessage, bytes: Vec<u8>) {
        if let Some(client) = self.clients.get(&client) {
            // One that is gone reads nothing.
            client.send((message, bytes)).ok();
        }
    }

    fn submit(&mut self, client: u64, submitted: SubmittedJob) {
        let (id, after) = (submitted.id, submitted.after);
        if let Some(job) = self.jobs.get_mut(&id)
            && !(job.has_stopped() && after == 0)
        {
            job.client = Some(client);
            let events = job.events.iter().filter(|(event, _)| event.number > after);
            let events: Vec<(HostEvent, Vec<u8>)> = events.cloned().collect();
            for (event, bytes) in events {
                self.send(client, HostMessage::Event(event), bytes);
            }
            return self.fetch_input(id);
        }
        let download = self.store.download(id, &submitted.inputs);
        let job = HostedJob {
            submitted,
            cancel: CancelToken::default(),
            download: download.clone().ok(),
            events: Vec::new(),
            num_events: after,
            growing: GrowingVideo::default(),
            client: Some(client),
        };
        self.jobs.insert(id, job);
        match download {
            Ok(_) if after > 0 => {
                let what = "the worker ended while the job ran";
                let err = JobError::new(JobErrorKind::EngineLost, what);
                let advice = "Run the job again: it continues from what is finished there";
                self.fail(id, err.advise(advice).keeping(self.folder(id)));
            }
            Ok(download) => {
                if download.next().is_some() {
                    let line = format!("Sending {}", size_text(download.size()));
                    self.take_update(id, JobUpdate::Device(line));
                }
                self.fetch_input(id);
            }
            Err(err) => self.fail(id, err),
        }
    }

    fn fail(&mut self, id: JobId, err: JobError) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.download = None;
        }
        self.take_update(id, JobUpdate::Ended(JobOutcome::Failed(err)));
    }

    fn take_input(&mut self, part: FilePart, bytes: &[u8]) {
        let job = self.jobs.get_mut(&part.id);
        if let Some(download) = job.and_then(|job| job.download.as_mut()) {
            match download.take(part, bytes) {
                Ok(()) => self.fetch_input(part.id),
                Err(err) => self.fail(part.id, err),
            }
        }
    }

    /// Asks for the next part of the inputs; with all of them the job waits for its turn.
    fn fetch_input(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if let Some(part) = job.download.as_ref().and_then(FileDownload::next) {
            if let Some(client) = job.client {
                self.send(client, HostMessage::Fetch(part), Vec::new());
            }
            return;
        }
        if job.download.take().is_none() {
            return;
        }
        match self.prepare(id) {
            Ok(notices) => {
                self.waiting.push_back(id);
                if self.running.is_some() {
                    let line = "Waits for another job there".to_owned();
                    self.take_update(id, JobUpdate::Device(line));
                }
                for notice in notices {
                    self.take_update(id, JobUpdate::Warning(notice));
                }
            }
            Err(err) => self.fail(id, err),
        }
    }

    /// Gives a job paths and settings of this computer; returns notices.
    fn prepare(&mut self, id: JobId) -> Result<Vec<String>, JobError> {
        let folder = self.results(id);
        make_private_folder(&folder)
            .map_err(|err| JobError::disk("the folder for results cannot be made", &err))?;
        let job = self.jobs.get_mut(&id).map(|job| &mut job.submitted);
        let Some((JobRequest::Generate(request), inputs)) =
            job.map(|job| (&mut job.request, &job.inputs))
        else {
            let what = "only new images and videos are made for other computers";
            return Err(JobError::invalid(what));
        };
        self.store.place(id, inputs, request)?;
        request.out = folder.join(request.out.file_name().unwrap_or_default());
        request.is_out_automatic = false;
        request.options.capture = None;
        let settings = (self.options.settings)();
        request.options.memory = settings.memory.choice();
        request.options.dtype = settings.runtime.dtype;
        let index = LoraIndex::new(&self.options.paths, &settings);
        let notices = request.take_prompt_loras(&index, [true; 2], [false; 2]);
        let notices = notices.map_err(|errors| {
            let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
            JobError::invalid(messages.join("; "))
        })?;
        Ok(notices.into_iter().map(|notice| notice.message).collect())
    }

    /// Stops a job. One that does not run yet ends at once.
    fn stop(&mut self, id: JobId, stop: impl Fn(&CancelToken), outcome: JobOutcome) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        stop(&job.cancel);
        if self.running != Some(id) && job.outcome().is_none() {
            job.download = None;
            self.waiting.retain(|waiting| *waiting != id);
            self.take_update(id, JobUpdate::Ended(outcome));
        }
    }

    fn start_next(&mut self) {
        if self.running.is_some() {
            return;
        }
        let Some(id) = self.waiting.pop_front() else {
            return;
        };
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        // An earlier run left it.
        let folder = self.folder(id);
        let command = WorkerCommand {
            id,
            request: job.submitted.request.clone(),
            device: (self.options.settings)().runtime.first_device(),
            cancel: job.cancel.clone(),
            resume: folder.is_dir().then_some(folder),
        };
        self.options.crf.store(job.submitted.crf, Ordering::Relaxed);
        self.running = Some(id);
        if self.worker.try_send(command).is_err() {
            let err = JobError::new(JobErrorKind::Internal, "the worker takes no jobs");
            self.fail(id, err);
        }
    }

    /// Stores an update, unless the next one replaces it, and sends it to its client.
    fn take_update(&mut self, id: JobId, update: JobUpdate) {
        let is_kept = !update.is_replaced();
        let mut files = Vec::new();
        let (update, bytes) = match update {
            // The client has named the result.
            JobUpdate::Settled { .. } => return,
            JobUpdate::Section(made) => {
                let Some(job) = self.jobs.get_mut(&id) else {
                    return;
                };
                match job.growing.pack(made) {
                    Ok((header, bytes)) => (HostUpdate::Section(header), bytes),
                    Err(err) => return tracing::warn!("a section is not sent: {err}"),
                }
            }
            JobUpdate::Preview(frame) => with_pixels(HostUpdate::Preview, &frame),
            JobUpdate::Frame(frame) => with_pixels(HostUpdate::Frame, &frame),
            JobUpdate::Ended(outcome) => {
                self.running = self.running.filter(|running| *running != id);
                let outcome = match self.result_files(id, &outcome) {
                    Ok(found) => {
                        files = found;
                        outcome
                    }
                    Err(err) => JobOutcome::Failed(JobError::disk("the result is lost", &err)),
                };
                (HostUpdate::Update(JobUpdate::Ended(outcome)), Vec::new())
            }
            update => (HostUpdate::Update(update), Vec::new()),
        };
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.num_events += 1;
        let event = HostEvent {
            id,
            number: job.num_events,
            update,
            files,
        };
        if is_kept {
            job.events.push((event.clone(), bytes.clone()));
        }
        let client = job.client;
        let sender = client.and_then(|client| self.clients.get(&client));
        let is_slow = sender.is_none_or(|sender| sender.len() > UNSENT);
        if let Some(client) = client.filter(|_| is_kept || !is_slow) {
            self.send(client, HostMessage::Event(event), bytes);
        }
    }

    fn result_files(&self, id: JobId, outcome: &JobOutcome) -> io::Result<Vec<ResultFile>> {
        if outcome.output().is_none() {
            return Ok(Vec::new());
        }
        let mut paths: Vec<PathBuf> = fs::read_dir(self.results(id))?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        paths.sort();
        let described = paths.into_iter().map(|path| {
            let content = FileContent::of(&path)?;
            Ok(ResultFile { path, content })
        });
        described.collect()
    }
}

fn with_pixels(
    update: impl Fn(PixelHeader) -> HostUpdate,
    frame: &PreviewFrame,
) -> (HostUpdate, Vec<u8>) {
    let header = PixelHeader {
        index: frame.index,
        count: frame.count,
        width: frame.image.width,
        height: frame.image.height,
    };
    (update(header), frame.image.planes())
}
