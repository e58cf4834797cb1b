//! A computer as a worker of this program: a thread that connects, sends jobs, and passes on what comes back.
//!
//! After a lost connection it reconnects; the job there continues, and the client gets the events that it missed.

use std::io;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use safelight_core::job::{CancelToken, JobError, JobId, JobRequest};
use safelight_core::job_update::{JobOutcome, JobUpdate};
use safelight_core::protocol::PixelHeader;
use safelight_core::settings::{AppPaths, Settings};

use super::inputs::describe;
use super::results::ResultDownload;
use super::ssh::{ConnectionError, SshConnection, named};
use super::{ClientMessage, ComputerInfo, HostEvent, HostMessage, HostUpdate, SubmittedJob};
use crate::worker::{
    JobSources, WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle, WorkerWake, preview_frame,
};

/// States that may wait.
const STATE_ROOM: usize = 64;
const POLL: Duration = Duration::from_millis(30);
const IDLE_POLL: Duration = Duration::from_millis(200);
/// Shortest and longest time between two attempts to connect.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_mins(1)];
/// Attempts to connect before a job fails that was not sent yet.
const ATTEMPTS: u32 = 3;
/// Time that a job gets to stop when the program ends.
const PAUSE_WITHIN: Duration = Duration::from_secs(5);

/// State of a computer.
#[derive(Clone, Debug)]
pub enum ComputerState {
    Connecting,
    Connected(Box<ComputerInfo>),
    Failed(JobError),
}

/// A computer as the rest of the program sees it.
#[derive(Debug)]
pub struct ComputerLink {
    pub worker: WorkerHandle,
    pub states: Receiver<ComputerState>,
    retries: Sender<()>,
}

/// Other end of a link, for its thread or a test.
#[derive(Debug)]
pub struct ComputerFarEnd {
    pub worker: WorkerFarEnd,
    pub states: Sender<ComputerState>,
    pub retries: Receiver<()>,
}

impl ComputerLink {
    /// A link without a thread: a test is the computer at the far end.
    pub fn detached() -> (Self, ComputerFarEnd) {
        let (worker, far) = WorkerHandle::detached();
        let (state_sender, states) = bounded(STATE_ROOM);
        let (retries, retry_receiver) = bounded(1);
        let link = Self {
            worker,
            states,
            retries,
        };
        let far = ComputerFarEnd {
            worker: far,
            states: state_sender,
            retries: retry_receiver,
        };
        (link, far)
    }

    /// Tries to connect at once, where it is not connected.
    pub fn reconnect(&self) {
        self.retries.try_send(()).ok();
    }
}

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
        ended: Vec::new(),
    };
    let thread = thread::Builder::new().name("computer".to_owned());
    let thread = thread.spawn(move || client.run())?;
    Ok((link, thread))
}

/// Connects once, and returns what the computer says of itself.
pub fn check(host: &str) -> Result<ComputerInfo, JobError> {
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
    /// Jobs that were cancelled without a connection.
    ended: Vec<JobId>,
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
                Some(job) if job.cancel.is_paused() => self.end(JobOutcome::Paused),
                Some(job) if job.cancel.is_cancelled() => {
                    self.ended.push(job.id);
                    self.end(JobOutcome::Cancelled);
                }
                Some(_) => {}
            }
        }
    }

    /// Serves jobs until the connection ends; `None` when the program does.
    fn serve(&mut self, mut connection: SshConnection) -> Option<ConnectionError> {
        for id in std::mem::take(&mut self.ended) {
            connection.send(&ClientMessage::Cancel(id), &[]).ok();
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
        let sources = JobSources::new(&self.paths, &settings);
        let settled = sources.settle(&WorkerCommand {
            resume: None,
            ..command.clone()
        });
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
            Ok((request, notices, JobRequest::Generate(there), files))
        });
        let (request, notices, there, files) = match described {
            Ok(described) => described,
            Err(err) => return self.event(id, JobUpdate::Ended(JobOutcome::Failed(err))),
        };
        let settled = JobUpdate::Settled {
            request: Box::new(request.clone()),
            notices,
        };
        self.event(id, settled);
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
            download: None,
        });
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
                    JobOutcome::Failed(err) => JobOutcome::Failed(named(&self.host, err)),
                    outcome => outcome,
                };
                if matches!(outcome, JobOutcome::Cancelled) {
                    connection.send(&ClientMessage::Forget(id), &[]).ok();
                }
                self.end(outcome);
                return Ok(());
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
