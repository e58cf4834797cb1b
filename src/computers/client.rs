//! A computer as a worker of this program: a thread that connects, sends jobs, and passes on what comes back.
//!
//! After a lost connection it reconnects; the job there continues, and the client gets the events that it missed.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use safelight_core::files::{read_json_or_default, write_optional_json};
use safelight_core::job::{CancelToken, JobError, JobFolder, JobId, JobRequest};
use safelight_core::job_update::{JobOutcome, JobUpdate};
use safelight_core::locks::FileLock;
use safelight_core::protocol::PixelHeader;
use safelight_core::settings::{AppPaths, Settings};

use super::inputs::describe;
use super::link::{ComputerLink, ComputerState};
use super::results::ResultDownload;
use super::sections::GrowingVideo;
use super::ssh::{ConnectionError, SshConnection, named};
use super::{ClientMessage, ComputerInfo, HostEvent, HostMessage, HostUpdate, SubmittedJob};
use crate::worker::{
    JobSources, OutputName, WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerWake, not_held,
    preview_frame,
};

const POLL: Duration = Duration::from_millis(30);
const IDLE_POLL: Duration = Duration::from_millis(200);
/// Shortest and longest time between two attempts to connect.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_mins(1)];
/// Attempts to connect before a job fails that was not sent yet.
pub const ATTEMPTS: u32 = 3;
/// Time that a job gets to stop when the program ends.
const PAUSE_WITHIN: Duration = Duration::from_secs(5);

/// Messages that stop jobs, by the computer that was not connected then; sent with the next connection.
type UnsentStops = BTreeMap<String, Vec<ClientMessage>>;

/// Starts the thread. It ends when the link is dropped; a job that is not stopped continues there.
pub fn connect(
    host: &str,
    paths: AppPaths,
    settings: Box<dyn Fn() -> Settings + Send>,
    wake: WorkerWake,
) -> io::Result<(ComputerLink, JoinHandle<()>)> {
    let (link, far) = ComputerLink::detached();
    let client = ComputerClient {
        host: host.to_owned(),
        paths,
        settings,
        wake,
        far: far.worker,
        states: far.states,
        retries: far.retries,
        job: None,
        loras: Vec::new(),
    };
    let thread = thread::Builder::new().name("computer".to_owned());
    let thread = thread.spawn(move || client.run())?;
    Ok((link, thread))
}

/// Connects, in that many attempts, and returns what the computer says of itself.
pub fn check(host: &str, attempts: u32) -> Result<ComputerInfo, JobError> {
    let mut retry = RETRY[0];
    for _ in 1..attempts {
        match SshConnection::open(host, &|| false) {
            Ok((_, info)) => return Ok(info),
            Err(failure) if failure.is_permanent => return Err(failure.error),
            Err(_) => thread::sleep(retry),
        }
        retry *= 2;
    }
    let found = SshConnection::open(host, &|| false);
    found.map(|(_, info)| info).map_err(|failure| failure.error)
}

/// The job that runs there.
struct RemoteJob {
    id: JobId,
    /// With the paths of this computer, for the window and the result.
    request: JobRequest,
    submitted: SubmittedJob,
    /// Paths of the input files here.
    files: Vec<PathBuf>,
    cancel: CancelToken,
    /// Stops that were passed on: the pause or the cancel, and the end of waiting for memory.
    sent: (Option<bool>, bool),
    /// The other computer may have begun it.
    is_accepted: bool,
    /// Folder here, from which the job is resumed; it has only the request.
    folder: JobFolder,
    _held: FileLock,
    growing: GrowingVideo,
    download: Option<ResultDownload>,
}

struct ComputerClient {
    host: String,
    paths: AppPaths,
    settings: Box<dyn Fn() -> Settings + Send>,
    wake: WorkerWake,
    far: WorkerFarEnd,
    states: Sender<ComputerState>,
    retries: Receiver<()>,
    job: Option<RemoteJob>,
    /// LoRAs there.
    loras: Vec<PathBuf>,
}

impl ComputerClient {
    fn run(mut self) {
        let (mut retry, mut num_failed) = (RETRY[0], 0);
        while !self.far.gone.is_cancelled() {
            self.tell(ComputerState::Connecting);
            let gone = self.far.gone.clone();
            let failure = match SshConnection::open(&self.host, &|| gone.is_cancelled()) {
                Ok((connection, info)) => {
                    (retry, num_failed) = (RETRY[0], 0);
                    self.loras.clone_from(&info.loras);
                    self.tell(ComputerState::Connected(Box::new(info)));
                    match self.serve(connection) {
                        Some(failure) => failure,
                        None => return,
                    }
                }
                Err(failure) => failure,
            };
            num_failed += 1;
            let may_help = !failure.is_permanent;
            match &self.job {
                Some(job) if may_help && (job.is_accepted || num_failed < ATTEMPTS) => {
                    let line = format!("{}. Connecting again", failure.error.summary);
                    self.event(job.id, JobUpdate::Device(line));
                }
                Some(job) if job.is_accepted => {
                    let err = failure.error.clone().keeping(job.folder.path());
                    self.end(JobOutcome::Failed(err));
                }
                _ => self.end(JobOutcome::Failed(failure.error.clone())),
            }
            self.tell(ComputerState::Failed(failure.error));
            self.wait(if failure.is_permanent {
                Duration::MAX
            } else {
                retry
            });
            retry = (2 * retry).min(RETRY[1]);
        }
    }

    fn tell(&self, state: ComputerState) {
        self.states.send(state).ok();
        (self.wake)();
    }

    /// Waits for the next attempt, which a new job or the user may bring forward.
    fn wait(&mut self, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time && !self.far.gone.is_cancelled() {
            match self.retries.recv_timeout(POLL) {
                Ok(()) => return,
                Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL),
                Err(RecvTimeoutError::Timeout) => {}
            }
            match &self.job {
                None => {
                    if let Ok(command) = self.far.commands.try_recv() {
                        return self.begin(&command);
                    }
                }
                Some(job) if job.cancel.is_cancelled() => self.stop_unconnected(),
                Some(_) => {}
            }
        }
    }

    /// Serves jobs until the connection ends; `None` when the program does.
    fn serve(&mut self, mut connection: SshConnection) -> Option<ConnectionError> {
        for stop in self.change_stops(std::mem::take) {
            // The next connection's failure is that of this one.
            connection.send(&stop, &[]).ok();
        }
        let mut is_sent = false;
        let mut gone_at = None;
        loop {
            if self.far.gone.is_cancelled() {
                let since = *gone_at.get_or_insert_with(Instant::now);
                let is_stopping = self
                    .job
                    .as_ref()
                    .is_some_and(|job| job.cancel.is_cancelled());
                if !is_stopping || since.elapsed() > PAUSE_WITHIN {
                    return None;
                }
            }
            if self.job.is_none() {
                is_sent = false;
                if let Ok(command) = self.far.commands.try_recv() {
                    self.begin(&command);
                }
            }
            let mut sent = Ok(());
            if let Some(job) = &mut self.job {
                if !is_sent {
                    (is_sent, job.sent) = (true, (None, false));
                    job.is_accepted = true;
                    sent = match &job.download {
                        Some(download) => fetch(download, &mut connection),
                        None => submit(job, &mut connection),
                    };
                }
                sent = sent.and_then(|()| pass_on_stops(job, &mut connection));
            }
            let poll = if self.job.is_some() { POLL } else { IDLE_POLL };
            let message = match sent {
                Ok(()) => connection.messages.recv_timeout(poll),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            };
            let taken = match message {
                Ok((message, bytes)) => self.take(message, bytes, &mut connection),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Some(connection.failure()),
            };
            if taken.is_err() {
                return Some(connection.failure());
            }
        }
    }

    /// Settles a job, and describes the files that it needs.
    fn begin(&mut self, command: &WorkerCommand) {
        let (id, cancel) = (command.id, command.cancel.clone());
        let settings = (self.settings)();
        let settled = JobSources::new(&self.paths, &settings).settle(command);
        let described = settled.and_then(|(request, notices)| {
            let JobRequest::Generate(mut there) = request.clone() else {
                let what = "finishing runs on this computer";
                return Err(JobError::invalid(what));
            };
            let own = format!("@{}", self.host);
            if let Some(id) = there.model.strip_suffix(&own) {
                there.model = id.to_owned();
            }
            let files = describe(&mut there, &self.loras)?;
            let folder = self.folder_of(id, &request)?;
            Ok((request, notices, JobRequest::Generate(there), files, folder))
        });
        let (request, notices, there, files, (folder, held)) = match described {
            Ok(described) => described,
            Err(err) => return self.event(id, JobUpdate::Ended(JobOutcome::Failed(err))),
        };
        let settled = JobUpdate::Settled {
            request: Box::new(request.clone()),
            notices,
        };
        self.event(id, settled);
        self.change_stops(|stops| stops.retain(|stop| stop.stopped_job() != Some(id)));
        let (files, inputs) = files.into_iter().unzip();
        self.job = Some(RemoteJob {
            id,
            request,
            submitted: SubmittedJob {
                id,
                request: there,
                inputs,
                crf: settings.output.crf,
                after: 0,
            },
            files,
            cancel,
            sent: (None, false),
            is_accepted: false,
            folder,
            _held: held,
            growing: GrowingVideo::default(),
            download: None,
        });
    }

    /// The job's folder here, with its lock.
    fn folder_of(
        &self,
        id: JobId,
        request: &JobRequest,
    ) -> Result<(JobFolder, FileLock), JobError> {
        let jobs = self.paths.jobs();
        let mut folder = JobFolder::open(jobs.join(id.to_string()));
        if !folder.path().is_dir() {
            folder = JobFolder::create(&jobs, id, request)
                .map_err(|err| JobError::disk("the job's folder cannot be created", &err))?;
        }
        let held = folder.hold().map_err(|err| not_held(&folder, &err))?;
        Ok((folder, held))
    }

    /// Changes the stops that are not sent yet.
    fn change_stops<T>(&self, change: impl FnOnce(&mut Vec<ClientMessage>) -> T) -> T {
        let file = self.paths.unsent_stops();
        let mut all: UnsentStops = read_json_or_default(&file);
        let stops = all.entry(self.host.clone()).or_default();
        let num_before = stops.len();
        let result = change(stops);
        if stops.len() != num_before {
            all.retain(|_, stops| !stops.is_empty());
            write_optional_json(&file, &all, "the stop of a job on another computer");
        }
        result
    }

    /// Ends a job that is stopped without a connection.
    fn stop_unconnected(&mut self) {
        let Some(job) = &self.job else {
            return;
        };
        let (stop, outcome) = if job.cancel.is_paused() {
            (ClientMessage::Pause(job.id), JobOutcome::Paused)
        } else {
            (ClientMessage::Cancel(job.id), JobOutcome::Cancelled)
        };
        if job.is_accepted {
            let host = &self.host;
            let text = format!(
                "there is no connection to {host}: the job continues there, and stops when Safelight connects again"
            );
            self.event(job.id, JobUpdate::Warning(text));
            self.change_stops(|stops| stops.push(stop));
        }
        self.end(outcome);
    }

    fn event(&self, id: JobId, update: JobUpdate) {
        let is_replaced = update.is_replaced();
        let event = WorkerEvent { id, update };
        // A receiver that is gone needs none.
        if is_replaced {
            self.far.events.try_send(event).ok();
        } else {
            self.far.events.send(event).ok();
        }
        (self.wake)();
    }

    /// Ends the job. Nothing else does once it has begun.
    fn end(&mut self, outcome: JobOutcome) {
        if let Some(job) = self.job.take() {
            let _name = OutputName(job.request.out());
            let is_kept = match &outcome {
                JobOutcome::Paused => true,
                JobOutcome::Failed(err) => err.kept.is_some(),
                _ => false,
            };
            if !is_kept && let Err(err) = job.folder.remove() {
                tracing::warn!("the folder of a finished job stays: {err}");
            }
            self.event(job.id, JobUpdate::Ended(outcome));
        }
    }

    /// Takes a message; fails when the connection does.
    fn take(
        &mut self,
        message: HostMessage,
        bytes: Vec<u8>,
        connection: &mut SshConnection,
    ) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        match message {
            HostMessage::Fetch(part) if part.id == job.id => {
                let bytes = part.read(job.files.get(part.file));
                connection.send(&ClientMessage::Part(part), &bytes)
            }
            HostMessage::Event(event) if event.id == job.id => {
                self.take_event(event, bytes, connection)
            }
            HostMessage::Part(part) => {
                let Some(download) = &mut job.download else {
                    return Ok(());
                };
                if let Err(err) = download.files.take(part, &bytes) {
                    self.end(JobOutcome::Failed(err));
                    return Ok(());
                }
                self.continue_download(connection)
            }
            _ => Ok(()),
        }
    }

    fn take_event(
        &mut self,
        event: HostEvent,
        bytes: Vec<u8>,
        connection: &mut SshConnection,
    ) -> io::Result<()> {
        let HostEvent {
            id,
            number,
            update,
            files,
        } = event;
        let Some(job) = self.job.as_mut().filter(|job| number > job.submitted.after) else {
            return Ok(());
        };
        job.submitted.after = number;
        let pixels = |kind: fn(_) -> JobUpdate, header: PixelHeader, bytes| {
            preview_frame(header, bytes).map(kind)
        };
        let update = match update {
            HostUpdate::Preview(header) => pixels(JobUpdate::Preview, header, bytes),
            HostUpdate::Frame(header) => pixels(JobUpdate::Frame, header, bytes),
            HostUpdate::Update(JobUpdate::Ended(outcome)) => {
                job.download = ResultDownload::new(id, &outcome, files, &job.request);
                if job.download.is_some() {
                    return self.continue_download(connection);
                }
                let outcome = match outcome {
                    JobOutcome::Failed(err) => {
                        let folder = Some(job.folder.path());
                        JobOutcome::Failed(named(&self.host, err, folder))
                    }
                    outcome => outcome,
                };
                if matches!(outcome, JobOutcome::Cancelled) {
                    connection.send(&ClientMessage::Forget(id), &[]).ok();
                }
                self.end(outcome);
                return Ok(());
            }
            HostUpdate::Section(header) => {
                let made = job.growing.unpack(&self.host, header, &bytes);
                let made = made.inspect_err(|err| tracing::warn!("a section is not shown: {err}"));
                made.ok().map(JobUpdate::Section)
            }
            HostUpdate::Update(JobUpdate::Device(line)) => {
                Some(JobUpdate::Device(format!("{}: {line}", self.host)))
            }
            HostUpdate::Update(update) => Some(update),
        };
        if let Some(update) = update {
            self.event(id, update);
        }
        Ok(())
    }

    /// Asks for the next part of the result, or ends the job with it.
    fn continue_download(&mut self, connection: &mut SshConnection) -> io::Result<()> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        let Some(download) = job
            .download
            .take_if(|download| download.files.next().is_none())
        else {
            return job
                .download
                .as_ref()
                .map_or(Ok(()), |it| fetch(it, connection));
        };
        let outcome = download.finish(&job.request);
        // Otherwise the other computer forgets it in time.
        connection.send(&ClientMessage::Forget(job.id), &[]).ok();
        self.end(outcome);
        Ok(())
    }
}

fn submit(job: &RemoteJob, connection: &mut SshConnection) -> io::Result<()> {
    let submitted = Box::new(job.submitted.clone());
    connection.send(&ClientMessage::Submit(submitted), &[])
}

fn fetch(download: &ResultDownload, connection: &mut SshConnection) -> io::Result<()> {
    match download.files.next() {
        Some(part) => connection.send(&ClientMessage::Fetch(part), &[]),
        None => Ok(()),
    }
}

/// Passes on a cancel, a pause and the end of waiting, each once for a connection.
fn pass_on_stops(job: &mut RemoteJob, connection: &mut SshConnection) -> io::Result<()> {
    if job.cancel.waits_no_more() && !std::mem::replace(&mut job.sent.1, true) {
        connection.send(&ClientMessage::WaitNoMore(job.id), &[])?;
    }
    let stop = job.cancel.is_cancelled().then(|| job.cancel.is_paused());
    if stop == std::mem::replace(&mut job.sent.0, stop) {
        return Ok(());
    }
    let message = match stop {
        Some(true) => ClientMessage::Pause(job.id),
        _ => ClientMessage::Cancel(job.id),
    };
    connection.send(&message, &[])
}
