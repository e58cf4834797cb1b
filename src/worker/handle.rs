//! The near end of the worker: two bounded channels that never block their user.

use std::path::PathBuf;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use safelight_core::finish::FinishRequest;
use safelight_core::job::{
    CancelToken, DeviceChoice, GenerateRequest, JobId, JobRequest, JobUpdate,
};

/// How many events may wait. Lossy ones are dropped beyond that, the others wait for room.
const EVENT_ROOM: usize = 256;

/// What the worker is told. Quitting is dropping the handle.
#[derive(Clone, Debug)]
pub enum WorkerCommand {
    Generate {
        id: JobId,
        request: Box<GenerateRequest>,
        device: DeviceChoice,
        cancel: CancelToken,
        /// The folder of the same job, left behind by a program that ended before it.
        resume: Option<PathBuf>,
    },
    /// Makes something of a picture or clip that is there; the rest as for `Generate`.
    Finish {
        id: JobId,
        request: Box<FinishRequest>,
        device: DeviceChoice,
        cancel: CancelToken,
        resume: Option<PathBuf>,
    },
}

impl WorkerCommand {
    /// Begins a job of either kind.
    pub fn of(
        request: JobRequest,
        id: JobId,
        device: DeviceChoice,
        cancel: CancelToken,
        resume: Option<PathBuf>,
    ) -> Self {
        match request {
            JobRequest::Generate(request) => Self::Generate {
                id,
                request,
                device,
                cancel,
                resume,
            },
            JobRequest::Finish(request) => Self::Finish {
                id,
                request,
                device,
                cancel,
                resume,
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct WorkerEvent {
    pub id: JobId,
    pub update: JobUpdate,
}

/// The worker as the rest of the program sees it.
#[derive(Debug)]
pub struct WorkerHandle {
    commands: Sender<WorkerCommand>,
    events: Receiver<WorkerEvent>,
    gone: CancelToken,
}

impl Drop for WorkerHandle {
    /// Nobody will hear of the running job any more.
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// The other end of both channels, for the worker thread or a test.
#[derive(Debug)]
pub struct WorkerFarEnd {
    pub commands: Receiver<WorkerCommand>,
    pub events: Sender<WorkerEvent>,
    /// Set when the handle is dropped: a closed channel shows only to who sends.
    pub gone: CancelToken,
}

impl WorkerHandle {
    /// A handle without a thread behind it; a test plays the worker on the far end.
    pub fn detached() -> (Self, WorkerFarEnd) {
        let (command_sender, command_receiver) = bounded(1);
        let (event_sender, event_receiver) = bounded(EVENT_ROOM);
        let gone = CancelToken::default();
        (
            Self {
                commands: command_sender,
                events: event_receiver,
                gone: gone.clone(),
            },
            WorkerFarEnd {
                commands: command_receiver,
                events: event_sender,
                gone,
            },
        )
    }

    /// Hands over a job; gives it back when the worker is still busy with another or gone.
    pub fn try_send(&self, command: WorkerCommand) -> Result<(), WorkerCommand> {
        self.commands
            .try_send(command)
            .map_err(TrySendError::into_inner)
    }

    pub fn drain(&self) -> impl Iterator<Item = WorkerEvent> + '_ {
        self.events.try_iter()
    }

    /// Waits for the next event; `None` when the worker is gone. For the command line, never for
    /// the window.
    pub fn wait(&self) -> Option<WorkerEvent> {
        self.events.recv().ok()
    }
}
